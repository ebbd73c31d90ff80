"""TransformersBackend: a Qwen2.5-VL checkpoint as a judge in this process.

The built-in judge and the 7B use the same code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.base import GenerationRequest, StreamItem, describe_backend
from vrthinker_core.backends.borrowed_gpu import borrows_gpu
from vrthinker_core.backends.judge_name import Bits, folder_title
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint, end_tokens, open_checkpoint
from vrthinker_core.backends.local.conversation import LocalConversation
from vrthinker_core.backends.local.engine.batch_decoding import stream_batch
from vrthinker_core.backends.local.engine.decode_step import takes_decode_steps
from vrthinker_core.backends.local.engine.generation import LoadedModel
from vrthinker_core.backends.local.engine.label_digits import LabelDigits
from vrthinker_core.backends.local.engine.vision_encoder import VisionEncoder
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.dialects.factory import redirects

STEPS_PER_SYNC = 8
"""Greedy decode steps between two GPU synchronisations. A cancel and new text may each come that
many tokens later.
"""


class TransformersBackend:
    """A `Backend` and `BatchBackend` on a checkpoint with checked weights.

    Thread-safe: conversations share only weights and cached image features. No gradients are
    computed. A small model on the CPU runs with one thread, and leaves torch set so
    (`torch.set_num_threads(1)`) in the calling thread.
    """

    def __init__(self, checkpoint: Checkpoint, name: str, notes: tuple[str, ...] = ()) -> None:
        self.name, self.notes = name, notes
        self.protocols = checkpoint.marker.protocols
        self.follows_instructions = not checkpoint.marker.forced
        self.scope = checkpoint.marker.scope
        self.loaded = _loaded_model(checkpoint)

    def __repr__(self) -> str:
        return describe_backend(self)

    @classmethod
    def load(
        cls,
        source: str,
        *,
        name: str | None = None,
        device: str | None = None,
        dtype: torch.dtype | None = None,
        bits: Bits | None = None,
        notes: tuple[str, ...] = (),
    ) -> TransformersBackend:
        """Open a folder or a hub id.

        `notes` are caveats for people about the choice. `device` is "cpu", "cuda", "cuda:1", "mps"
        or "xpu". By default small models run on the CPU in float32, others on the best device in
        bfloat16. `bits` quantises the language model while it is loaded. On a CPU, batched replies
        equal single replies in float32 only.

        Raises `CheckpointError` if the checkpoint is missing, damaged or too large.
        """
        checkpoint = open_checkpoint(source, device=device, dtype=dtype, bits=bits)
        return cls(checkpoint, name or folder_title(checkpoint.folder), notes)

    def open_conversation(self) -> LocalConversation:
        """Return a new conversation; its first prompt allocates the KV cache."""
        return LocalConversation(self.loaded)

    def stream_batch(
        self, requests: Sequence[GenerationRequest]
    ) -> Iterator[tuple[int, StreamItem]]:
        """Decode all requests in one batch: see `BatchBackend`.

        Each reply equals the reply of a single request, token for token.
        """
        return stream_batch(self.loaded, requests)

    def close(self) -> None:
        """Free cached image features; the last reference frees the weights."""
        self.loaded.vision.clear()


def _loaded_model(checkpoint: Checkpoint) -> LoadedModel:
    model, tokenizer = checkpoint.model, SafeTokenizer(checkpoint.tokenizer)
    config = model.generation_config
    stops = (tokenizer.control.im_end, tokenizer.control.endoftext, *end_tokens(config))
    return LoadedModel(
        model=model,
        tokenizer=tokenizer,
        vision=VisionEncoder(model, checkpoint.processor, threads=checkpoint.threads),
        context_length=int(model.config.get_text_config().max_position_embeddings),
        threads=checkpoint.threads,
        stop_tokens=frozenset(int(token) for token in stops),
        label_digits=LabelDigits(tokenizer),
        forced_redirects=redirects(checkpoint.marker.forced),
        video_items=checkpoint.marker.video_items,
        repetition_penalty=float(config.repetition_penalty or 1.0),
        steps_per_sync=STEPS_PER_SYNC if not checkpoint.bits and _can_capture_graphs(model) else 0,
    )


def _can_capture_graphs(model: Qwen2_5_VLForConditionalGeneration) -> bool:
    """Return whether the model is alone on a GPU of its own.

    A CUDA graph must not outlive a GPU lent by ZeroGPU.
    """
    return model.device.type == "cuda" and takes_decode_steps(model) and not borrows_gpu()
