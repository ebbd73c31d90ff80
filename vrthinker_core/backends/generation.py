"""Generation: one reply from prefill to completion, its sampler, and steps ahead on a GPU."""

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.chat_template import (
    PromptItem,
    SafeTokenizer,
    StreamingDetokenizer,
    render_prompt,
    token_count,
    videos_as_images,
)
from vrthinker_core.backends.checkpoint_files import Marker
from vrthinker_core.backends.devices import best_device, is_out_of_memory, limit_threads
from vrthinker_core.backends.kv_cache import PrefixCache
from vrthinker_core.backends.layers import DecodeStep, RowAttention
from vrthinker_core.backends.vision_encoder import VisionEncoder
from vrthinker_core.errors import BackendFailed, BackendRefused, ContextFull, VrThinkerError
from vrthinker_core.types.messages import (
    Cancelled,
    Completion,
    LabelProbabilities,
    Message,
    Sampling,
)


class SampledToken(NamedTuple):
    """A token, and the probabilities of its possible label.

    They are the probabilities of 0, 1 and 2; None if the token writes no such digit.
    """

    token: int
    probabilities: LabelProbabilities | None = None


class LabelDigits:
    """A vocabulary's tokens that write a lone 0, 1 or 2.

    They are found once among (token, its bytes). Immutable, so threads may share it.
    """

    def __init__(self, vocabulary: Iterable[tuple[int, bytes]]) -> None:
        self.characters_after: dict[int, int] = {}  # For each token: characters after its digit
        self._tokens_of_digit: tuple[list[int], ...] = ([], [], [])
        for token, written in vocabulary:
            digit = written.strip(b" \t\r\n=:\"'*_`")  # Characters that may share its token
            if digit in (b"0", b"1", b"2"):
                self.characters_after[token] = len(written) - written.index(digit) - 1
                self._tokens_of_digit[int(digit)].append(token)

    @torch.inference_mode()
    def with_probabilities(self, tokens: Sequence[int], scores: torch.Tensor) -> list[SampledToken]:
        """Add the digits' probabilities to each token that writes a digit.

        `scores`, (tokens, vocabulary), are the logits that the tokens were sampled from. The
        probability of a digit is the sum over all tokens that write it, in the softmax over the
        whole vocabulary. The scores of other tokens are never read, so most replies cost one table
        look-up a token.
        """
        rows = [row for row, token in enumerate(tokens) if token in self.characters_after]
        found: dict[int, LabelProbabilities] = {}
        if rows:
            shares = torch.softmax(scores[rows].float(), dim=-1)
            sums = [shares[:, digit].sum(dim=-1) for digit in self._tokens_of_digit]
            for row, digits in zip(rows, torch.stack(sums, dim=-1).tolist(), strict=True):
                # float32 logits give no more decimals, and traces stay short
                tie, first, second = (min(round(share, 6), 1.0) for share in digits)
                found[row] = tie, first, second
        return [SampledToken(token, found.get(row)) for row, token in enumerate(tokens)]


WARMUP_STEPS = 2
"""Steps before a capture, in which kernels are chosen and workspaces allocated. Each step writes to
the KV cache as usual.
"""

_CAPTURE = threading.Lock()
"""A lock without data. CUDA captures one graph at a time in a process, and freeing memory meanwhile
breaks the capture.
"""


def capture_cuda_graph(step: Callable[[], None], generator: torch.Generator) -> Callable[[], None]:
    """Capture `step`, which may draw from `generator`, as a CUDA graph; return its replay.

    Returns `step` itself if the generator is not a GPU's or the capture fails. `step` must read and
    write tensors that never move. `step` runs `WARMUP_STEPS` times before the capture: set its
    inputs again afterwards, and the generator's seed.
    """
    device = generator.device
    if device.type != "cuda":
        return step
    try:
        with _CAPTURE, torch.cuda.device(device):
            before = torch.cuda.current_stream()
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(before)
            with torch.cuda.stream(stream):
                for _ in range(WARMUP_STEPS):
                    step()
            before.wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            graph.register_generator_state(generator)
            try:
                # Other threads may use the GPU: this mode restricts only the capturing thread
                with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                    step()
            except BaseException:
                # A failed capture leaves its thread on its stream. Memory that the thread frees
                # there could be reused too early
                torch.cuda.synchronize()
                torch.cuda.set_stream(before)
                raise
    except RuntimeError as error:
        logging.getLogger(__name__).warning(
            "Decoding is slower than it could be: no CUDA graph could be captured (%s).", error
        )
        return step
    replay: Callable[[], None] = graph.replay
    return replay


