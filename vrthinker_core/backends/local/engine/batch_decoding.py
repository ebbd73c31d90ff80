"""Many replies at once: each chooses its own words, and one step of the model reads them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from vrthinker_core.backends.base import GenerationRequest, StreamItem
from vrthinker_core.backends.local.conversation import LocalConversation
from vrthinker_core.backends.local.engine.batched_cache import BatchedCache
from vrthinker_core.backends.local.engine.generation import Generation, LoadedModel
from vrthinker_core.backends.local.engine.threads import limit_threads, parallelism
from vrthinker_core.backends.local.text.chat_template import VisionItem
from vrthinker_core.errors import BackendFailed


def stream_batch(judge: LoadedModel, questions: Sequence[GenerationRequest]) -> Iterator[tuple[int, StreamItem]]:
    """See `Chorus.stream_together`. What cannot be read together is read one by one, so a failure stays with its own question."""
    choir = BatchDecoder(judge)
    parts: list[_BatchSequence] = []
    for position, question in enumerate(questions):
        try:
            parts.append(_BatchSequence(position, question))
        except Exception as error:  # noqa: BLE001 - given to whoever asked
            yield position, error
    choir.encode_images(parts)
    choir.prefill(parts)
    while parts:
        for part in parts:
            yield from part.next_items()
        parts = [part for part in parts if not part.over]
        choir.decode([part for part in parts if part.token is not None])


class _BatchSequence:
    """One question's share."""

    def __init__(self, position: int, question: GenerationRequest) -> None:
        if not isinstance(question.conversation, LocalConversation):
            raise BackendFailed("This conversation belongs to another judge.")
        self.generation: Generation = question.conversation.start_generation(
            question.messages, question.sampling, question.cancelled
        )
        self.token: int | None = None
        self.over = False
        self._position = position
        self._conversation = question.conversation
        self._error: Exception | None = None

    def attempt(self, step: Callable[[], None]) -> None:
        """Make a step; what it raises is kept for `sing`."""
        try:
            step()
        except Exception as error:  # noqa: BLE001 - given to whoever asked
            self._error = error

    def next_items(self) -> Iterator[tuple[int, StreamItem]]:
        """Choose a word and say what may be said; at the end, the end."""
        if self._error is None:
            self.attempt(self._sample)
        if self._error is not None:
            self.over = True
            yield self._position, self._conversation.error_after(self.generation, self._error)
            return
        said, self.over = self.generation.detokenizer, self.generation.stop is not None
        if piece := said.flush() if self.over else said.next_text():
            yield self._position, piece
        if self.over:
            yield self._position, self.generation.completion()

    def decode_alone(self) -> None:
        """Read the chosen token alone."""
        if self.token is not None:
            self.generation.cache.trim()
            self.generation.set_logits(self.generation.cache.decode(self.token))

    def _sample(self) -> None:
        self.token = self.generation.sample()


class BatchDecoder:
    """The shared steps of the model."""

    def __init__(self, judge: LoadedModel) -> None:
        self._model = judge
        self._cache: BatchedCache | None = None
        kinds = getattr(judge.model.config.get_text_config(), "layer_types", None) or ["full_attention"]
        self._can_batch = set(kinds) == {"full_attention"}

    def encode_images(self, parts: Sequence[_BatchSequence]) -> None:
        """Encode the new frames of all parts in one pass. A frame that cannot be encoded is left to the part that shows it."""
        pictures = [item for part in parts for item in part.generation.new_items() if isinstance(item, VisionItem)]
        limit_threads(self._model.threads)
        try:
            self._model.vision.encode(pictures)
        except Exception:  # noqa: BLE001 - each part will look at its own frames and tell
            return

    def prefill(self, parts: Sequence[_BatchSequence]) -> None:
        """Read the new of each prompt, side by side where that is quicker."""
        side_by_side = parallelism(self._model.threads)
        if side_by_side == 1:  # not in a new thread, where torch would start threads of its own anew
            for part in parts:
                part.attempt(part.generation.prefill)
            return
        with ThreadPoolExecutor(side_by_side) as pool:
            for begun in [pool.submit(part.attempt, part.generation.prefill) for part in parts]:
                begun.result()

    def decode(self, parts: Sequence[_BatchSequence]) -> None:
        """Read the chosen token of each part."""
        if len(parts) > 1 and self._can_batch:
            try:
                self._decode_batch(parts)
                return
            except Exception:  # noqa: BLE001 - alone, each tells its own failure
                self._cache = None
        for part in parts:
            part.attempt(part.decode_alone)

    def _decode_batch(self, parts: Sequence[_BatchSequence]) -> None:
        limit_threads(self._model.threads)
        readings = [part.generation.cache for part in parts]
        if self._cache is None or not self._cache.fits(readings):
            self._cache = BatchedCache(self._model.model, readings, cuda_graphs=self._model.steps_per_sync > 0)
        logits = self._cache.decode({id(p.generation.cache): p.token for p in parts if p.token is not None})
        for part in parts:
            part.generation.set_logits(logits[id(part.generation.cache)])
