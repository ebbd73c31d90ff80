"""The built-in judge: where its checkpoint lies, what it is called, and what must be known of it."""

from vrthinker_core.__about__ import ASSETS

DEFAULT_CHECKPOINT = "qunwang13/vrthinker"
"""Hub id of the published 7B checkpoint: the default on a GPU that has room for it."""

NANO = ASSETS / "nano"
NANO_NAME = "nano (built in)"

NANO_LIMITS = "It understands only simple drawn scenes such as the examples, and gives no verdict on other videos."
"""Part of every note about it."""

BETTER_JUDGE = (
    "For the published 7B start the page as python app.py --judge hf:qunwang13/vrthinker where there is a GPU, "
    "or as python app.py --judge server:URL#MODEL with a server that runs it."
)
"""Said beside such a note where a person could choose a judge."""

NANO_NOTE = f"This is the demo judge. {NANO_LIMITS}"