def check_context(prompt_tokens: int, limit: int) -> None:
    """Raise `ContextFull` if prompt and one token exceed `limit`."""
    if prompt_tokens + 1 > limit:
        raise ContextFull(
            f"The conversation has come to {prompt_tokens:,} tokens; "
            f"this judge's context holds {limit:,}."
        )


def to_judge_error(error: Exception, prompt_tokens: int) -> VrThinkerError:
    """Return the exception to raise; free GPU memory if none is left."""
    if isinstance(error, VrThinkerError):
        return error
    if is_out_of_memory(error):
        if (device := best_device()) != "cpu":
            with _CAPTURE:
                getattr(torch, device).empty_cache()
        return BackendRefused(
            f"The judge ran out of memory at {prompt_tokens:,} tokens: "
            "choose a shorter memory window or fewer frames a call."
        )
    detail = str(error).strip().splitlines() or [type(error).__name__]
    return BackendFailed(f"The judge stopped while it was generating: {detail[0]}")


GPU_ROWS = 20_480
"""Rows that the KV cache gets before the first graph is captured, enough for a long deliberation. If
a conversation needs more, the cache is allocated again and another graph is captured.
"""


class MultiStepDecoder:
    """A decoder that runs ahead of its `PrefixCache`.

    Each step samples its next token on the device. Keys and values are written to the cache rows
    after the used rows; the cache does not count them. The caller appends each token to the cache
    as it accepts it.
    """

    def __init__(
        self, cache: PrefixCache, step: DecodeStep, digits: LabelDigits, penalty: float, steps: int
    ) -> None:
        """Decode `steps` tokens a call; a `penalty` of 1 is none."""
        self._cache, self._step, self._digits = cache, step, digits
        self._penalty, self._steps = penalty, steps
        config, device = step.model.config, step.model.device
        self.generator = torch.Generator(device)
        """Draws the tokens of a reply; the caller sets its seed."""
        self._token, self._position = (
            torch.zeros(1, dtype=torch.long, device=device) for _ in range(2)
        )
        self._seen = torch.zeros(
            config.get_text_config().vocab_size, dtype=torch.bool, device=device
        )
        """For each token, whether the prompt or the reply so far has it: the repetition penalty
        lowers its logit.
        """
        self._placeholders = placeholders_of(config, device)
        """Tokens that are never sampled."""
        self._prompt_tokens: list[int] = []
        self._temperature = 0.0
        self.clear()

    def clear(self) -> None:
        """Drop the captured step, which keeps the cache's tensors alive."""
        self._captured: tuple[RowAttention, Callable[[], None]] | None = None  # And its replay
        self._scores = torch.empty(0)
        """Logits of the last sampled token after the repetition penalty, (vocabulary,) in float32.
        A graph never moves this tensor.
        """

    def start_reply(self, prompt_tokens: Iterable[int], count: int, temperature: float) -> None:
        """Prepare a prefill of `count` tokens; penalise repeats of `prompt_tokens`."""
        self._prompt_tokens = list(prompt_tokens)
        if temperature != self._temperature or not self._cache.has_rows(count):
            self.clear()  # A graph holds its temperature, and tensors that the cache gives up
        self._temperature = temperature

    @torch.inference_mode()
    def decode(self, reply: Sequence[int]) -> list[SampledToken]:
        """Process the last token of `reply` and sample `steps` more.

        `reply` holds the tokens so far. The last sampled token is not processed.
        """
        limit_threads(self._cache.vision.threads)
        ahead = self._steps + WARMUP_STEPS
        if not self._cache.has_rows(self._cache.num_tokens + ahead):
            self.clear()  # Free the old step's memory before the next step is allocated
            most = self._step.model.config.get_text_config().max_position_embeddings
            rows = min(GPU_ROWS, most) - self._cache.num_tokens
            self._cache.reserve(max(rows, ahead) if self._token.is_cuda else ahead)
        storage = self._cache.storage
        if self._captured and any(
            now is not then for now, then in zip(storage, self._captured[0].storage, strict=True)
        ):
            self.clear()
        if self._captured is None:
            attention, state = RowAttention(storage), self.generator.get_state()
            self._load_inputs(attention, reply)
            replay = capture_cuda_graph(partial(self._step_and_sample, attention), self.generator)
            self.generator.set_state(state)
            self._captured = attention, replay
        attention, replay = self._captured
        # Again after a capture: its warm-up steps changed the inputs
        self._load_inputs(attention, reply)
        sampled = torch.empty(self._steps, dtype=torch.long, device=self._seen.device)
        scores = torch.empty(self._steps, len(self._seen), device=self._seen.device)
        for n in range(self._steps):
            replay()
            sampled[n : n + 1].copy_(self._token)
            scores[n].copy_(self._scores)
        # Except for labels, the host waits for the device only here
        return self._digits.with_probabilities(sampled.tolist(), scores)

    def _load_inputs(self, attention: RowAttention, reply: Sequence[int]) -> None:
        self._token.fill_(reply[-1])
        self._position.fill_(self._cache.next_position)
        attention.row.fill_(self._cache.num_tokens)
        if self._penalty != 1.0:
            self._seen.zero_()
            seen = sorted({*self._prompt_tokens, *reply})
            self._seen[torch.tensor(seen, device=self._seen.device)] = True

    def _step_and_sample(self, attention: RowAttention) -> None:
        """Run one decode step and replace its inputs with the next step's."""
        logits = self._step(self._token, self._position, attention.attend())[0]
        if self._penalty != 1.0:
            penalised = apply_repetition_penalty(logits, self._penalty)
            logits = torch.where(self._seen, penalised, logits)
        self._scores = logits = logits.index_fill(0, self._placeholders, -math.inf)
        self._token.copy_(draw_token(logits, self._temperature, self.generator))
        if self._penalty != 1.0:
            self._seen.index_fill_(0, self._token, True)
        attention.row += 1
        self._position += 1


