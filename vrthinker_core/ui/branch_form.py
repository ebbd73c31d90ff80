"""The form of "What if" for the page's script: its labels and choices."""

from collections.abc import Sequence
from typing import Any

from vrthinker_core.branch_plan import MAX_FRAMES
from vrthinker_core.protocols.sanitize import MAX_PROMPT
from vrthinker_core.types.settings import OWN, setting
from vrthinker_core.ui import settings_form, words


def form_json(judges: Sequence[str]) -> dict[str, Any]:
    """Return labels by name, (name, value) of each memory window, and the limits."""
    windows = [choice for choice in settings_form.choices(setting("window")) if choice[1] != OWN]
    return {
        "words": dict(words.FORM),
        "windows": windows,
        "judges": list(judges),
        "maxFrames": MAX_FRAMES,
        "maxPrompt": MAX_PROMPT,
    }
