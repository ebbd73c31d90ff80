"""DecodeStep: a decode step that a CUDA graph can replay."""

import logging
import math
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from transformers import Cache, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer

from vrthinker_core.backends.devices import best_device, is_out_of_memory, limit_threads
from vrthinker_core.backends.kv_cache import PrefixCache, hidden_states
from vrthinker_core.errors import BackendFailed, BackendRefused, ContextFull, VrThinkerError
from vrthinker_core.types.messages import LabelProbabilities


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
    it. For a token of a 7B, a GPU reads weights for a few milliseconds; eager Python takes several
    times as long to launch the kernels. A CUDA graph launches all of them at once.
    """

    def __init__(
        self, model: Qwen2_5_VLForConditionalGeneration, storage: Sequence[LayerStorage]
    ) -> None:
        """Take `storage`, the KV cache, one pair a layer, written in place."""
        batch, _, rows, _ = storage[0][0].shape
        device = storage[0][0].device
        self._model = model
        self._row_indices = torch.arange(rows, device=device)
        self.token_ids, self.cache_rows, self.position_ids = (
            torch.zeros(batch, dtype=torch.long, device=device) for _ in range(3)
        )
        self._layers = [StaticLayer(layer, self.cache_rows) for layer in storage]

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
            layer.visible_rows = len(rows)
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

    visible_rows: int

    def __init__(self, storage: LayerStorage, write_rows: torch.Tensor) -> None:
        """Write to the row of each sequence in `write_rows`, (batch,)."""
        super().__init__()  # type: ignore[no-untyped-call]
        self._storage, self._write_rows = storage, write_rows
        self._batch_index = torch.arange(len(storage[0]), device=storage[0].device)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: Any, **__: Any
    ) -> tuple[Any, Any]:
        """Write (batch, heads, 1, head_dim) and return the visible rows."""
        for storage, states in zip(self._storage, (key_states, value_states), strict=True):
            storage[self._batch_index, :, self._write_rows] = states[:, :, 0]
        keys, values = (storage[:, :, : self.visible_rows] for storage in self._storage)
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
        with _CAPTURE, torch.cuda.device(device):
            before = torch.cuda.current_stream()
            stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            stream.wait_stream(before)
            with torch.cuda.stream(stream):
                for _ in range(WARMUP_STEPS):
                    step()
            before.wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
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


class MultiStepDecoder:
    """A greedy decoder that runs ahead of its `PrefixCache`.

    Each step samples its next token on the device. Keys and values are written to the cache rows
    after the used rows; the cache does not count them. The caller appends each token to the cache
    as it accepts it.
    """

    def __init__(self, cache: PrefixCache, digits: LabelDigits, penalty: float, steps: int) -> None:
        """Decode `steps` tokens a call; a `penalty` of 1 is none."""
        self._cache, self._digits = cache, digits
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
        self._captured: tuple[DecodeStep, Callable[[], None]] | None = None  # And its replay
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
        limit_threads(self._cache.vision.threads)
        self._make_way(self._cache.num_tokens + self._steps + WARMUP_STEPS)
        self._cache.reserve(self._steps + WARMUP_STEPS)
        storage = [layer.storage for layer in self._cache.layers]
        if self._captured and any(
            now is not then for now, then in zip(storage, self._storage, strict=True)
        ):
            self.clear()  # Free the old step's memory before the next step is allocated
        if self._captured is None:
            self._storage, step = storage, DecodeStep(self._cache.model, storage)
            device, config = step.token_ids.device, self._cache.model.config
            vocabulary = config.get_text_config().vocab_size
            self._seen = torch.zeros(vocabulary, dtype=torch.bool, device=device)
            self._placeholders = placeholders_of(config, device)
            self._load_inputs(step, reply)
            replay = capture_cuda_graph(partial(self._step_and_sample, step), device)
            self._captured = step, replay
        step, replay = self._captured
        # Again after a capture: its warm-up steps changed the inputs
        self._load_inputs(step, reply)
        sampled = torch.empty(self._steps, dtype=torch.long, device=self._seen.device)
        scores = torch.empty(self._steps, len(self._seen), device=self._seen.device)
        for n in range(self._steps):
            replay()
            sampled[n : n + 1].copy_(step.token_ids)
            scores[n].copy_(self._scores)
        # Except for labels, the host waits for the device only here
        return self._digits.with_probabilities(sampled.tolist(), scores)

    def _make_way(self, tokens: int) -> None:
        """Drop the captured step before the cache grows: it holds old tensors."""
        if not self._cache.has_rows(tokens):
            self.clear()

    def _load_inputs(self, step: DecodeStep, reply: Sequence[int]) -> None:
        step.load_inputs([reply[-1]], [self._cache.num_tokens], [self._cache.next_position])
        if self._penalty != 1.0:
            self._seen.zero_()
            seen = sorted({*self._prompt_tokens, *reply})
            self._seen[torch.tensor(seen, device=self._seen.device)] = True

    def _step_and_sample(self, step: DecodeStep) -> None:
        """Run one decode step and replace its inputs with the next step's."""
        logits = step.forward()[0]
        if self._penalty != 1.0:
            penalised = apply_repetition_penalty(logits, self._penalty)
            logits = torch.where(self._seen, penalised, logits)
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
