"""PlainBackend: any image-text-to-text model of transformers as a judge."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import torch
from PIL import Image as Picture
from transformers import AutoProcessor, BatchFeature, PretrainedConfig
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.utils.import_utils import is_torchvision_available

from vrthinker_core.backends.base import ReplyText, not_cancelled
from vrthinker_core.backends.checkpoint import Source, end_tokens, quiet_transformers
from vrthinker_core.backends.checkpoint_files import TOLD, MarkedJudge
from vrthinker_core.backends.generation import LabelDigits, check_context, to_judge_error
from vrthinker_core.backends.request_body import instructions_for
from vrthinker_core.errors import BackendRefused, CheckpointError
from vrthinker_core.types.messages import (
    Cancelled,
    Completion,
    GeneratedText,
    Message,
    Sampling,
    Text,
)

MARKS = ("QZA1", "QZB2", "QZC3", "QZD4", "QZE5")  # Test words that no template writes
THOUGHT = MARKS[2]
PROBE_SIDE = 448  # Width and height of the test pictures, in pixels

Talk = list[dict[str, Any]]
"""Messages as chat templates know them; each content is a list of parts."""


@dataclass(frozen=True, slots=True)
class ChatForm:
    """A processor and the options for a deliberation."""

    processor: Any
    options: Mapping[str, Any]  # Of the image processor
    folds_system: bool  # Put the system text into the first message: the template drops it
    forgets_thoughts: bool = False  # The template drops the thoughts of earlier replies
    tokens_a_frame: int = 0  # Tokens of a frame of 448 x 448 pixels

    def render(self, talk: Talk) -> BatchFeature:
        """Return the inputs of `generate`, on the CPU."""
        if self.folds_system and talk[0]["role"] == "system":
            parts = [*talk[0]["content"], {"type": "text", "text": "\n\n"}, *talk[1]["content"]]
            talk = [{**talk[1], "content": parts}, *talk[2:]]
        with quiet_transformers():
            rendered: BatchFeature = self.processor.apply_chat_template(
                talk,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
                enable_thinking=False,
                sanitize_control_tokens=True,  # Otherwise `<image>` in a prompt counts as a picture
                processor_kwargs=dict(self.options),
            )
        return rendered


def open_chat_form(source: Source, config: PretrainedConfig) -> ChatForm:
    """Return the cheapest form that renders a multi-image conversation without loss.

    Pictures are tried in tiles and whole, the system text as a message and in front of the first
    one. Raises `CheckpointError` if there is no chat template, or every form loses anything.
    """
    title = source.title
    try:
        processor = _open_processor(source.base, config)
    except Exception as error:
        raise CheckpointError(
            f"The processor of {title} cannot be opened: {' '.join(str(error).split())[:200]}"
        ) from error
    tokenizer = getattr(processor, "tokenizer", None)
    if not (getattr(processor, "chat_template", None) or getattr(tokenizer, "chat_template", None)):
        raise CheckpointError(
            f"{title} has no chat template, so it cannot be talked to: choose its instruct version."
        )
    found, failure = [], ""
    for options in ({}, {"do_image_splitting": False}):
        for folds in (False, True):
            try:
                found.append(_measured(ChatForm(processor, options, folds)))
                break
            except Exception as error:  # noqa: BLE001 - templates and processors raise anything
                failure = " ".join(str(error).split())[:200].rstrip(". ")
    if not found:
        raise CheckpointError(
            f"{title} cannot hold a talk with several pictures and turns: {failure}. "
            "Choose another judge."
        )
    return min(found, key=lambda form: form.tokens_a_frame)


def _measured(form: ChatForm) -> ChatForm:
    """Return the form with test results; raise `ValueError` if it loses anything."""
    pixels = Picture.new("RGB", (PROBE_SIDE, PROBE_SIDE), (90, 120, 60))
    picture = {"type": "image", "image": pixels}
    system, first, _, reply, last = ({"type": "text", "text": mark} for mark in MARKS)
    thought = {"type": "text", "text": f"<think>{THOUGHT}</think>{reply['text']}"}

    def talk(*pictures: dict[str, Any]) -> Talk:
        return [
            {"role": "system", "content": [system]},
            {"role": "user", "content": [*pictures, first]},
            {"role": "assistant", "content": [thought]},
            {"role": "user", "content": [picture, last]},
        ]

    ids = form.render(talk(picture, picture))["input_ids"][0]
    text = form.processor.tokenizer.decode(ids)
    forgets = THOUGHT not in text
    told = [text.find(mark) for mark in MARKS if mark != THOUGHT or not forgets]
    if min(told) < 0 or told != sorted(told):
        raise ValueError("its chat template loses or moves text")
    tokens = len(ids) - int(form.render(talk(picture))["input_ids"].shape[1])
    if tokens < 2:
        raise ValueError("its chat template shows one picture of several")
    return replace(form, forgets_thoughts=forgets, tokens_a_frame=tokens)


def _open_processor(folder: Path, config: PretrainedConfig) -> Any:
    """Open the processor, without its video part if torchvision is missing."""
    if is_torchvision_available():
        any_family: Any = AutoProcessor
        return any_family.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    known: Any = PROCESSOR_MAPPING[type(config)]

    class PicturesOnly(known):  # type: ignore[misc]
        """The same processor without its video part."""

        # Some processors read these fields even for pictures
        video_processor = SimpleNamespace(num_frames=None, fps=None)

        @classmethod
        def get_attributes(cls) -> list[str]:
            return [each for each in known.get_attributes() if each != "video_processor"]

        @classmethod
        def _get_arguments_from_pretrained(cls, *args: Any, **kwargs: Any) -> list[Any]:
            found = super()._get_arguments_from_pretrained(*args, **kwargs)
            if "video_processor" in (places := known.get_attributes()):
                found.insert(places.index("video_processor"), None)
            return list(found)

    return PicturesOnly.from_pretrained(folder, local_files_only=True)


class _Stopped(Exception):
    """The exception that ends a forward pass of a cancelled reply."""


class PlainBackend(MarkedJudge):
    """A `Backend` on any model that `AutoModelForImageTextToText` opens.

    Each reply is one `generate` over the whole conversation, without a KV cache of earlier replies:
    a family may window, compress or spread its cache. The model is told the rules in words unless
    `vrthinker.json` names its protocol. Thread-safe: replies are generated one at a time, since
    models keep positions on themselves.
    """

    def __init__(self, model: Any, source: Source, name: str, notes: tuple[str, ...] = ()) -> None:
        """Raise `CheckpointError` if the chat template cannot hold a deliberation."""
        super().__init__(name, source.marker)
        self.model, self.form = model, (form := open_chat_form(source, model.config))
        text = model.config.get_text_config()
        self.context_length: int | None = getattr(text, "max_position_embeddings", None)
        tokenizer = form.processor.tokenizer
        self.digits = LabelDigits(
            (token, str(tokenizer.decode([token])).encode())  # So any kind of vocabulary works
            for written, token in tokenizer.get_vocab().items()
            if len(written) <= 8 and any(digit in written for digit in "012")
        )
        self.end_tokens = frozenset(end_tokens(model.generation_config))
        side, forgets = PROBE_SIDE, "Its chat template drops the thoughts of earlier replies."
        cost = f"A frame of {side} x {side} pixels takes {form.tokens_a_frame:,} of its tokens."
        self.notes = (*notes, *(() if self.protocols else (TOLD,)), cost)
        self.notes += (forgets,) if form.forgets_thoughts else ()
        self._lock = threading.Lock()
        self._cancelled: Cancelled = not_cancelled  # Belongs to the reply that has the model
        for blocks in model.modules():
            for block in blocks if isinstance(blocks, torch.nn.ModuleList) else ():
                block.register_forward_pre_hook(self._hear)

    def open_conversation(self) -> PlainConversation:
        """Return a new conversation, which keeps only its last prompt."""
        return PlainConversation(self)

    @contextmanager
    def generating(self, cancelled: Cancelled) -> Iterator[None]:
        """Hold the model for one reply; raise `_Stopped` once `cancelled` returns True."""
        while not self._lock.acquire(timeout=0.05):
            if cancelled():
                raise _Stopped
        try:
            self._cancelled = cancelled
            yield
        finally:
            self._cancelled = not_cancelled
            self._lock.release()

    def _hear(self, *_: Any) -> None:
        """Stop a cancelled reply before its next layer: a prefill takes minutes."""
        if self._cancelled():
            raise _Stopped


class PlainConversation:
    """A `Conversation` that sends the whole prompt through the model each time."""

    def __init__(self, backend: PlainBackend) -> None:
        self._backend, self.context_length = backend, backend.context_length
        self._last: tuple[Sequence[Message], BatchFeature] | None = None
        self._most_frames: int | None = None  # That a call may name, as the judge is told

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Count the prompt's tokens; raise `BackendRefused` if it cannot be made."""
        return int(self._inputs(messages)["input_ids"].shape[1])

    def calibrate(self, messages: Sequence[Message], prompt_tokens: int) -> None:
        """Do nothing: `count_tokens` is exact."""

    def close(self) -> None:
        """Free the last prompt."""
        self._last = None

    def stream(
        self, messages: Sequence[Message], sampling: Sampling, cancelled: Cancelled = not_cancelled
    ) -> Iterator[str | Completion]:
        """Yield pieces of text, then one `Completion`.

        Calls `cancelled` before every layer and every token.
        """
        started, model = time.perf_counter(), self._backend.model
        if sampling.most_frames != self._most_frames:
            self._most_frames, self._last = sampling.most_frames, None
        inputs, prompt_tokens = self._inputs(messages), self.count_tokens(messages)
        limit = self.context_length or 10**9
        check_context(prompt_tokens, limit)
        room = min(sampling.max_new_tokens, limit - prompt_tokens)
        reply = _Reply(self._backend, sampling, room, cancelled)
        try:
            yield from reply.stream(BatchFeature(inputs.data).to(model.device, model.dtype))
        except Exception as error:
            raise to_judge_error(error, prompt_tokens) from error
        yield Completion(
            reply.text,
            reply.stop,
            pieces=tuple(reply.pieces),
            prompt_tokens=prompt_tokens,
            reused_tokens=0,
            new_tokens=len(reply.tokens),
            seconds=time.perf_counter() - started,
            label_tokens=reply.labels(),
        )

    def _inputs(self, messages: Sequence[Message]) -> BatchFeature:
        """Return the prompt on the CPU; keep it, because counting precedes streaming."""
        if self._last is None or self._last[0] != messages:
            talk: Talk = [{"role": each.role, "content": _parts(each)} for each in messages]
            if not self._backend.protocols and talk[0]["role"] == "system":
                words = instructions_for(messages, self._most_frames)
                talk[0]["content"].append({"type": "text", "text": words})
            try:
                self._last = messages, self._backend.form.render(talk)
            except Exception as error:
                raise BackendRefused(
                    "This judge cannot take these frames and texts: "
                    f"{' '.join(str(error).split())[:200]}."
                ) from error
        return self._last[1]


