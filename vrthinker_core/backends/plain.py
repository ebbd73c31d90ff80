"""PlainBackend: any image-text-to-text model of transformers as a judge, without a word about its family.

Each reply is one `generate` over the whole conversation: a family may window, compress or spread its KV cache, so none is kept.
The model is told the rules in words unless `vrthinker.json` says that it was trained for a protocol.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from PIL import Image as Picture

from vrthinker_core.backends.base import RedirectState, describe_backend, not_cancelled
from vrthinker_core.backends.chat_form import ChatForm, Talk, open_chat_form
from vrthinker_core.backends.judge_name import Bits
from vrthinker_core.backends.local.checkpoint.loader import Source, open_plain
from vrthinker_core.backends.local.conversation import check_context, to_judge_error
from vrthinker_core.backends.server.instructions import instructions_for
from vrthinker_core.dialects.factory import redirects
from vrthinker_core.dialects.reading.labels import mentioned_digits
from vrthinker_core.errors import BackendRefused
from vrthinker_core.types.messages import (
    Cancelled,
    Completion,
    GeneratedText,
    LabelProbabilities,
    LabelToken,
    Message,
    Sampling,
    Text,
)

TOLD = "This judge was not trained for the task: it is told the protocol's rules in words."
WAIT_SECONDS = 0.05  # Between two looks whether a reply that waits for the model was cancelled
_PADDING = " \t\r\n=:\"'*_`"  # What may stand in one token with a label's digit


class _Stopped(Exception):
    """Raised inside a forward pass whose reply was cancelled."""


class PlainBackend:
    """A `Backend` on any model that `AutoModelForImageTextToText` opens.

    Thread-safe: models keep positions on themselves, so one reply is generated at a time, and others wait.
    """

    def __init__(
        self, model: Any, form: ChatForm, source: Source, name: str, notes: tuple[str, ...]
    ) -> None:
        self.model, self.form, self.name = model, form, name
        marker = source.marker
        self.protocols, self.scope = marker.protocols, marker.scope
        self.follows_instructions = not marker.forced
        self.forced_redirects = redirects(marker.forced)
        self.context_length: int | None = getattr(
            model.config.get_text_config(), "max_position_embeddings", None
        )
        self.digits = _digit_tokens(form.tokenizer)
        self.tokens_of_digit = tuple(
            [token for token, written in self.digits.items() if written == digit] for digit in "012"
        )
        ends = model.generation_config.eos_token_id
        self.end_tokens = frozenset(ends if isinstance(ends, list) else [ends])
        self.notes = (*notes, *(() if self.protocols else (TOLD,)), *form.notes)
        self._lock = threading.Lock()
        self._cancelled: Cancelled = not_cancelled  # Of the reply that is being generated
        for blocks in model.modules():
            for block in blocks if isinstance(blocks, torch.nn.ModuleList) else ():
                block.register_forward_pre_hook(self._hear)

    def __repr__(self) -> str:
        return describe_backend(self)

    @classmethod
    def load(
        cls,
        source: str,
        *,
        name: str | None = None,
        device: str | None = None,
        bits: Bits | None = None,
        notes: tuple[str, ...] = (),
    ) -> PlainBackend:
        """Open a folder or a hub id; options as in `TransformersBackend.load`.

        Raises CheckpointError for a model that is missing, damaged or too large, or whose chat template cannot hold a deliberation.
        """
        model, found = open_plain(source, device=device, bits=bits)
        return cls(
            model, open_chat_form(found.base, found.title), found, name or found.title, notes
        )

    def open_conversation(self) -> PlainConversation:
        """A new conversation; it holds nothing but its last prompt."""
        return PlainConversation(self)

    @contextmanager
    def generating(self, cancelled: Cancelled) -> Iterator[None]:
        """The model for one reply, which `cancelled` ends at the model's next layer. Raises _Stopped."""
        while not self._lock.acquire(timeout=WAIT_SECONDS):
            if cancelled():
                raise _Stopped
        try:
            self._cancelled = cancelled
            yield
        finally:
            self._cancelled = not_cancelled
            self._lock.release()

    def _hear(self, *_: Any) -> None:
        """Before each layer: a prefill takes minutes on a processor, and `generate` asks after whole tokens only."""
        if self._cancelled():
            raise _Stopped


