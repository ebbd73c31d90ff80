"""The built-in judge: its checkpoint, names and notes."""

from vrthinker_core.__about__ import ASSETS

DEFAULT_CHECKPOINT = "qunwang13/vrthinker"
"""Hub id of the published 7B checkpoint, the default on a GPU with room for it."""

NANO = ASSETS / "nano"
NANO_NAME = "nano (built in)"

NANO_LIMITS = (
    "It understands only simple drawn scenes like the examples. "
    "For real videos choose another judge."
)
"""A part of every note about the built-in judge."""

NANO_NOTE = f"Demo judge. {NANO_LIMITS}"
