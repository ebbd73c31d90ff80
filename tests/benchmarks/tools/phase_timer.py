"""Where the time goes: phases by hand, and the two halves of a model by hooks. What a phase contains is not counted twice."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

PHASES = ("video", "preprocess", "vision", "prefill", "decode")


class PhaseTimer:
    """Wall seconds per phase since the last `take`. A phase inside another one interrupts it."""

    def __init__(self) -> None:
        self._spent = dict.fromkeys(PHASES, 0.0)
        self._stack: list[str] = []
        self._since = time.perf_counter()

    def lap(self) -> dict[str, float]:
        """The seconds of each phase; they begin again at 0."""
        spent, self._spent = self._spent, dict.fromkeys(PHASES, 0.0)
        return spent

    def enter(self, name: str) -> None:
        self._book()
        self._stack.append(name)

    def leave(self) -> None:
        self._book()
        self._stack.pop()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count what happens inside as `name`."""
        self.enter(name)
        try:
            yield
        finally:
            self.leave()

    def attach(self, model: Qwen2_5_VLForConditionalGeneration) -> list[Any]:
        """Count the vision tower as "vision", and the language model as "prefill" where it reads more than one token.

        On a GPU both wait for it. Gives hooks to `remove`.
        """

        def begin(module: Any, args: Any, kwargs: Any) -> None:
            ids = kwargs.get("inputs_embeds", kwargs.get("input_ids"))
            self.enter("decode" if ids is not None and ids.shape[1] == 1 else "prefill")

        eye, mind = model.model.visual, model.model.language_model
        return [
            eye.register_forward_pre_hook(lambda *_: self.enter("vision")),
            eye.register_forward_hook(lambda *_: self.leave()),
            mind.register_forward_pre_hook(begin, with_kwargs=True),
            mind.register_forward_hook(lambda *_: self.leave()),
        ]

    def _book(self) -> None:
        if torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._stack:
            self._spent[self._stack[-1]] += now - self._since
        self._since = now


class TimedCall:
    """Whatever is called, counted as "preprocess"."""

    def __init__(self, inner: Any, watch: PhaseTimer) -> None:
        self._inner, self._watch = inner, watch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._watch.phase("preprocess"):
            return self._inner(*args, **kwargs)
