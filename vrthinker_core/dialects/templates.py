"""The prompts of the published cards, byte for byte, as the text files in `prompts/`.

A `{{name}}` in a file is a place to fill. All are filled in one pass, so that nothing filled in is ever read as a place again.
"""

from __future__ import annotations

import re
from importlib.resources import files


def prompt_text(name: str, **values: str) -> str:
    """The text of prompts/`name`.txt with each `{{place}}` filled from `values`. Raises KeyError for a place without a value."""
    template = files("vrthinker_core.dialects").joinpath("prompts", f"{name}.txt").read_bytes().decode("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda place: values[place[1]], template)