class _Reply(ReplyText):
    """One reply and its callbacks for `generate`."""

    stop: Literal["end", "length", "cancelled"] = "end"
    _scores: torch.Tensor  # Of the next token, (1, vocabulary)
    _redirected = False  # `generate` must start again after the replaced text
    _stopped = False  # This `generate` may sample another token, which does not count
    _whole = 0  # Number of tokens whose text is complete
    _before = 0  # Start of the context that a tokenizer needs to decode the next tokens

    def __init__(
        self, backend: PlainBackend, sampling: Sampling, room: int, cancelled: Cancelled
    ) -> None:
        super().__init__(backend.marker.redirect(sampling.redirect))
        self._backend, self._sampling, self._cancelled = backend, sampling, cancelled
        self._room = room  # Largest number of tokens
        self.tokens: list[int] = []
        # Lengths of the text that may be shown, then None or the error that ended the reply
        self._items: queue.SimpleQueue[BaseException | int | None] = queue.SimpleQueue()

    def stream(self, prompt: BatchFeature) -> Iterator[str]:
        """Generate in a thread and yield the text, in whole characters."""
        inputs = prompt
        while True:
            thread = threading.Thread(target=self._generate, args=(inputs,), daemon=True)
            self._stopped = self._redirected = False
            thread.start()
            try:
                while isinstance(end := self._items.get(), int):
                    if piece := self.emit(end):
                        yield piece
            except GeneratorExit:
                self.stop = "cancelled"
                raise
            finally:
                thread.join()
            if isinstance(end, BaseException):
                raise end
            if not self._redirected:
                break
            inputs = self._with_reply(prompt)
        if self.stop != "cancelled" and (piece := self.emit(len(self.written))):
            yield piece
        if self.stop == "end" and len(self.tokens) >= self._room:
            self.stop = "length"

    def _add(self, token: int) -> None:
        self.tokens.append(token)
        decode, digits = self._backend.form.processor.tokenizer.decode, self._backend.digits
        known = decode(self.tokens[self._before : self._whole], skip_special_tokens=False)
        now = decode(self.tokens[self._before :], skip_special_tokens=False)
        added = ""
        if not now.endswith("\ufffd"):  # The last character is whole
            self._before, self._whole = self._whole, len(self.tokens)
            added = str(now[len(known) :])
        self.written += added
        shares = digits.with_probabilities([token], self._scores)[0].probabilities
        after = digits.characters_after.get(token, 0)
        if shares and added[-after - 1 :][:1] in ("0", "1", "2"):
            self.mark_digit(shares, after)
        if (kept := self.replace_phrase()) >= 0:
            self.label_tokens = [label for label in self.label_tokens if label.offset < kept]
            self._redirected = True
        self._items.put(self.safe_end())

    def watch(self, _: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Keep the scores after the penalty, before the temperature."""
        self._scores = scores
        return scores

    def should_stop(self, ids: torch.Tensor, _: object, **__: Any) -> torch.Tensor:
        """Take the last of `ids`, (1, tokens); return whether to stop, (1,)."""
        if not self._stopped:
            token = int(ids[0, -1])
            ended = token in self._backend.end_tokens
            if not ended:
                self._add(token)
            self._stopped = self._is_cancelled() or ended or self._redirected
        return torch.full((1,), self._stopped, device=ids.device)

    def _is_cancelled(self) -> bool:
        if self._cancelled():
            self.stop = "cancelled"
        return self.stop == "cancelled"

    def _with_reply(self, prompt: BatchFeature) -> BatchFeature:
        """Return the prompt with the reply appended to every ids-shaped tensor."""
        encode = self._backend.form.processor.tokenizer.encode
        self.tokens, ids = encode(self.written, add_special_tokens=False), prompt["input_ids"]
        self._before, self._whole = max(0, len(self.tokens) - 4), len(self.tokens)
        longer = BatchFeature(prompt.data)
        for name, value in prompt.items():
            if value.shape == ids.shape:
                added = torch.full((1, len(self.tokens)), name == "attention_mask")
                if name == "input_ids":
                    added = torch.tensor([self.tokens])
                longer[name] = torch.cat([value, added.to(value)], 1)
        return longer

    def _generate(self, inputs: BatchFeature) -> None:
        model, sampling = self._backend.model, self._sampling
        how: dict[str, Any] = {"do_sample": sampling.temperature > 0, "num_beams": 1}
        if sampling.temperature > 0:
            how |= {"temperature": sampling.temperature, "top_k": 0, "top_p": 1.0}
        pads = (getattr(model.config, f"{kind}_token_id", None) for kind in ("image", "video"))
        try:
            with (
                self._backend.generating(self._is_cancelled),
                torch.inference_mode(),
                torch.random.fork_rng(),
            ):
                torch.manual_seed(sampling.seed)
                model.generate(
                    **inputs,
                    max_new_tokens=max(1, self._room - len(self.tokens)),
                    logits_processor=[self.watch],
                    stopping_criteria=[self.should_stop],
                    suppress_tokens=[token for token in pads if token is not None] or None,
                    **how,
                )
        except _Stopped:
            self.stop = "cancelled"
        except BaseException as error:  # noqa: BLE001 - raised again in `stream`
            self._items.put(error)
        self._items.put(None)


def _parts(message: Message) -> list[dict[str, Any]]:
    """Return the parts, adjacent texts joined; some templates lose plain strings."""
    parts: list[dict[str, Any]] = []
    for part in message.parts:
        if not isinstance(part, Text | GeneratedText):
            frames = part.frames if hasattr(part, "frames") else (part.frame,)
            parts += [{"type": "image", "image": frame.image} for frame in frames]
        elif parts and parts[-1]["type"] == "text":
            parts[-1]["text"] += part.text
        else:
            parts.append({"type": "text", "text": part.text})
    return parts
