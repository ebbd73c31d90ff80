"""Many replies at once: each chooses its own words, and one step of the model reads them all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from vrthinker_core.backends.base import Question, Said
from vrthinker_core.backends.local.conversation import LocalConversation
from vrthinker_core.backends.local.engine.batched_cache import Block
from vrthinker_core.backends.local.engine.generation import Judge, Speech
from vrthinker_core.backends.local.engine.threads import hold, lanes
from vrthinker_core.backends.local.text.chat_template import Picture
from vrthinker_core.errors import BackendFailed


def sing(judge: Judge, questions: Sequence[Question]) -> Iterator[tuple[int, Said]]:
    """See `Chorus.stream_together`. What cannot be read together is read one by one, so a failure stays with its own question."""
    choir = _Choir(judge)
    parts: list[_Part] = []
    for position, question in enumerate(questions):
        try:
            parts.append(_Part(position, question))
        except Exception as error:  # noqa: BLE001 - given to whoever asked
            yield position, error
    choir.look(parts)
    choir.begin(parts)
    while parts:
        for part in parts:
            yield from part.sing()
        parts = [part for part in parts if not part.over]
        choir.read([part for part in parts if part.token is not None])


class _Part:
    """One question's share."""

    def __init__(self, position: int, question: Question) -> None:
        if not isinstance(question.conversation, LocalConversation):
            raise BackendFailed("This conversation belongs to another judge.")
        self.speech: Speech = question.conversation.speech(question.messages, question.sampling, question.cancelled)
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

    def sing(self) -> Iterator[tuple[int, Said]]:
        """Choose a word and say what may be said; at the end, the end."""
        if self._error is None:
            self.attempt(self._word)
        if self._error is not None:
            self.over = True
            yield self._position, self._conversation.failed(self.speech, self._error)
            return
        said, self.over = self.speech.said, self.speech.stop is not None
        if piece := said.rest() if self.over else said.piece():
            yield self._position, piece
        if self.over:
            yield self._position, self.speech.completion()

    def read(self) -> None:
        """Read the chosen token alone."""
        if self.token is not None:
            self.speech.reading.settle()
            self.speech.hear(self.speech.reading.step(self.token))

    def _word(self) -> None:
        self.token = self.speech.choose()


class _Choir:
    """The shared steps of the model."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._block: Block | None = None
        kinds = getattr(judge.model.config.get_text_config(), "layer_types", None) or ["full_attention"]
        self._together = set(kinds) == {"full_attention"}

    def look(self, parts: Sequence[_Part]) -> None:
        """Encode the new frames of all parts in one pass. A frame that cannot be encoded is left to the part that shows it."""
        pictures = [item for part in parts for item in part.speech.news() if isinstance(item, Picture)]
        hold(self._judge.threads)
        try:
            self._judge.sight.look(pictures)
        except Exception:  # noqa: BLE001 - each part will look at its own frames and tell
            return

    def begin(self, parts: Sequence[_Part]) -> None:
        """Read the new of each prompt, side by side where that is quicker."""
        side_by_side = lanes(self._judge.threads)
        if side_by_side == 1:  # not in a new thread, where torch would start threads of its own anew
            for part in parts:
                part.attempt(part.speech.begin)
            return
        with ThreadPoolExecutor(side_by_side) as pool:
            for begun in [pool.submit(part.attempt, part.speech.begin) for part in parts]:
                begun.result()

    def read(self, parts: Sequence[_Part]) -> None:
        """Read the chosen token of each part."""
        if len(parts) > 1 and self._together:
            try:
                self._read_together(parts)
                return
            except Exception:  # noqa: BLE001 - alone, each tells its own failure
                self._block = None
        for part in parts:
            part.attempt(part.read)

    def _read_together(self, parts: Sequence[_Part]) -> None:
        hold(self._judge.threads)
        readings = [part.speech.reading for part in parts]
        if self._block is None or not self._block.fits(readings):
            self._block = Block(self._judge.model, readings, graphs=self._judge.stride > 0)
        logits = self._block.step({id(p.speech.reading): p.token for p in parts if p.token is not None})
        for part in parts:
            part.speech.hear(logits[id(part.speech.reading)])
