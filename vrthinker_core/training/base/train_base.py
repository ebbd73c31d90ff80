"""The stage `base`: eyes and words from nothing, then words on what these eyes see, and a checkpoint that the product opens.

Eyes and words need nothing of each other, because the frame code between them is fixed: each is trained in a process of its own, on
one core. A stopped run goes on from the checkpoints in its folder.
"""

import json
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cv2
import torch
from tokenizers import Tokenizer

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.training.base import eyes, words
from vrthinker_core.training.base.conversations import draw_training_pair
from vrthinker_core.training.base.eyes import EyesOptions
from vrthinker_core.training.base.model.base_checkpoint import write_checkpoint
from vrthinker_core.training.base.model.model_shape import model_config, new_model
from vrthinker_core.training.base.model.vocabulary import PROTOCOLS, control_ids, make_tokenizer
from vrthinker_core.training.base.words import WordsOptions
from vrthinker_core.training.drawn_teacher.replies import write_replies

EYES, WORDS, SETTLED, TOKENIZER, MODEL = "eyes.pt", "words.pt", "settled.pt", "tokenizer.json", "model"
SETTLING = 0.2  # Share of the time for words on what the eyes see
VOCABULARY_PAIRS = 400  # Pairs whose prompts and replies the vocabulary is made from
VOCABULARY_FROM = 90_000_000  # The first of them

Report = Callable[[str, dict[str, float]], None]  # Called with the part that is trained, and what it reads right


@dataclass(frozen=True, slots=True)
class BaseOptions:
    """How the base is trained."""

    minutes: float = 150.0  # At most, over all sittings
    eyes: EyesOptions = field(default_factory=EyesOptions)
    words: WordsOptions = field(default_factory=WordsOptions)
    seed: int = 0


@dataclass(frozen=True, slots=True)
class TrainedBase:
    """The checkpoint, what each part read right at last, and which gates it has not passed."""

    model: Path
    reports: dict[str, dict[str, float]]
    missed: dict[str, list[str]]


def train_base(options: BaseOptions, folder: Path, report: Report = lambda _, __: None) -> TrainedBase:
    """Train the base into `folder`, or go on with it; `folder/model` is its checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = _tokenizer(options, folder)
    side_by_side = options.minutes * (1 - SETTLING)
    timed = replace(
        options,
        eyes=replace(options.eyes, minutes=side_by_side),
        words=replace(options.words, minutes=side_by_side),
    )
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        parts = {name: pool.submit(train_part, name, timed, folder) for name in ("eyes", "words")}
        last = {name: future.result() for name, future in parts.items()}
    for name, reports in last.items():
        report(name, reports)
    model = _joined(options, folder, tokenizer)
    settling = replace(options.words, minutes=options.minutes * SETTLING, rate=options.words.rate / 3, seed=options.words.seed + 1)
    for each in words.train_words(
        model.model.language_model, SafeTokenizer(tokenizer), settling, folder / SETTLED, model.model.visual
    ):
        last["words"] = each
        report("settling", each)
    write_checkpoint(model, tokenizer, folder / MODEL)
    missed = {"eyes": eyes.missed_gates(last["eyes"]), "words": words.missed_gates(last["words"])}
    return TrainedBase(folder / MODEL, last, {name: gates for name, gates in missed.items() if gates})


def train_part(name: str, options: BaseOptions, folder: Path) -> dict[str, float]:
    """Train one half in this process; what it read right at last. Each report is a line of `<name>.jsonl`."""
    done = _last_report(folder / f"{name}.jsonl")
    missed, minutes = (eyes.missed_gates, options.eyes.minutes) if name == "eyes" else (words.missed_gates, options.words.minutes)
    if done and (done["minutes"] >= minutes or not missed(done)):
        return done
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    tokenizer = _tokenizer(options, folder)
    model = new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer)), options.seed)
    last: dict[str, float] = {}
    for last in _reports(name, model.model, options, folder, tokenizer):
        with (folder / f"{name}.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(last) + "\n")
    return last


def _last_report(path: Path) -> dict[str, float]:
    """The last line of a file of reports; {} where there is none."""
    lines = path.read_text("utf-8").splitlines() if path.is_file() else []
    report: dict[str, float] = json.loads(lines[-1]) if lines else {}
    return report


def _reports(name: str, model: Any, options: BaseOptions, folder: Path, tokenizer: Tokenizer) -> Iterator[dict[str, float]]:
    if name == "eyes":
        return eyes.train_eyes(model.visual, options.eyes, folder / EYES)
    return words.train_words(model.language_model, SafeTokenizer(tokenizer), options.words, folder / WORDS)


def _joined(options: BaseOptions, folder: Path, tokenizer: Tokenizer) -> Any:
    """A model of both trained halves, its weights in float32."""
    model = new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer)), options.seed)
    model.model.visual.load_state_dict(torch.load(folder / EYES, weights_only=True)["visual"])
    model.model.language_model.load_state_dict(torch.load(folder / WORDS, weights_only=True)["language"])
    model.tie_weights()
    model.model.visual.requires_grad_(False)
    return model


def _tokenizer(options: BaseOptions, folder: Path) -> Tokenizer:
    """The vocabulary, made once for a folder."""
    path = folder / TOKENIZER
    if not path.is_file():
        make_tokenizer(_texts(options)).save(str(path))
    return Tokenizer.from_file(str(path))


def _texts(options: BaseOptions) -> Iterator[str]:
    """Prompts and replies of both dialects, as they are trained on."""
    for number in range(VOCABULARY_FROM, VOCABULARY_FROM + VOCABULARY_PAIRS):
        pair = draw_training_pair(number, options.words.world)
        yield pair.prompt
        yield from write_replies(pair, PROTOCOLS[number % len(PROTOCOLS)])
