"""The small model learns to judge over coded frames: the scripted teacher's runs of drawn pairs, without a picture or a tower.

Nothing has to be drawn for a run over codes, so there are many more of them a minute, and their frames are read as unsurely as real
ones are. What the tower sees is learnt afterwards, from runs over drawn frames.
"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer

from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.dialects.base import Dialect
from vrthinker_core.errors import BadInput
from vrthinker_core.training.base.conversations import Replies, describe, judge
from vrthinker_core.training.base.half_training import Stopped
from vrthinker_core.training.base.language_training import LanguageOptions, train_language
from vrthinker_core.training.base.model.base_checkpoint import begin_with, write_checkpoint
from vrthinker_core.training.base.model.model_shape import model_config, new_model
from vrthinker_core.training.base.model.vocabulary import control_ids
from vrthinker_core.training.base.part_processes import Figures
from vrthinker_core.training.base.train_base import last_report
from vrthinker_core.training.drawn_world.scenes import DrawnPair
from vrthinker_core.training.run.sitting import never

MODEL, LESSONS = "model", "lessons"  # The result, and what begins the names of the checkpoint and of its figures
JUDGED = 0.6  # Share of the conversations that are judged; the others only describe, often frames that misbehave
LENGTH, RATE = 760, 1e-3  # Of a row in tokens; of learning


def learn_over_codes(
    source: Path,
    options: LanguageOptions,
    folder: Path,
    report: Callable[[Figures], None] = lambda _: None,
    stopped: Stopped = never,
) -> Path | None:
    """Train the language model of `source` over codes; gives `folder/model`, None where it was stopped.

    Goes on from the checkpoint in `folder`. Raises BadInput where `source` is not of the built-in judge's shape.
    """
    made = folder / MODEL
    if (made / "vrthinker.json").is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    model, tokenizer = _opened(source)
    lessons = replace(options, length=LENGTH, rate=RATE, write=_judged_or_described)
    checkpoint = folder / f"{LESSONS}.pt"
    for figures in train_language(model.model.language_model, SafeTokenizer(tokenizer), lessons, checkpoint, stopped=stopped):
        with (folder / f"{LESSONS}.jsonl").open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(figures) + "\n")
        report(figures)
    if stopped():
        return None
    write_checkpoint(model, tokenizer, made)
    return made


def minutes_spent(folder: Path) -> float:
    """On the lessons so far."""
    return last_report(folder, LESSONS).get("minutes", 0.0)


def _opened(source: Path) -> tuple[Any, Tokenizer]:
    """The model in float32, and its vocabulary."""
    path = source / "tokenizer.json"
    if not path.is_file():
        raise BadInput(f"{source} has no tokenizer.json: lessons over codes are for the built-in judge (cold_start.coded_minutes).")
    tokenizer = Tokenizer.from_file(str(path))
    model = new_model(model_config(tokenizer.get_vocab_size(), control_ids(tokenizer)), seed=0)
    begin_with(source, model, tokenizer)
    return model, tokenizer


def _judged_or_described(pair: DrawnPair, dialect: Dialect, rng: np.random.Generator) -> Replies:
    return (judge if rng.random() < JUDGED else describe)(pair, dialect, rng)
