"""A judge whose calls are changed before anybody reads them: what its verdict is worth when it may not choose the frames itself."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from vrthinker_core.backends.base import BatchBackend, GenerationRequest, StreamItem
from vrthinker_core.protocols import PromptProtocol
from vrthinker_core.protocols.paired import OPENING_SLOTS
from vrthinker_core.types.messages import Completion

OPENING_TAG = "<tool_call>"

Change = Callable[[Sequence[int], str], Sequence[int]]
"""From the indices a judge asks for, and the reply in which it does, to those it gets."""


class ChangedCalls:
    """A `BatchBackend` like `judge`, but for the indices of its calls."""

    def __init__(self, judge: BatchBackend, protocol: PromptProtocol, change: Change) -> None:
        self.judge, self.protocol, self.change = judge, protocol, change
        self.name, self.scope, self.notes = judge.name, judge.scope, judge.notes
        self.protocols, self.follows_instructions = judge.protocols, judge.follows_instructions
        self.open_conversation = judge.open_conversation

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
