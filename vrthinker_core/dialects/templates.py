"""The prompts of the published cards, byte for byte, as the text files in `prompts/`.

A `{{name}}` in a file is a placeholder. All are replaced in one pass, so a placeholder in a value is never replaced.
"""

import re
from importlib.resources import files


def prompt_text(name: str, **values: str) -> str:
    """The text of prompts/`name`.txt with each placeholder replaced from `values`. Raises KeyError for one without a value."""
    template = files("vrthinker_core.dialects").joinpath("prompts", f"{name}.txt").read_bytes().decode("utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: values[placeholder[1]], template)
