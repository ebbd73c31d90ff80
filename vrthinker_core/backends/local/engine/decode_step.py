"""DecodeStep: a decode step of a batch over fixed tensors.

Fixed tensors let a GPU capture the step as a CUDA graph. For a token of a 7B, a GPU reads weights
for a few milliseconds; eager Python takes several times as long to launch the kernels. A CUDA graph
launches all of them at once. The step's code is the same on every device.
"""

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import Cache, Qwen2_5_VLForConditionalGeneration
from transformers.cache_utils import DynamicLayer

from vrthinker_core.backends.local.engine.kv_cache import hidden_states

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