def draw_token(
    logits: torch.Tensor, temperature: float, generator: torch.Generator
) -> torch.Tensor:
    """Return the likeliest token at temperature 0, else a draw by Gumbel-max.

    `logits` is (vocabulary,), the result (1,). A draw is the largest of the probabilities, each
    divided by a number of the exponential distribution, so that nothing waits for the host.
    """
    if temperature <= 0:
        return logits.argmax(dim=-1, keepdim=True)
    # A tiny temperature would overflow
    scores = (logits - logits.max()) / max(temperature, SMALLEST_TEMPERATURE)
    noise = torch.empty_like(scores).exponential_(generator=generator)
    noise.clamp_min_(torch.finfo(noise.dtype).tiny)
    return (scores.softmax(dim=-1) / noise).argmax(dim=-1, keepdim=True)


SMALLEST_TEMPERATURE = 1e-6


def placeholders_of(config: Qwen2_5_VLConfig, device: torch.device) -> torch.Tensor:
    """Return the placeholder tokens of pictures, which must never be sampled.

    A reply has no picture to replace them with. The stock model refuses a conversation with more
    placeholders than pictures, in training and in the next turn.
    """
    return torch.tensor([config.image_token_id, config.video_token_id], device=device)


def apply_repetition_penalty(logits: torch.Tensor, penalty: float) -> torch.Tensor:
    """Lower logits of tokens that have occurred, as stock `generate()` does."""
    return torch.where(logits < 0, logits * penalty, logits / penalty)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """The parts that all conversations of one backend share.

    Only the vision encoder's cache changes, under its own lock.
    """

    model: Qwen2_5_VLForConditionalGeneration
    tokenizer: SafeTokenizer
    vision: VisionEncoder
    context_length: int  # Tokens of prompt and reply together
    stop_tokens: frozenset[int]  # Tokens that end a reply
    label_digits: LabelDigits
    marker: Marker
    repetition_penalty: float
    """The checkpoint's own, 1 for none. Stock `generate()` applies it in greedy decoding, too."""
    step: DecodeStep | None  # None: the model's own modules decode
    # Decode steps between two GPU synchronisations; 0: one at a time, no fixed tensors
    steps_per_sync: int = 0

    def render(self, messages: Sequence[Message]) -> list[PromptItem]:
        """Return the next prompt; raise `BackendRefused` if no patch grid fits."""
        messages = messages if self.marker.video_items else videos_as_images(messages)
        try:
            return render_prompt(messages, self.tokenizer, self.vision.vision_item)
        except ValueError as error:
            raise BackendRefused(f"This judge cannot take a frame: {error}.") from error


