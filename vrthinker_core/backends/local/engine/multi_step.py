"""Greedy decoding of one reply: several tokens between two looks at the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.local.engine.decode_step import REHEARSALS, Step, Stores, recorded
from vrthinker_core.backends.local.engine.kv_cache import Reading
from vrthinker_core.backends.local.engine.threads import hold


class Stride:
    """Writes ahead behind one reading, a reply at a time.

    Keys and values go to the rows behind those that the reading holds; the reading itself does not move: whoever takes a token over
    says `took`.
    """

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, reading: Reading, penalty: float, length: int) -> None:
        """`penalty` is the checkpoint's repetition penalty, 1 for none; `length` how many tokens are written at a time."""
        self._model = model
        self._reading = reading
        self._penalty = penalty
        self._length = length
        self._walk: _Walk | None = None
        self._heard: list[int] = []

    def begin(self, heard: Iterable[int]) -> None:
        """A new reply, after a prompt that holds the tokens `heard`."""
        self._heard = list(heard)

    @torch.inference_mode()
    def run(self, said: Sequence[int]) -> list[int]:
        """Read the last token of `said`, the reply so far, and write on: so many tokens more, the last of them not read yet."""
        hold(self._reading.threads)
        self._reading.reserve(self._length + REHEARSALS)
        rooms = [layer.room for layer in self._reading.layers]
        if self._walk is None or not self._walk.fits(rooms):
            self._walk = None  # its memory goes before the next one's comes
            self._walk = _Walk(self._model, rooms, self._penalty)
        return self._walk.take(self._length, said[-1], self._reading.tokens, self._reading.place, {*self._heard, *said})


class _Walk:
    """Steps that choose their next token themselves."""

    def __init__(self, model: Qwen2_5_VLForConditionalGeneration, rooms: list[Stores], penalty: float) -> None:
        self._rooms = rooms
        self._penalty = penalty
        self._step = Step(model, rooms)
        self._device = self._step.token.device
        self._heard = torch.zeros(model.config.get_text_config().vocab_size, dtype=torch.bool, device=self._device)
        self._go: Callable[[], None] | None = None

    def fits(self, rooms: list[Stores]) -> bool:
        """The keys and values still stand where they stood."""
        return all(now is then for room, held in zip(rooms, self._rooms, strict=True) for now, then in zip(room, held, strict=True))

    def take(self, count: int, token: int, end: int, place: int, heard: set[int]) -> list[int]:
        """Read `token` at row `end` and position `place`, and write `count` more; the host waits once."""
        if self._go is None:
            self._stand(token, end, place, heard)
            self._go = recorded(self._choose, self._device)
        self._stand(token, end, place, heard)
        said = torch.empty(count, dtype=torch.long, device=self._device)
        for n in range(count):
            self._go()
            said[n : n + 1].copy_(self._step.token)
        return [int(each) for each in said.tolist()]

    def _stand(self, token: int, end: int, place: int, heard: set[int]) -> None:
        self._step.stand([token], [end], [place])
        if self._penalty != 1.0:
            self._heard.zero_()
            self._heard[torch.tensor(sorted(heard), device=self._device)] = True

    def _choose(self) -> None:
        step = self._step
        logits = step.logits()[0]
        if self._penalty != 1.0:
            logits = torch.where(self._heard, penalised(logits, self._penalty), logits)
        step.token.copy_(logits.argmax(dim=-1, keepdim=True))
        if self._penalty != 1.0:
            self._heard.index_fill_(0, step.token, True)
        step.end += 1
        step.place += 1


def penalised(logits: torch.Tensor, penalty: float) -> torch.Tensor:
    """The logits of tokens that were heard before, as stock `generate()` lowers them."""
    return torch.where(logits < 0, logits * penalty, logits / penalty)
