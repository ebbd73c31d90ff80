"""Files come by upload alone: nobody names one of this machine's, and nobody sends the server out to fetch one.

Gradio itself fetches what an input names by a web address, of whatever size, and leaves its refusals unexplained.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr
from gradio.exceptions import InvalidPathError

NOT_UPLOADED = "This file was not uploaded here. Upload it first, and name it by the path that the upload gave."


class UploadsOnly(gr.Blocks):
    """Blocks whose inputs hold uploaded files or none; everything else is refused with a sentence."""

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *rest: Any, **more: Any) -> list[Any]:
        """As Gradio does, where the inputs name nothing but uploads."""
        if any("://" in path for path in _paths(inputs)):
            raise gr.Error(NOT_UPLOADED, print_exception=False)
        try:
            found: list[Any] = await super().preprocess_data(block_fn, inputs, *rest, **more)
        except InvalidPathError:
            raise gr.Error(NOT_UPLOADED, print_exception=False) from None
        return found


def _paths(value: object) -> Iterator[str]:
    """Every path of a file that stands anywhere in an input."""
    if isinstance(value, dict):
        path = value.get("path")
        if isinstance(path, str) and "meta" in value:
            yield path
        for part in value.values():
            yield from _paths(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _paths(part)