class Generation:
    """One reply, alone or in a batch.

    Between two steps the KV cache holds whole prompt items: the prompt, then the reply's processed
    tokens.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        cache: PrefixCache,
        prompt: list[PromptItem],
        sampling: Sampling,
        cancelled: Cancelled,
        multi_step: MultiStepDecoder | None,
    ) -> None:
        """Start a reply, which `multi_step` decodes if given."""
        self.prompt, self.cache = prompt, cache
        redirect = loaded.marker.redirect(sampling.redirect)
        self.detokenizer = StreamingDetokenizer(loaded.tokenizer, redirect)
        # A stop token, the token limit or a cancel; None while the reply goes on
        self.finish_reason: Literal["end", "length", "cancelled"] | None = None
        self.sampler = Sampler(loaded, prompt, sampling, getattr(multi_step, "generator", None))
        self._loaded, self._cancelled = loaded, cancelled
        self._max_tokens = min(sampling.max_new_tokens, loaded.context_length - token_count(prompt))
        self.logits: torch.Tensor | None = None  # After the last processed token, (vocabulary,)
        self.token = -1  # The last sampled token
        self._multi_step = multi_step
        self._sampled_ahead: deque[SampledToken] = deque()
        """Tokens that the reply does not hold yet. All but the last are processed."""
        self._reused_tokens = 0
        self._start_time = time.perf_counter()

    def prefill(self) -> None:
        """Process the prompt's items that are not in the KV cache."""
        if self._multi_step is not None:
            tokens, count = self.sampler.prompt_tokens, token_count(self.prompt)
            self._multi_step.start_reply(tokens, count, self.sampler.temperature)
        self.logits, self._reused_tokens = self.cache.prefill(self.prompt, self._cancelled)

    def run(self) -> Iterator[str | None]:
        """Yield new text, and None where `token` must be processed before the next item.

        Ends with `finish_reason`. The caller processes tokens: see `process`.
        """
        while self.finish_reason is None:
            needed = self._sample()
            if text := self.detokenizer.next_text():
                yield text
            if needed:
                yield None
        if text := self.detokenizer.flush():
            yield text

    def process(self) -> None:
        """Process `token` alone."""
        if self._multi_step is None:
            self.logits = self.cache.decode(self.token)
            return
        if not self._sampled_ahead:
            self._sampled_ahead.extend(self._multi_step.decode(self.detokenizer.tokens))
        self.cache.append(self.token)

    def _sample(self) -> bool:
        """Sample `token` or set `finish_reason`; return whether to process the token."""
        written, ahead = self.detokenizer, self._sampled_ahead
        if self.logits is None or self._cancelled():
            self.finish_reason = "cancelled"
            return False
        if len(written.tokens) >= self._max_tokens:
            self.finish_reason = "length"
            return False
        sampled = ahead.popleft() if ahead else self.sampler(self.logits, written.tokens)
        self.token, probabilities = sampled
        if self.token in self._loaded.stop_tokens:
            self.finish_reason = "end"
            return False
        written.append([self.token])
        if probabilities is not None:
            after = self._loaded.label_digits.characters_after[self.token]
            written.mark_digit(probabilities, after)
        if written.apply_redirect():
            ahead.clear()
            prompt = [*self.prompt, *written.tokens]
            self.logits, _ = self.cache.prefill(prompt, self._cancelled)
            return False
        return len(written.tokens) < self._max_tokens

    def completion(self) -> Completion:
        """Return the whole reply after `finish_reason` is set and text flushed."""
        written = self.detokenizer
        return Completion(
            written.text,
            self.finish_reason or "cancelled",
            tuple(written.tokens),
            tuple(written.pieces),
            token_count(self.prompt),
            self._reused_tokens,
            len(written.tokens),
            time.perf_counter() - self._start_time,
            redirected=written.redirected,
            label_tokens=written.labels(),
        )


class Sampler:
    """The sampler of one reply: penalty, then argmax or a draw."""

    def __init__(
        self,
        loaded: LoadedModel,
        prompt: Sequence[PromptItem],
        sampling: Sampling,
        generator: torch.Generator | None = None,
    ) -> None:
        """Seed `generator`, by default one on the device of the first logits."""
        self._penalty, self._digits = loaded.repetition_penalty, loaded.label_digits
        self.temperature = sampling.temperature
        self._generator, self._seed = (
            generator and generator.manual_seed(sampling.seed),
            sampling.seed,
        )
        self.prompt_tokens = {item for item in prompt if isinstance(item, int)}
        self._placeholders = placeholders_of(loaded.model.config, loaded.model.device)

    @torch.inference_mode()
    def __call__(self, logits: torch.Tensor, reply: Sequence[int]) -> SampledToken:
        """Return the next token.

        `logits` has shape (vocabulary,), `reply` holds the tokens of the reply so far. The
        probabilities of a digit are taken after the penalty and before the temperature.
        """
        if self._penalty != 1.0:
            seen = torch.tensor(sorted(self.prompt_tokens | set(reply)), device=logits.device)
            penalised = apply_repetition_penalty(logits[seen], self._penalty)
            logits = logits.index_put((seen,), penalised)
        logits = logits.index_fill(0, self._placeholders.to(logits.device), -math.inf)
        if self._generator is None:
            self._generator = torch.Generator(logits.device).manual_seed(self._seed)
        token = draw_token(logits, self.temperature, self._generator)
        return self._digits.with_probabilities(token.tolist(), logits[None])[0]
