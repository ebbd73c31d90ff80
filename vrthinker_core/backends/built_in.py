"""The built-in judge: where its checkpoint lies, what it is called, and what must be known of it."""

from vrthinker_core.__about__ import ASSETS

NANO = ASSETS / "nano"
NANO_NAME = "nano (built in)"

NANO_LIMITS = "It knows a small drawn world and damage to picture or motion; it cannot judge whether real footage follows a prompt."
"""Part of every note about it."""

NANO_NOTE = f"This is the built-in judge. {NANO_LIMITS}"
