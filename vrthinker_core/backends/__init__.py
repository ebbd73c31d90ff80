"""The judges, and `open_backend`; importing this imports neither torch nor transformers."""

from vrthinker_core.backends.base import Backend, Conversation
from vrthinker_core.backends.factory import default_choice, open_backend
from vrthinker_core.backends.judge_name import DEFAULT_CHECKPOINT, NANO, NANO_LIMITS, NANO_NAME
from vrthinker_core.backends.scripted import ScriptedBackend

__all__ = [
    "DEFAULT_CHECKPOINT",
    "NANO",
    "NANO_LIMITS",
    "NANO_NAME",
    "Backend",
    "Conversation",
    "ScriptedBackend",
    "default_choice",
    "open_backend",
]
