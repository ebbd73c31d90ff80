"""This package's way of running a comparison over given replies, put together as `judge()` does it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

from tests.benchmarks.tools.phase_timer import PhaseTimer, TimedCall
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.checkpoint import Checkpoint
from vrthinker_core.backends.generation import Generation, MultiStepDecoder, SampledToken
from vrthinker_core.backends.transformers_local import LocalConversation, TransformersBackend
from vrthinker_core.deliberation import Deliberation
from vrthinker_core.protocols import PromptProtocol, make_protocol, with_defaults
from vrthinker_core.types import Frame, FrameRef, Settings, VideoPair
from vrthinker_core.types.frames import FrameSource
from vrthinker_core.types.messages import Cancelled, Completion, Message, Sampling
from vrthinker_core.video import DecoderPool
from vrthinker_core.video.clip import PairOpening, frame_source


class ForcedConversation(LocalConversation):
    """A conversation that runs the model for every token, then writes the token that was given."""

    forced_tokens: Sequence[int] = ()

    def start_generation(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Generation:
        """A generation whose sampler, and whose multi-step decoder where there is one, give the forced tokens."""
        generation = super().start_generation(messages, sampling, cancelled)
        sampler = _ForcedSampler(self.forced_tokens)
        generation.sampler = sampler  # type: ignore[assignment]
        if self._multi_step is not None:
            generation._multi_step = _ForcedMultiStep(self._multi_step, sampler)  # type: ignore[assignment]
        return generation


class _ForcedSampler:
    """Stands in for a `Sampler`."""

    temperature = 0.0

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = iter(tokens)
        self.prompt_tokens = frozenset[int]()

    def __call__(self, *_: object) -> SampledToken:
        return SampledToken(next(self.tokens))


class _ForcedMultiStep:
    """A `MultiStepDecoder` that does all its work, then gives as many forced tokens as it decoded."""

    def __init__(self, decoder: MultiStepDecoder, sampler: _ForcedSampler) -> None:
        self._decoder, self._sampler = decoder, sampler
        self.start_reply = decoder.start_reply

    def decode(self, written: Sequence[int]) -> list[SampledToken]:
        decoded = len(self._decoder.decode(written))
        return list(map(SampledToken, islice(self._sampler.tokens, decoded)))


class OurLoop:
    """One comparison. Call `turn` once for each reply, then `close`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        videos: tuple[Path, Path],
        timer: PhaseTimer,
        pairs_per_call: int,
    ) -> None:
        self._timer, self._stack = timer, ExitStack()
        loaded = TransformersBackend(checkpoint, "random").loaded
        loaded.vision.pixel_values = TimedCall(loaded.vision.pixel_values, timer)  # type: ignore[method-assign]
        self._conversation = ForcedConversation(loaded)
        chosen = Settings(frames_per_call=pairs_per_call)
        protocol = make_protocol(chosen, "paired")
        settings = with_defaults(chosen, protocol)
        pair = VideoPair("A ball rolls.", *videos)
        with timer.phase("video"):
            self._source = self._open(pair, protocol)
        self._deliberation = Deliberation(
            pair.prompt, protocol, settings, self._frames, follows_instructions=False
        )

    def turn(self, reply: Sequence[int], last: bool) -> Completion:
        """Write `reply`; the frames it asks for are fetched in this turn unless it is the last."""
        self._conversation.forced_tokens = reply
        messages, sampling = self._deliberation.ask(), Sampling(max_new_tokens=len(reply))
        with self._timer.phase("decode"):
            *_, completion = self._conversation.stream(messages, sampling)
        assert completion.tokens == tuple(reply), "the forced tokens are written, all of them"
        self._deliberation.take(completion)
        ended = self._deliberation.stop_reason is not None
        assert ended == last, "the given replies are those of a whole run"
        return completion

    def close(self) -> None:
        """End the decoding processes."""
        self._stack.close()

    def _open(self, pair: VideoPair, protocol: PromptProtocol) -> FrameSource:
        decoders = self._stack.enter_context(DecoderPool())
        with ThreadPoolExecutor(2) as pool:
            opening = PairOpening(pair, protocol.frame_plan, decoders, pool)
            self._stack.callback(opening.close)
            first, second, error = opening.clips()
        if first is None or second is None:
            raise AssertionError(error)
        return frame_source((first, second))

    def _frames(self, refs: Sequence[FrameRef]) -> tuple[Frame, ...]:
        with self._timer.phase("video"):
            return self._source(refs)
