"""A judge in this process: any Qwen2.5-VL checkpoint, the built-in one and the 7B alike."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import torch
from transformers import Qwen2_5_VLForConditionalGeneration

from vrthinker_core.backends.base import GenerationRequest, StreamItem
from vrthinker_core.backends.local.checkpoint.checkpoint_files import folder_title
from vrthinker_core.backends.local.checkpoint.loader import Checkpoint, open_checkpoint
from vrthinker_core.backends.local.conversation import LocalConversation
from vrthinker_core.backends.local.engine.batch_decoding import stream_batch
from vrthinker_core.backends.local.engine.generation import LoadedModel
from vrthinker_core.backends.local.engine.vision_encoder import VisionEncoder
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.types import ProtocolName

STEPS_PER_SYNC = 8
"""Greedy tokens written between two looks at the host, on a GPU: a stop is heard, and a piece shown, that much later."""


class TransformersBackend:
    """A `Backend` on a checkpoint that was checked weight by weight.

    Safe for threads: conversations share weights and the features of frames, nothing else. Everything runs without gradients.
    A small judge on the processor computes with one thread, and leaves torch set so (`torch.set_num_threads(1)`) where it spoke.
    """

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self._name = name
        self._protocol = checkpoint.protocol
        self.loaded: LoadedModel = _loaded_model(checkpoint)

    @classmethod
    def load(
        cls, source: str, *, name: str | None = None, device: str | None = None, dtype: torch.dtype | None = None
    ) -> TransformersBackend:
        """Open a folder or a hub id.

        `device` ("cpu", "cuda", "cuda:1") and `dtype` default to: small models on the processor in float32; others on the GPUs
        in bfloat16, or on the processor in bfloat16 where there is none. Raises CheckpointError for a checkpoint that is
        missing, damaged or too large.
        """
        checkpoint = open_checkpoint(source, device=device, dtype=dtype)
        return cls(checkpoint, name or folder_title(checkpoint.folder))

    @property
    def name(self) -> str:
        """How the judge is named to people."""
        return self._name

    @property
    def protocol(self) -> ProtocolName | None:
        """The dialect this checkpoint was trained for, None where that is not known."""
        return self._protocol

    @property
    def follows_instructions(self) -> bool:
        """Whether words that are not its protocol's may be added."""
        return self.loaded.forced_redirect is None

    def open_conversation(self) -> LocalConversation:
        """A fresh conversation, which holds no memory before its first message."""
        return LocalConversation(self.loaded)

    def stream_batch(self, questions: Sequence[GenerationRequest]) -> Iterator[tuple[int, StreamItem]]:
        """See `Chorus`: all replies come out of shared steps of the model; each is, token for token, the one it is alone."""
        return stream_batch(self.loaded, questions)

    def close(self) -> None:
        """Give the features of frames back; the weights go with the last reference to the backend."""
        self.loaded.vision.clear()


def _loaded_model(checkpoint: Checkpoint) -> LoadedModel:
    model, spelling = checkpoint.model, SafeTokenizer(checkpoint.tokenizer)
    said = model.generation_config
    ends = said.eos_token_id if isinstance(said.eos_token_id, list) else [said.eos_token_id]
    return LoadedModel(
        model=model,
        tokenizer=spelling,
        vision=VisionEncoder(model, checkpoint.processor, threads=checkpoint.threads),
        context_length=int(model.config.get_text_config().max_position_embeddings),
        threads=checkpoint.threads,
        stop_tokens=frozenset({spelling.control.im_end, spelling.end_of_text, *(int(end) for end in ends if end is not None)}),
        forced_redirect=checkpoint.forced_redirect,
        repetition_penalty=float(said.repetition_penalty or 1.0),
        steps_per_sync=STEPS_PER_SYNC if _can_capture_graphs(model) else 0,
    )


def _can_capture_graphs(model: Qwen2_5_VLForConditionalGeneration) -> bool:
    """One GPU that is here to stay: steps cannot be recorded across several, nor on one that is borrowed for each visitor anew."""
    spread = len(set((getattr(model, "hf_device_map", None) or {}).values())) > 1
    return model.device.type == "cuda" and not spread and not os.environ.get("SPACES_ZERO_GPU")
