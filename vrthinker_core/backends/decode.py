"""DecodeStep: a decode step of a batch over fixed tensors.

Fixed tensors let a GPU capture the step as a CUDA graph. For a token of a 7B, a GPU reads weights
for a few milliseconds; eager Python takes several times as long to launch the kernels. A CUDA graph
launches all of them at once. The step's code is the same on every device.
"""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from transformers import Cache, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer

from vrthinker_core.backends.chat_template import SafeTokenizer
from vrthinker_core.backends.devices import limit_threads
from vrthinker_core.backends.kv_cache import PrefixCache, hidden_states
from vrthinker_core.types.messages import LabelProbabilities

DECIMALS = 6  # Of a probability: float32 logits give no more, and traces stay short
_PADDING = b" \t\r\n=:\"'*_`"  # Characters that may share a token with the digit: " 1"


class SampledToken(NamedTuple):
    """A token, and the probabilities of its possible label.

    They are the probabilities of 0, 1 and 2; None if the token writes no such digit.
    """

    token: int
    probabilities: LabelProbabilities | None = None


class LabelDigits:
    """A vocabulary's tokens that write a lone 0, 1 or 2.

    They are found once. Immutable, so threads may share it.
    """

    def __init__(self, tokenizer: SafeTokenizer) -> None:
        self.characters_after: dict[int, int] = {}  # For each token: characters after its digit
        self._tokens_of_digit: tuple[list[int], ...] = ([], [], [])
        for token in range(tokenizer.vocabulary_size):
            written = tokenizer.token_bytes(token)
            digit = written.strip(_PADDING)
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
        found = dict(zip(rows, self._probabilities(scores[rows]), strict=True)) if rows else {}
        return [SampledToken(token, found.get(row)) for row, token in enumerate(tokens)]

    def _probabilities(self, scores: torch.Tensor) -> list[LabelProbabilities]:
        shares = torch.softmax(scores.float(), dim=-1)
        digits = torch.stack(
            [shares[:, tokens].sum(dim=-1) for tokens in self._tokens_of_digit], dim=-1
        )
        return [
            (min(tie, 1.0), min(first, 1.0), min(second, 1.0))
            for tie, first, second in _rounded(digits)
        ]


def _rounded(values: torch.Tensor) -> list[list[float]]:
    return [[round(value, DECIMALS) for value in row] for row in values.tolist()]


WARMUP_STEPS = 2
"""Steps before a capture, in which kernels are chosen and workspaces allocated. Each step writes to
the KV cache as usual.
"""

_CAPTURE = threading.Lock()
"""A lock without data. CUDA captures one graph at a time in a process, and freeing memory meanwhile
breaks the capture.
"""

# Keys and values of one layer, (batch, heads, rows, head_dim) each
LayerStorage = tuple[torch.Tensor, torch.Tensor]


def takes_decode_steps(model: Qwen2_5_VLForConditionalGeneration) -> bool:
    """Return whether a `DecodeStep` can run the model.

    The whole model must be on one device, and each layer must read every row of the KV cache.
    """
    layer_types = getattr(model.config.get_text_config(), "layer_types", None) or ["full_attention"]
    spread = len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1
    return set(layer_types) == {"full_attention"} and not spread


class DecodeStep:
    """A decode step that processes one token of each sequence.

    It writes the token's keys and values to the sequence's cache row and returns the logits after
    it.
    """

    def __init__(
        self, model: Qwen2_5_VLForConditionalGeneration, storage: Sequence[LayerStorage]
    ) -> None:
        """Take `storage`, the KV cache, one pair a layer, written in place."""
        batch, _, rows, _ = storage[0][0].shape
        device = storage[0][0].device
        self._model = model
        self._layers = [StaticLayer(layer) for layer in storage]
        self._row_indices = torch.arange(rows, device=device)
        self.token_ids, self.cache_rows, self.position_ids = (
            torch.zeros(batch, dtype=torch.long, device=device) for _ in range(3)
        )

    def load_inputs(
        self, token_ids: Sequence[int], cache_rows: Sequence[int], position_ids: Sequence[int]
    ) -> None:
        """Copy in each sequence's token, cache row to write to, and position."""
        tensors = (self.token_ids, self.cache_rows, self.position_ids)
        for tensor, values in zip(tensors, (token_ids, cache_rows, position_ids), strict=True):
            tensor.copy_(torch.tensor(values, dtype=torch.long))

    def forward(self, visible_rows: int | None = None) -> torch.Tensor:
        """Return the logits, (batch, vocabulary) in float32.

        Attention reads the first `visible_rows` rows. None means all rows, which a CUDA graph
        needs.
        """
        rows = self._row_indices[:visible_rows]
        for layer in self._layers:
            layer.set_rows(self.cache_rows, len(rows))
        model: Any = self._model
        hidden = hidden_states(
            model,
            model.get_input_embeddings()(self.token_ids[:, None]),
            self.position_ids[None, :, None].expand(3, -1, 1),
            Cache(layers=list(self._layers)),
            {"full_attention": (rows <= self.cache_rows[:, None])[:, None, None]},
        )
        logits: torch.Tensor = model.lm_head(hidden[:, -1]).float()
        return logits


