"""The small model learns to judge from conversations that the scripted teacher writes: over coded frames, then over drawn ones.

Nothing has to be drawn for a conversation over codes, so there are many more of them a minute, and their frames are read as
unsurely as real ones are. The last part is learnt from what the tower sees.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.backends.local.text.tokenizer import SafeTokenizer
from vrthinker_core.dialects.base import Dialect
from vrthinker_core.training.base.conversations import PairShares, Replies, describe, judge
from vrthinker_core.training.base.half_state import trained_weights
from vrthinker_core.training.base.half_training import Stopped, add_report, is_done, last_report
from vrthinker_core.training.base.language_training import LanguageOptions, train_language
from vrthinker_core.training.base.model.base_checkpoint import open_checkpoint, write_checkpoint
from vrthinker_core.training.base.part_processes import Figures
from vrthinker_core.training.drawn_teacher.evidence import LightReader, Misreader
from vrthinker_core.training.drawn_world.scenes import DrawnPair

MODEL = "model"  # The result
CODES, DRAWN = "codes", "drawn"  # The parts: what begins the names of their checkpoints and figures
DRAWN_SHARE = 0.33  # Of the time, for frames that are drawn
JUDGED = 0.6  # Share of the conversations that are judged; the others only describe, often frames that misbehave
PAIRS = PairShares(no_thing=0.65, restless_views=0.2, halting_views=0.7)
"""Where nearly all views are restless, it learns that any large step of the light is a jump, and not what breaks an even motion."""
MISREAD = 0.6  # Share of the conversations in front of whose mistakes right words are learnt
LENGTH = 760  # Of a row in tokens
RATES = {CODES: 1e-3, DRAWN: 6e-4}


def learn_to_judge(
    source: Path,
    options: LanguageOptions,
    folder: Path,
    report: Callable[[str, Figures], None] = lambda _, __: None,
    stopped: Stopped = not_cancelled,
) -> Path | None:
    """Train the language model of `source`, `options.minutes` in all; gives `folder/model`, None where it was stopped.

    Goes on from the checkpoints in `folder`. `report` is called with the part that is learnt from. Raises BadInput where `source`
    is not of the built-in judge's shape.
    """
    made = folder / MODEL
    if (made / "vrthinker.json").is_file():
        return made
    folder.mkdir(parents=True, exist_ok=True)
    model, tokenizer = open_checkpoint(source)
    model.model.visual.requires_grad_(False)
    inner = model.model
    for part, visual in ((CODES, None), (DRAWN, inner.visual)):
        own, checkpoint = _options_of(part, options), _checkpoint(part, folder)
        if part == CODES and is_done(folder, part, own):
            inner.language_model.load_state_dict(trained_weights(checkpoint))
            continue
        for figures in train_language(inner.language_model, SafeTokenizer(tokenizer), own, checkpoint, visual, stopped):
            add_report(folder, part, figures)
            report(part, figures)
        if stopped():
            return None
    write_checkpoint(model, tokenizer, made)
    return made


def _checkpoint(part: str, folder: Path) -> Path:
    """Of drawn frames it is another one where the model has learnt more codes before."""
    return folder / (f"{DRAWN}-{int(last_report(folder, CODES)['step'])}.pt" if part == DRAWN else f"{CODES}.pt")


def minutes_spent(folder: Path) -> float:
    """On both parts so far."""
    return sum(last_report(folder, part).get("minutes", 0.0) for part in (CODES, DRAWN))


def minutes_of(part: str, minutes: float) -> float:
    """How long a part is learnt from, of so many minutes in all."""
    return minutes * (DRAWN_SHARE if part == DRAWN else 1 - DRAWN_SHARE)


def _options_of(part: str, options: LanguageOptions) -> LanguageOptions:
    minutes, seed = minutes_of(part, options.minutes), options.seed + (part == DRAWN)
    own = replace(options, minutes=minutes, seed=seed, pairs=PAIRS, ends_early=False)  # The base has passed its gates before
    return replace(own, length=LENGTH, rate=RATES[part], misread=MISREAD, write=_judged_or_described)


def _judged_or_described(
    pair: DrawnPair, dialect: Dialect, read_light: LightReader, rng: np.random.Generator, misread: Misreader | None = None
) -> Replies:
    return (judge if rng.random() < JUDGED else describe)(pair, dialect, read_light, rng, misread)