class PlainConversation:
    """A `Conversation` that sends the whole prompt through the model each time."""

    def __init__(self, backend: PlainBackend) -> None:
        self._backend, self.context_length = backend, backend.context_length
        self._last: tuple[Sequence[Message], dict[str, Any]] | None = None

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """The number of prompt tokens; the model does not run. Raises BackendRefused for what its processor cannot take."""
        return int(self._inputs(messages)["input_ids"].shape[1])

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Nothing to do: `count_tokens` is exact."""

    def close(self) -> None:
        """Free the last prompt."""
        self._last = None

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        """Yield pieces of text, then one `Completion`. Calls `cancelled` before every layer and every token."""
        started, backend = time.perf_counter(), self._backend
        inputs = self._inputs(messages)
        prompt_tokens = int(inputs["input_ids"].shape[1])
        limit = backend.context_length
        check_context(prompt_tokens, limit)
        room = min(sampling.max_new_tokens, limit - prompt_tokens if limit else 10**9)
        reply = _Reply(backend, sampling, room, cancelled)
        try:
            yield from reply.pieces(_on_device(inputs, backend.model))
        except Exception as error:
            raise to_judge_error(error, prompt_tokens) from error
        places = mentioned_digits(reply.text)
        yield Completion(
            reply.text,
            reply.stop,
            pieces=tuple(reply.lengths),
            prompt_tokens=prompt_tokens,
            reused_tokens=0,
            new_tokens=len(reply.tokens),
            seconds=time.perf_counter() - started,
            label_tokens=tuple(token for token in reply.labels if token.offset in places),
        )

    def _inputs(self, messages: Sequence[Message]) -> dict[str, Any]:
        """The prompt on the CPU; that of the last call is kept, since it is counted before it is streamed."""
        if self._last is None or self._last[0] != messages:
            talk: Talk = [{"role": each.role, "content": _parts(each)} for each in messages]
            if not self._backend.protocols and talk[0]["role"] == "system":
                talk[0]["content"].append({"type": "text", "text": instructions_for(messages)})
            try:
                self._last = messages, self._backend.form.render(talk)
            except Exception as error:
                raise BackendRefused(
                    f"This judge cannot take these frames and texts: {' '.join(str(error).split())[:200]}."
                ) from error
        return self._last[1]


@dataclass(slots=True)
class _Reply:
    """One reply: what `generate` calls as streamer (`put`, `end`), logits processor (`watch`) and stopping criterion (`ask`)."""

    backend: PlainBackend
    sampling: Sampling
    room: int  # Tokens at most
    cancelled: Cancelled
    text: str = ""
    tokens: list[int] = field(default_factory=list)
    labels: list[LabelToken] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)  # Of the pieces
    stop: Literal["end", "length", "cancelled"] = "end"
    _items: queue.SimpleQueue[BaseException | int | None] = field(
        default_factory=queue.SimpleQueue
    )  # Lengths of the text that may be shown; None at the end
    _shares: LabelProbabilities | None = None  # Of the digits, where the next token is sampled
    _forced: RedirectState = field(init=False)
    _redirected: bool = False  # The text was redirected and `generate` must go on behind it
    _closed: bool = False
    _skip: bool = True  # `generate` streams the prompt first
    _whole: int = 0  # Tokens whose text is whole
    _before: int = 0  # Tokens before those, which a tokenizer must see to write them right

    def pieces(self, inputs: dict[str, Any]) -> Iterator[str]:
        """Generate in a thread; yields text of whole characters that can no longer become the start of a redirect."""
        chosen = self.sampling.redirect or ("", "")
        self._forced = RedirectState(self.backend.forced_redirects.get(chosen, chosen))
        shown = 0
        prompt = inputs
        while True:
            thread = threading.Thread(target=self._generate, args=(inputs,), daemon=True)
            self._skip, self._redirected = True, False
            thread.start()
            try:
                while isinstance(end := self._items.get(), int):
                    if end > shown:
                        shown, start = end, shown
                        self.lengths.append(end - start)
                        yield self.text[start:end]
            except GeneratorExit:
                self._closed = True
                raise
            finally:
                thread.join()
            if isinstance(end, BaseException):
                raise end
            if not self._redirected:
                break
            inputs = self._with_reply(prompt)
        if len(self.text) > shown and self.stop != "cancelled":
            self.lengths.append(len(self.text) - shown)
            yield self.text[shown:]
        self.text = self.text[: sum(self.lengths)]
        if self.stop == "end" and len(self.tokens) >= self.room:
            self.stop = "length"

    def put(self, value: torch.Tensor) -> None:
        """Take a token."""
        if (
            self._skip or self._redirected
        ):  # the prompt, or a token sampled before the redirect was seen
            self._skip = False
            return
        token = int(value.flatten()[0])
        if token in self.backend.end_tokens:
            return
        self.tokens.append(token)
        start, added = len(self.text), self._new_text()
        self.text += added
        if (digit := self.backend.digits.get(token)) and self._shares and digit in added:
            self.labels.append(LabelToken(start + added.rindex(digit), self._shares))
        self._redirect()
        self._items.put(len(self.text) - self._forced.held_back(self.text))

    def end(self) -> None:
        """What `generate` calls when it is done; `_generate` tells the reader."""

    def watch(self, _: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """After the penalty and before the temperature: three numbers a token, where `output_scores` would keep the vocabulary."""
        shares = torch.softmax(scores[0].float(), -1)
        tie, first, second = (
            min(1.0, round(float(shares[tokens].sum()), 6))
            for tokens in self.backend.tokens_of_digit
        )
        self._shares = tie, first, second
        return scores

    def ask(self, ids: torch.Tensor, _: torch.Tensor, **__: Any) -> torch.Tensor:
        """Whether to stop, (batch,)."""
        stop = self._redirected or self._is_cancelled()
        return torch.full((ids.shape[0],), stop, device=ids.device)

    def _is_cancelled(self) -> bool:
        if self._closed or self.cancelled():
            self.stop = "cancelled"
        return self.stop == "cancelled"

    def _new_text(self) -> str:
        """What the last tokens add to the text, "" until a character is whole."""
        decode = self.backend.form.tokenizer.decode
        known = decode(self.tokens[self._before : self._whole], skip_special_tokens=False)
        now = decode(self.tokens[self._before :], skip_special_tokens=False)
        if now.endswith("\ufffd"):
            return ""
        self._before, self._whole = self._whole, len(self.tokens)
        return str(now[len(known) :])

    def _redirect(self) -> None:
        start = self._forced.cut(self.text)
        if start < 0:
            return
        self.text = self.text[:start] + self._forced.wanted
        self.labels = [label for label in self.labels if label.offset < start]
        self._redirected = True

    def _with_reply(self, prompt: dict[str, Any]) -> dict[str, Any]:
        """The prompt with the reply so far behind it: every tensor of the shape of its ids grows."""
        self.tokens = self.backend.form.tokenizer.encode(self.text, add_special_tokens=False)
        self._before, self._whole = max(0, len(self.tokens) - 4), len(self.tokens)
        ids = prompt["input_ids"]
        reply = torch.tensor([self.tokens], device=ids.device)
        longer = {
            name: torch.cat([value, torch.full_like(reply, name == "attention_mask").to(value)], 1)
            for name, value in prompt.items()
            if value.shape == ids.shape
        }
        return {**prompt, **longer, "input_ids": torch.cat([ids, reply], 1)}

    def _generate(self, inputs: dict[str, Any]) -> None:
        model, sampling = self.backend.model, self.sampling
        how: dict[str, Any] = {"do_sample": False}
        if sampling.temperature > 0:
            how = {"do_sample": True, "temperature": sampling.temperature, "top_k": 0, "top_p": 1.0}
        placeholders = [
            token
            for name in ("image_token_id", "video_token_id")
            if (token := getattr(model.config, name, None)) is not None
        ]
        try:
            with (
                self.backend.generating(self._is_cancelled),
                torch.inference_mode(),
                torch.random.fork_rng(),
            ):
                torch.manual_seed(sampling.seed)
                model.generate(
                    **inputs,
                    max_new_tokens=max(1, self.room - len(self.tokens)),
                    streamer=self,
                    logits_processor=[self.watch],
                    stopping_criteria=[self.ask],
                    suppress_tokens=placeholders or None,
                    **how,
                )
            self._items.put(None)
        except _Stopped:
            self.stop = "cancelled"
            self._items.put(None)
        except BaseException as error:  # noqa: BLE001 - raised where the reply is read
            self._items.put(error)


def _parts(message: Message) -> list[dict[str, Any]]:
    """Always a list: some templates lose a message whose content is a plain string. Texts that touch become one."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if not isinstance(part, Text | GeneratedText):
            frames = part.frames if hasattr(part, "frames") else (part.frame,)
            parts += [
                {
                    "type": "image",
                    "image": Picture.frombytes("RGB", (frame.width, frame.height), frame.rgb),
                }
                for frame in frames
            ]
        elif parts and parts[-1]["type"] == "text":
            parts[-1]["text"] += part.text
        else:
            parts.append({"type": "text", "text": part.text})
    return parts


def _on_device(inputs: dict[str, Any], model: Any) -> dict[str, Any]:
    """Numbers in the model's own precision, all on its device."""
    return {
        name: value.to(model.device, model.dtype if value.is_floating_point() else value.dtype)
        for name, value in inputs.items()
    }


def _digit_tokens(tokenizer: Any) -> dict[int, str]:
    """By token that writes a lone 0, 1 or 2, the digit: decoded one by one, so that any kind of vocabulary will do."""
    short = [
        token
        for written, token in tokenizer.get_vocab().items()
        if len(written) <= 8 and any(digit in written for digit in "012")
    ]
    written = {token: str(tokenizer.decode([token])).strip(_PADDING) for token in short}
    return {token: digit for token, digit in written.items() if digit in ("0", "1", "2")}
