"""A judge whose calls are changed before anybody reads them: what its verdict is worth when it may not choose the frames itself."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vrthinker_core.backends.base import (
    BatchBackend,
    Conversation,
    GenerationRequest,
    Scope,
    StreamItem,
)
from vrthinker_core.protocols import PromptProtocol
from vrthinker_core.protocols.paired import OPENING_SLOTS
from vrthinker_core.types import ProtocolName
from vrthinker_core.types.messages import Completion

OPENING_TAG = "<tool_call>"

Change = Callable[[Sequence[int], str], Sequence[int]]
"""From the indices a judge asks for, and the reply in which it does, to those it gets."""


@dataclass(frozen=True)
class ChangedCalls:
    """A `BatchBackend` like `judge`, but for the indices of its calls."""

    judge: BatchBackend
    protocol: PromptProtocol
    change: Change

    @property
    def name(self) -> str:
        """The judge's name."""
        return self.judge.name

    @property
    def protocols(self) -> tuple[ProtocolName, ...]:
        """The judge's protocols."""
        return self.judge.protocols

    @property
    def follows_instructions(self) -> bool:
        """As the judge does."""
        return self.judge.follows_instructions

    @property
    def scope(self) -> Scope:
        """The judge's scope."""
        return self.judge.scope

    @property
    def notes(self) -> tuple[str, ...]:
        """The judge's notes."""
        return self.judge.notes

    def open_conversation(self) -> Conversation:
        """A conversation of the judge."""
        return self.judge.open_conversation()

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """What the judge writes, with other indices in its calls."""
        for position, item in self.judge.stream_batch(requests):
            yield position, self._changed(item) if isinstance(item, Completion) else item

    def _changed(self, completion: Completion) -> Completion:
        asked = self.protocol.parse(completion.text).wants
        if asked is None or OPENING_TAG not in completion.text:
            return completion
        words, _, _ = completion.text.rpartition(OPENING_TAG)
        text = words + self.protocol.call(self.change(asked.indices, completion.text))
        return replace(completion, text=text, tokens=(), label_tokens=())


NEW = [slot for slot in range(128) if slot not in OPENING_SLOTS]
"""What can be asked for: the first frames have been shown."""


def random_frames(seed: int) -> Change:
    """As many frames as were asked for, at random places."""

    def change(indices: Sequence[int], reply: str) -> Sequence[int]:
        rng = np.random.default_rng((seed, zlib.crc32(reply.encode())))
        return sorted(rng.choice(NEW, size=len(indices), replace=False).tolist())

    return change


def evenly_spread(count: int) -> Change:
    """`count` further frames spread evenly over the video, whatever was asked for."""
    return lambda _indices, _reply: [NEW[int((k + 0.5) * len(NEW) / count)] for k in range(count)]
