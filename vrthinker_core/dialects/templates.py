"""The prompts of the published cards, byte for byte, as the text files in `prompts/`.

A `{{name}}` in a file is a placeholder. All are replaced in one pass, so a placeholder in a value is never replaced.
"""

import functools
import re
from importlib.resources import files


def prompt_text(name: str, **values: str) -> str:
    """The text of prompts/`name`.txt with each placeholder replaced from `values`. Raises KeyError for one without a value."""
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: values[placeholder[1]], _template(name))


@functools.cache  # read once: a run that begins while no file can be opened has its prompts all the same
def _template(name: str) -> str:
    return (
        files("vrthinker_core.dialects")
        .joinpath("prompts", f"{name}.txt")
        .read_bytes()
        .decode("utf-8")
    )
