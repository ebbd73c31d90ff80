"""The two published prompt protocols: messages to a judge, and reply parsing."""

from vrthinker_core.protocols.base import Dialect
from vrthinker_core.protocols.concat import Concat
from vrthinker_core.protocols.factory import make_dialect, with_defaults
from vrthinker_core.protocols.paired import Paired
from vrthinker_core.protocols.parser import to_expected
from vrthinker_core.protocols.sanitize import sanitize_prompt

__all__ = [
    "Concat",
    "Dialect",
    "Paired",
    "make_dialect",
    "sanitize_prompt",
    "to_expected",
    "with_defaults",
]
