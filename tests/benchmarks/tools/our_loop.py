"""This package's own way over given words: clips, deliberation and conversation as the product puts them together."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from pathlib import Path

from tests.benchmarks.tools.phase_timer import PhaseTimer, TimedCall
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint
from vrthinker_core.backends.local.conversation import LocalConversation
from vrthinker_core.backends.local.engine.generation import Generation
from vrthinker_core.backends.local.engine.multi_step import MultiStepDecoder
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.dialects import Dialect, make_dialect, with_defaults
from vrthinker_core.types import Frame, FrameRef, Settings, VideoPair
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling
from vrthinker_core.video import Clip, DecoderPool
from vrthinker_core.video.clip_pair import close_clip, frame_source, opened_clips, submit_opening


class ForcedConversation(LocalConversation):
    """A conversation that computes every token and then writes the given ones."""

    forced_tokens: Sequence[int] = ()

    def start_generation(self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled) -> Generation:
        """The speech of a judge whose choices are made."""
        speech = super().start_generation(messages, sampling, cancelled)
        speech.sampler = _Given(self.forced_tokens)  # type: ignore[assignment]
        if self._multi_step is not None:
            speech._multi_step = _Recited(self._multi_step, speech.sampler)  # type: ignore[assignment]
        return speech


class _Given:
    """Chooses the given words."""

    def __init__(self, words: Sequence[int]) -> None:
        self.words, self.prompt_tokens = iter(words), frozenset[int]()

    def __call__(self, logits: object, said: object) -> int:
        return next(self.words)


class _Recited:
    """Strides that cost what they cost, and say the given words."""

    def __init__(self, stride: MultiStepDecoder, given: _Given) -> None:
        self._stride, self._given = stride, given
        self.start_reply = stride.start_reply

    def decode(self, said: Sequence[int]) -> list[int]:
        return list(islice(self._given.words, len(self._stride.decode(said))))


class OurLoop:
    """One comparison; `turn` after `turn`."""

    def __init__(self, checkpoint: Checkpoint, videos: tuple[Path, Path], watch: PhaseTimer, per_call: int) -> None:
        self._watch, self._stack = watch, ExitStack()
        backend = TransformersBackend(replace(checkpoint, processor=TimedCall(checkpoint.processor, watch)), "random")
        self._conversation = ForcedConversation(backend.loaded)
        dialect = make_dialect(Settings(frames_per_call=per_call), "paired")
        settings = with_defaults(Settings(frames_per_call=per_call), dialect)
        pair = VideoPair("A ball rolls.", *videos)
        with watch.phase("video"):
            self._source = frame_source(self._opened(pair, dialect))
        self._deliberation = Deliberation(pair.prompt, dialect, settings, self._frames, follows_instructions=False)

    def turn(self, reply: Sequence[int], last: bool) -> Completion:
        """Write `reply`; the frames it asks for are fetched in this turn unless it is the last."""
        self._conversation.forced_tokens = reply
        messages, sampling = self._deliberation.ask(), Sampling(max_new_tokens=len(reply))
        with self._watch.phase("decode"):
            *_, completion = self._conversation.stream(messages, sampling)
        assert isinstance(completion, Completion)
        self._deliberation.take(completion)
        assert (self._deliberation.stop_reason is not None) == last, "the given replies are those of a whole run"
        return completion

    def close(self) -> None:
        """End the decoding processes."""
        self._stack.close()

    def _opened(self, pair: VideoPair, dialect: Dialect) -> tuple[Clip, Clip]:
        decoders = self._stack.enter_context(DecoderPool())
        with ThreadPoolExecutor(2) as pool:
            opening = submit_opening(pair, dialect, decoders, pool)
            for clip in opening:
                self._stack.callback(close_clip, clip)
            first, second, trouble = opened_clips(opening)
        if first is None or second is None:
            raise AssertionError(trouble)
        return first, second

    def _frames(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        with self._watch.phase("video"):
            return self._source(refs)
