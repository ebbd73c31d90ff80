"""Files come by upload, or from the web by our own careful hands: nobody names one of this machine's, and nobody sends Gradio out
to fetch one of whatever size, from wherever, with its refusals unexplained.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr
from gradio.exceptions import InvalidPathError

from vrthinker_core.errors import BadInput

NOT_UPLOADED = "This file was not uploaded here. Upload it first, and name it by the path that the upload gave."

Fetch = Callable[[str], Path]
"""A web address to a file among the uploads. Raises BadInput with a sentence."""


class LeanBlocks(gr.Blocks):
    """Blocks that do not rebuild what an event leaves alone, and that can forget a visitor."""

    async def postprocess_data(self, block_fn: Any, predictions: Any, state: Any) -> list[Any]:
        """As Gradio does, for those outputs that change."""
        stays = gr.skip()
        told: Any = predictions
        if told == stays:
            told = [dict(stays) for _ in block_fn.outputs]
        if not isinstance(told, list | tuple) or stays not in told:
            found: list[Any] = await super().postprocess_data(block_fn, predictions, state)
            return found
        changing = copy.copy(block_fn)
        changing.outputs = [part for part, value in zip(block_fn.outputs, told, strict=True) if value != stays]
        values: Any = [value for value in told if value != stays]
        made = iter(await super().postprocess_data(changing, values if len(values) > 1 else values[0], state) if values else ())
        return [dict(stays) if value == stays else next(made) for value in told]

    def forget_session(self, visitor: str) -> None:
        """Drop what is kept of a visitor who has left, by the session's name."""
        holder = self.state_holder
        with holder.lock:
            holder.session_data.pop(visitor, None)
            holder.time_last_used.pop(visitor, None)


class CheckedBlocks(LeanBlocks):
    """Blocks whose inputs hold uploaded files, web addresses that `fetch` takes, or none; all else is refused with a sentence."""

    fetch: Fetch

    async def preprocess_data(self, block_fn: Any, inputs: list[Any], *rest: Any, **more: Any) -> list[Any]:
        """As Gradio does, after the web addresses have become files and what was left out is what it is by default."""
        whole = [*inputs, *(part.value for part in block_fn.inputs[len(inputs) :])]
        try:
            brought = await asyncio.to_thread(self._with_fetched_files, whole) if _has_address(whole) else whole
            found: list[Any] = await super().preprocess_data(block_fn, brought, *rest, **more)
        except BadInput as bad:
            raise gr.Error(str(bad), print_exception=False) from None
        except InvalidPathError:
            raise gr.Error(NOT_UPLOADED, print_exception=False) from None
        return found

    def _with_fetched_files(self, value: Any) -> Any:
        """The same input with a file in the place of every web address."""
        if isinstance(value, list | tuple):
            return [self._with_fetched_files(part) for part in value]
        if not isinstance(value, dict):
            return value
        if not _is_address(value):
            return {name: self._with_fetched_files(part) for name, part in value.items()}
        if not value["path"].lower().startswith(("http://", "https://")):
            raise BadInput(NOT_UPLOADED)
        return {**value, "path": str(self.fetch(value["path"]))}


def _has_address(value: object) -> bool:
    """Whether a file anywhere in an input is named by an address."""
    if isinstance(value, dict):
        return _is_address(value) or any(map(_has_address, value.values()))
    return isinstance(value, list | tuple) and any(map(_has_address, value))


def _is_address(value: dict[str, Any]) -> bool:
    path = value.get("path")
    return isinstance(path, str) and "meta" in value and "://" in path