class StaticLayer(DynamicLayer):  # type: ignore[no-untyped-call]
    """A KV cache layer that never moves; a mask hides unused rows."""

    def __init__(self, storage: LayerStorage) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._storage = storage
        self._batch_index = torch.arange(len(storage[0]), device=storage[0].device)

    def set_rows(self, write_rows: torch.Tensor, visible_rows: int) -> None:
        """Set each sequence's write row, (batch,), and how many rows are visible."""
        self._write_rows, self._visible_rows = write_rows, visible_rows

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,  # noqa: ARG002
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[Any, Any]:
        """Write (batch, heads, 1, head_dim) and return the visible rows."""
        for storage, states in zip(self._storage, (key_states, value_states), strict=True):
            storage[self._batch_index, :, self._write_rows] = states[:, :, 0]
        keys, values = (storage[:, :, : self._visible_rows] for storage in self._storage)
        return keys, values


def capture_cuda_graph(step: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """Capture `step` as a CUDA graph and return its replay function.

    Returns `step` itself if the device is no GPU or the capture fails. `step` must read and write
    tensors that never move. `step` runs `WARMUP_STEPS` times before the capture: set its inputs
    again afterwards.
    """
    if device.type != "cuda":
        return step
    try:
        with _CAPTURE, torch.cuda.device(device), _same_stream_after():
            graph = _warm_up_and_capture(step)
    except RuntimeError as error:
        logging.getLogger(__name__).warning(
            "Decoding is slower than it could be: no CUDA graph could be captured (%s).", error
        )
        return step
    replay: Callable[[], None] = graph.replay
    return replay


@contextmanager
def _same_stream_after() -> Iterator[None]:
    """Restore the thread's CUDA stream after a failed capture.

    A failed capture leaves its thread on the stream of the capture. Memory that the thread frees
    there could be reused too early.
    """
    before = torch.cuda.current_stream()
    try:
        yield
    except BaseException:
        torch.cuda.synchronize()
        torch.cuda.set_stream(before)
        raise


def _warm_up_and_capture(step: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Warm up and capture `step` on a stream of the current device.

    Other threads may use the GPU meanwhile: `thread_local` mode restricts only the capturing
    thread.
    """
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARMUP_STEPS):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
        step()
    return graph


def free_gpu_memory() -> None:
    """Free torch's unused GPU memory, but not during a capture."""
    with _CAPTURE:
        torch.cuda.empty_cache()
    if torch.backends.mps.is_available():
        torch.mps.empty_cache()
    if torch.xpu.is_available():
        torch.xpu.empty_cache()


class MultiStepDecoder:
    """A greedy decoder that runs ahead of its `PrefixCache`.

    Each step samples its next token on the device. Keys and values are written to the cache rows
    after the used rows; the cache does not count them. The caller appends each token to the cache
    as it accepts it.
    """

    def __init__(
        self,
        model: Qwen2_5_VLForConditionalGeneration,
        cache: PrefixCache,
        digits: LabelDigits,
        penalty: float,
        steps: int,
    ) -> None:
        """Decode `steps` tokens a call; a `penalty` of 1 is none."""
        self._model, self._cache, self._digits = model, cache, digits
        self._penalty, self._steps = penalty, steps
        self._prompt_tokens: list[int] = []
        self._seen: torch.Tensor
        """For each token, whether the prompt or the reply so far has it: the repetition penalty
        lowers its logit.
        """
        self._placeholders: torch.Tensor
        """Tokens that are never sampled: see `placeholders_of`."""
        self.clear()

    def clear(self) -> None:
        """Drop the captured step, which keeps the cache's tensors alive."""
        self._storage: list[LayerStorage] = []
        self._captured: tuple[DecodeStep, Callable[[], None]] | None = None
        """The step and its replay function."""
        self._scores = torch.empty(0)
        """Logits of the last sampled token after the repetition penalty, (vocabulary,) in float32.
        A graph never moves this tensor.
        """

    def start_reply(self, prompt_tokens: Iterable[int], count: int) -> None:
        """Prepare a prefill of `count` tokens; penalise repeats of `prompt_tokens`."""
        self._prompt_tokens = list(prompt_tokens)
        self._make_way(count)

    @torch.inference_mode()
    def decode(self, reply: Sequence[int]) -> list[SampledToken]:
        """Process the last token of `reply` and sample `steps` more.

        `reply` holds the tokens so far. The last sampled token is not processed.
        """
        limit_threads(self._cache.threads)
        self._make_way(self._cache.num_tokens + self._steps + WARMUP_STEPS)
        self._cache.reserve(self._steps + WARMUP_STEPS)
        storage = [layer.storage for layer in self._cache.layers]
        if self._captured and any(
            now is not then for now, then in zip(storage, self._storage, strict=True)
        ):
            self.clear()  # Free the old step's memory before the next step is allocated
        step, replay = self._captured = self._captured or self._capture(storage, reply)
        # Again after a capture: its warm-up steps changed the inputs
        self._load_inputs(step, reply)
        sampled = torch.empty(self._steps, dtype=torch.long, device=self._seen.device)
        scores = torch.empty(self._steps, len(self._seen), device=self._seen.device)
        for n in range(self._steps):
            replay()
            sampled[n : n + 1].copy_(step.token_ids)
            scores[n].copy_(self._scores)
        # Except for labels, the host waits for the device only here
        tokens = [int(token) for token in sampled.tolist()]
        return self._digits.with_probabilities(tokens, scores)

    def _make_way(self, tokens: int) -> None:
        """Drop the captured step before the cache grows: it holds old tensors."""
        if not self._cache.has_rows(tokens):
            self.clear()

    def _capture(
        self, storage: list[LayerStorage], reply: Sequence[int]
    ) -> tuple[DecodeStep, Callable[[], None]]:
        """Return a captured decode step, valid until `storage` is reallocated."""
        self._storage, step = storage, DecodeStep(self._model, storage)
        device = step.token_ids.device
        self._seen = torch.zeros(
            self._model.config.get_text_config().vocab_size, dtype=torch.bool, device=device
        )
        self._placeholders = placeholders_of(self._model.config, device)
        self._load_inputs(step, reply)
        return step, capture_cuda_graph(partial(self._step_and_sample, step), device)

    def _load_inputs(self, step: DecodeStep, reply: Sequence[int]) -> None:
        step.load_inputs([reply[-1]], [self._cache.num_tokens], [self._cache.next_position])
        if self._penalty != 1.0:
            self._seen.zero_()
            self._seen[
                torch.tensor(sorted({*self._prompt_tokens, *reply}), device=self._seen.device)
            ] = True

    def _step_and_sample(self, step: DecodeStep) -> None:
        """Run one decode step and replace its inputs with the next step's."""
        logits = step.forward()[0]
        if self._penalty != 1.0:
            logits = torch.where(
                self._seen, apply_repetition_penalty(logits, self._penalty), logits
            )
        self._scores = logits = logits.index_fill(0, self._placeholders, -math.inf)
        step.token_ids.copy_(logits.argmax(dim=-1, keepdim=True))
        if self._penalty != 1.0:
            self._seen.index_fill_(0, step.token_ids, True)
        step.cache_rows += 1
        step.position_ids += 1


def placeholders_of(config: Qwen2_5_VLConfig, device: torch.device) -> torch.Tensor:
    """Return the placeholder tokens of pictures, which must never be sampled.

    A reply has no picture to replace them with. The stock model refuses a conversation with more
    placeholders than pictures, in training and in the next turn.
    """
    return torch.tensor([config.image_token_id, config.video_token_id], device=device)


def apply_repetition_penalty(logits: torch.Tensor, penalty: float) -> torch.Tensor:
    """Lower logits of tokens that have occurred, as stock `generate()` does."""
    return torch.where(logits < 0, logits * penalty, logits / penalty)
