"""The prompts of the published cards, byte for byte.

They are the text files in `prompts/`. A `{{name}}` in a file is a placeholder. All placeholders are
replaced in one pass, so a placeholder in a value is never replaced.
"""

import functools
import re
from importlib.resources import files


def prompt_text(name: str, **values: str) -> str:
    """Return the text of prompts/`name`.txt, with `values` for its placeholders.

    Raises `KeyError` for a placeholder without a value.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda placeholder: values[placeholder[1]], _template(name))


# Cached, so that a run can begin even when no more files can be opened
@functools.cache
def _template(name: str) -> str:
    return (
        files("vrthinker_core.dialects")
        .joinpath("prompts", f"{name}.txt")
        .read_bytes()
        .decode("utf-8")
    )
