"""The two published prompt protocols: messages to a judge, and reply parsing."""

from vrthinker_core.dialects.base import Dialect
from vrthinker_core.dialects.concat import Concat
from vrthinker_core.dialects.factory import make_dialect, with_defaults
from vrthinker_core.dialects.paired import Paired
from vrthinker_core.dialects.reading.reply import to_expected
from vrthinker_core.dialects.sanitize import sanitize_prompt

__all__ = [
    "Concat",
    "Dialect",
    "Paired",
    "make_dialect",
    "sanitize_prompt",
    "to_expected",
    "with_defaults",
]
