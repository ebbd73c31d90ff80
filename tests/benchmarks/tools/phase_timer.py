"""Wall time per phase (some are entered by hand, the model's by hooks), and processor time."""

from __future__ import annotations

import inspect
import resource
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

PHASES = ("video", "preprocess", "vision", "prefill", "decode")


class PhaseTimer:
    """Wall seconds per phase since the last `lap`. A phase inside another one interrupts it: no second is counted twice."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._stack: list[str] = []
        self._since = time.perf_counter()

    def lap(self) -> dict[str, float]:
        """The seconds of each phase; they start again at 0."""
        seconds, self._seconds = self._seconds, dict.fromkeys(PHASES, 0.0)
        return seconds

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the block as `name`."""
        self._enter(name)
        try:
            yield
        finally:
            self._leave()

    def attach(self, model: Qwen2_5_VLForConditionalGeneration) -> list[Any]:
        """Count the vision tower as "vision", and the language model as "prefill" or, for a single token, as "decode".

        On a GPU each phase is synchronized at its start and end. Returns the hooks, to `remove` them.
        """

        vision, language = model.model.visual, model.model.language_model
        parameters = inspect.signature(type(language).forward)

        def enter_language_model(module: Any, given: Any, named: Any) -> None:
            # The engine gives them by position
            arguments = parameters.bind(module, *given, **named).arguments
            found = map(arguments.get, ("inputs_embeds", "input_ids"))
            tokens = next(each for each in found if each is not None)
            self._enter("decode" if tokens.shape[1] == 1 else "prefill")

        return [
            vision.register_forward_pre_hook(lambda *_: self._enter("vision")),
            vision.register_forward_hook(lambda *_: self._leave()),
            language.register_forward_pre_hook(enter_language_model, with_kwargs=True),
            language.register_forward_hook(lambda *_: self._leave()),
        ]

    def _enter(self, name: str) -> None:
        self._add_elapsed()
        self._stack.append(name)

    def _leave(self) -> None:
        self._add_elapsed()
        self._stack.pop()

    def _add_elapsed(self) -> None:
        if torch.cuda.is_available() and not torch.cuda.is_current_stream_capturing():
            torch.cuda.synchronize()
        now = time.perf_counter()
        if self._stack:
            self._seconds[self._stack[-1]] += now - self._since
        self._since = now


class TimedCall:
    """Wraps a callable object; its calls are counted as "preprocess"."""

    def __init__(self, inner: Any, timer: PhaseTimer) -> None:
        self._inner, self._timer = inner, timer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with self._timer.phase("preprocess"):
            return self._inner(*args, **kwargs)


def processor_seconds(work: Callable[..., object], *given: Any) -> float:
    """The processor time that a call takes of this process and of its children that end meanwhile."""

    def spent() -> float:
        both = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(usage.ru_utime + usage.ru_stime for usage in both)

    before = spent()
    work(*given)
    return spent() - before
