"""ChatForm: a checkpoint's own processor and chat template, probed.

`open_chat_form` renders a test conversation to find a form that loses nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from PIL import Image as Picture
from transformers import AutoConfig, AutoProcessor
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.utils.import_utils import is_torchvision_available

from vrthinker_core.backends.checkpoint import quiet_transformers
from vrthinker_core.errors import CheckpointError

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

    @property
    def tokenizer(self) -> Any:
        """The processor's tokenizer."""
        return self.processor.tokenizer

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats for people, one sentence each."""
        cost = (
            f"A frame of {PROBE_SIDE} x {PROBE_SIDE} pixels takes "
            f"{self.tokens_a_frame:,} of its tokens."
        )
        forgets = "Its chat template drops the thoughts of earlier replies."
        return (cost, forgets) if self.forgets_thoughts else (cost,)

    def render(self, talk: Talk) -> dict[str, Any]:
        """Return the inputs of `generate`, on the CPU."""
        if self.folds_system and talk[0]["role"] == "system":
            parts = [*talk[0]["content"], {"type": "text", "text": "\n\n"}, *talk[1]["content"]]
            talk = [{**talk[1], "content": parts}, *talk[2:]]
        with quiet_transformers():
            rendered = self.processor.apply_chat_template(
                talk,
                add_generation_prompt=True,
                tokenize=True,
                return_dict=True,
                return_tensors="pt",
                enable_thinking=False,
                sanitize_control_tokens=True,  # Otherwise `<image>` in a prompt counts as a picture
                processor_kwargs=dict(self.options),
            )
        return dict(rendered)


def open_chat_form(folder: Path, title: str) -> ChatForm:
    """Return the cheapest form that renders a multi-image conversation without loss.

    Two choices are tried: the system text as a message or in front of the first message, and
    pictures in tiles or whole. Raises `CheckpointError` if the model has no chat template, or if
    every form loses a text or a picture.
    """
    try:
        processor = _open_processor(folder)
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
    picture = {
        "type": "image",
        "image": Picture.new("RGB", (PROBE_SIDE, PROBE_SIDE), (90, 120, 60)),
    }
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
    text = form.tokenizer.decode(ids)
    places = [text.find(mark) for mark in MARKS]
    forgets = places[MARKS.index(THOUGHT)] < 0
    told = [
        place for mark, place in zip(MARKS, places, strict=True) if mark != THOUGHT or not forgets
    ]
    if min(told) < 0 or told != sorted(told):
        raise ValueError("its chat template loses or moves text")
    tokens = len(ids) - int(form.render(talk(picture))["input_ids"].shape[1])
    if tokens < 2:
        raise ValueError("its chat template shows one picture of several")
    return replace(form, forgets_thoughts=forgets, tokens_a_frame=tokens)


def _open_processor(folder: Path) -> Any:
    """Open the processor, without its video part if torchvision is missing.

    Without torchvision `AutoProcessor` refuses every processor with a video part.
    """
    if is_torchvision_available():
        any_family: Any = AutoProcessor
        return any_family.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
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
