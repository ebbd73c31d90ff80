"""The stage `base`: vision tower and language model from nothing, then the latter on what the former sees, as one checkpoint.

They need nothing of each other, because the frame code between them is fixed: each is trained in a process of its own, on its share
of the cores. A stopped run goes on from the checkpoints in its folder.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import torch
from tokenizers import Tokenizer

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.cpus import cpu_count
from vrthinker_core.training.base.conversations import draw_training_pair
from vrthinker_core.training.base.half_state import trained_weights
from vrthinker_core.training.base.half_training import Stopped, add_report, is_done, last_report, missed_gates
from vrthinker_core.training.base.language_training import LanguageOptions, train_language
from vrthinker_core.training.base.model.base_checkpoint import begin_with, write_checkpoint
from vrthinker_core.training.base.model.model_shape import model_config, new_model
from vrthinker_core.training.base.model.vocabulary import PROTOCOLS, control_ids, make_tokenizer
from vrthinker_core.training.base.part_processes import Figures, train_side_by_side
from vrthinker_core.training.base.vision_training import VisionOptions, train_vision
from vrthinker_core.training.drawn_teacher.replies import write_replies
from vrthinker_core.training.run.config import LanguageGates, VisionGates

VISION, LANGUAGE = "vision", "language"
ALIGNMENT = "alignment"  # The language model on what the tower sees
TOKENIZER, MODEL = "tokenizer.json", "model"
ALIGNING = 0.2  # Share of the time for it
VOCABULARY_PAIRS = 400  # Pairs whose prompts and replies the vocabulary is made from
VOCABULARY_FROM = 90_000_000  # The first of them

Report = Callable[[str, Figures], None]  # Called with the part that is trained, and its figures


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """How the base is trained."""

    minutes: float = 150.0  # At most, over all sittings
    vision: VisionOptions = field(default_factory=VisionOptions)
    language: LanguageOptions = field(default_factory=LanguageOptions)
    seed: int = 0
    init_from: Path | None = None  # Checkpoint of an earlier judge to begin with; None: random weights
    tower_from: Path | None = None  # Checkpoint whose vision tower is taken as it is; None: it is trained too

    @property
    def parts(self) -> tuple[str, ...]:
        """What is trained apart."""
        return (VISION, LANGUAGE) if self.tower_from is None else (LANGUAGE,)

    def timed(self) -> "BaseOptions":
        """The same, each part with its own time."""
        minutes = self.minutes * (1 - ALIGNING)
        return replace(self, vision=replace(self.vision, minutes=minutes), language=replace(self.language, minutes=minutes))

    def alignment(self) -> LanguageOptions:
        """How the language model is trained on what the tower sees."""
        language = self.language
        return replace(language, minutes=self.minutes * ALIGNING, rate=language.rate / 3, seed=language.seed + 1)


@dataclass(frozen=True, slots=True)
class TrainedBase:
    """The checkpoint, what each part read right at last, and which gates it has not passed."""

    model: Path
    reports: dict[str, Figures]
    missed: dict[str, list[str]]


def train_base(
    options: BaseOptions, folder: Path, report: Report = lambda _, __: None, stopped: Stopped = not_cancelled
) -> TrainedBase | None:
    """Train the base into `folder`, or go on with it; `folder/model` is its checkpoint. None where it was stopped."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / TOKENIZER).is_file():
        _check_sources(options)
    tokenizer = _tokenizer(options, folder)
    model = _new_model(options, tokenizer)
    if options.tower_from is not None:
        begin_with(options.tower_from, model, tokenizer)
    train_side_by_side(options.parts, partial(train_part, options=options.timed(), folder=folder), report, stopped)
    if stopped():
        return None
    last = {name: last_report(folder, name) for name in options.parts}
    _join(model, options, folder)
    steps = "-".join(f"{last[name]['step']}" for name in options.parts)
    checkpoint = folder / f"{ALIGNMENT}-{steps}.pt"  # Of other halves it is another one
    inner, safe = model.model, SafeTokenizer(tokenizer)
    for figures in train_language(inner.language_model, safe, options.alignment(), checkpoint, inner.visual, stopped):
        last[LANGUAGE] = figures
        report(ALIGNMENT, figures)
    if stopped():
        return None
    write_checkpoint(model, tokenizer, folder / MODEL)
    gates: dict[str, VisionGates | LanguageGates] = {VISION: options.vision.gates, LANGUAGE: options.language.gates}
    missed = {name: missed_gates(last[name], gates[name]) for name in options.parts}
    return TrainedBase(folder / MODEL, last, {name: names for name, names in missed.items() if names})


def _check_sources(options: BaseOptions) -> None:
    """Raises BadInput for a checkpoint to begin with that is none of this shape, before anything is kept that binds the run."""
    for source in filter(None, (options.init_from, options.tower_from)):
        tokenizer = make_tokenizer(())
        begin_with(source, _new_model(options, tokenizer), tokenizer)


def train_part(name: str, report: Callable[[Figures], None], stopped: Stopped, *, options: BaseOptions, folder: Path) -> None:
    """Train one half in this process. Each report is a line of `<name>.jsonl`; nothing is done where the last one is enough."""
    halves: dict[str, VisionOptions | LanguageOptions] = {VISION: options.vision, LANGUAGE: options.language}
    open_parts = [part for part in options.parts if not is_done(folder, part, halves[part])]
    if name not in open_parts:
        return
    torch.set_num_threads(max(1, cpu_count() // len(open_parts)))
    cv2.setNumThreads(1)
    for figures in _reports(name, options, folder, stopped):
        add_report(folder, name, figures)
        report(figures)


def _reports(name: str, options: BaseOptions, folder: Path, stopped: Stopped) -> Iterator[Figures]:
    tokenizer = _tokenizer(options, folder)
    whole, checkpoint = _new_model(options, tokenizer), _half(folder, name)
    if options.init_from is not None:
        begin_with(options.init_from, whole, tokenizer)
    model = whole.model
    if name == VISION:
        return train_vision(model.visual, options.vision, checkpoint, stopped, fresh=options.init_from is None)
    return train_language(model.language_model, SafeTokenizer(tokenizer), options.language, checkpoint, stopped=stopped)


def _half(folder: Path, name: str) -> Path:
    return folder / f"{name}.pt"


def _join(model: Any, options: BaseOptions, folder: Path) -> None:
    """Put the weights of what was trained apart into the model, in float32."""
    halves = {VISION: model.model.visual, LANGUAGE: model.model.language_model}
    for name in options.parts:
        halves[name].load_state_dict(trained_weights(_half(folder, name)))
    model.tie_weights()
    model.model.visual.requires_grad_(False)


def _new_model(options: BaseOptions, tokenizer: Tokenizer) -> Any:
    return new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer)), options.seed)


def _tokenizer(options: BaseOptions, folder: Path) -> Tokenizer:
    """The vocabulary, made once for a folder."""
    path = folder / TOKENIZER
    if not path.is_file():
        make_tokenizer(_texts(options)).save(str(path))
    return Tokenizer.from_file(str(path))


def _texts(options: BaseOptions) -> Iterator[str]:
    """Prompts and replies of both dialects, as they are trained on."""
    for number in range(VOCABULARY_FROM, VOCABULARY_FROM + VOCABULARY_PAIRS):
        pair = draw_training_pair(number, options.language.world, options.language.pairs)
        yield pair.prompt
        yield from write_replies(pair, PROTOCOLS[number % len(PROTOCOLS)])
