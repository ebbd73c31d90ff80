"""The form of "What if" as the page's script is given it: its labels, and what can be chosen."""

from collections.abc import Sequence
from typing import TypedDict

from vrthinker_core.branch_plan import MAX_FRAMES
from vrthinker_core.protocols.sanitize import MAX_PROMPT
from vrthinker_core.types.settings import OWN, setting
from vrthinker_core.ui import settings_form, words


class BranchFormJson(TypedDict):
    """Labels by the names that the script knows; (name, value) of each memory window; the judges."""

    words: dict[str, str]
    windows: list[tuple[str, str]]
    judges: list[str]
    maxFrames: int
    maxPrompt: int


def form_json(judges: Sequence[str]) -> BranchFormJson:
    """The form of a page that offers these judges."""
    windows = [choice for choice in settings_form.choices(setting("window")) if choice[1] != OWN]
    return {
        "words": dict(words.FORM),
        "windows": windows,
        "judges": list(judges),
        "maxFrames": MAX_FRAMES,
        "maxPrompt": MAX_PROMPT,
    }
