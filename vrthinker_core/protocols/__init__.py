"""The two published prompt protocols: messages to a judge, and reply parsing."""

from vrthinker_core.protocols.base import PromptProtocol, sanitize_prompt
from vrthinker_core.protocols.concat import Concat
from vrthinker_core.protocols.factory import make_protocol, with_defaults
from vrthinker_core.protocols.paired import Paired
from vrthinker_core.protocols.parser import to_expected

__all__ = [
    "Concat",
    "Paired",
    "PromptProtocol",
    "make_protocol",
    "sanitize_prompt",
    "to_expected",
    "with_defaults",
]
