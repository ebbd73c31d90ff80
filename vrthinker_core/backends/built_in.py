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

BETTER_JUDGE = (
    "For the published 7B start the page as python app.py --judge hf:qunwang13/vrthinker "
    "on a machine with a GPU, "
    "or as python app.py --judge server:URL#MODEL with a server that runs it."
)
"""Shown beside such a note if a person can choose a judge."""

NANO_NOTE = f"Demo judge. {NANO_LIMITS}"
