"""Trainings ended by SIGKILL, each in a process of its own: `python -m tests.training.trl.killed_trainings FOLDER`.

Everything is imported once and then forked, since importing takes longer than these trainings do. Prints, as JSON, how the process
of each training ended and which steps the one that went on did.
"""

from __future__ import annotations

import importlib
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from tests.support.drawn_rollouts import DrawnPairs, answer, look, scripted_rollout
from tests.training.trl.support import random_judge
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.training.config import OptimizerConfig, SftConfig, preset_config
from vrthinker_core.training.metrics import StepMetrics
from vrthinker_core.training.sft import train_sft
from vrthinker_core.training.token_rows import TokenRow, token_rows

OPTIMIZER = OptimizerConfig(1e-3, 0.2)
SFT = SftConfig(OPTIMIZER, batch=1, accumulation=1, epochs=4 / 3, bf16=False)  # Four steps
CONFIG = replace(preset_config("nano"), checkpoint_minutes=0.0)
MOMENTS = {
    "between two checkpoints": "",
    "at the first file of a checkpoint": "checkpoint-3/config.json",
    "at the last file of a checkpoint": "checkpoint-3/trainer_state.json",
    "while the judge is saved": ".model.part/vrthinker.json",
}
PAIRS = DrawnPairs(31)


def played_rows(judge: Path, *looks: Sequence[str]) -> list[TokenRow]:
    """A row of each of the first pairs, with these looks before its true labels."""
    loaded = TransformersBackend.load(str(judge)).loaded
    pairs = map(PAIRS.pair, range(len(looks)))
    told = zip(pairs, looks, strict=True)
    rollouts = [scripted_rollout(pair, *looks, answer(pair.truth)) for pair, looks in told]
    return [row for rollout in rollouts for row in token_rows(rollout, loaded)]


def example_rows(judge: Path) -> list[TokenRow]:
    """Three rows, so that an epoch ends within the four steps."""
    return played_rows(judge, *[[look(3)]] * 3)


def rows_of_several_lengths(judge: Path) -> list[TokenRow]:
    """Four rows, each with more frames that were asked for than the one before."""
    three = (look(3), look(9), look(1, 2))
    return played_rows(judge, *(three[:count] for count in range(4)))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _train(judge: Path, folder: Path, moment: str | None) -> None:
    """Train to the end, or to the opening of the file `moment`; "" is the end of step 3."""
    torch.set_num_threads(1)

    def opening(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).endswith(str(moment)):
            _die()

    def report(pace: StepMetrics) -> None:
        if moment == "" and pace.step == 3:
            _die()
        steps.append(pace.step)

    steps: list[int] = []
    if moment:
        sys.addaudithook(opening)
    train_sft(example_rows(judge), judge, SFT, CONFIG, folder, report)
    (folder / "steps.json").write_text(json.dumps(steps), "utf-8")


def _ended(judge: Path, folder: Path, moment: str | None) -> int | None:
    process = multiprocessing.get_context("fork").Process(
        target=_train, args=(judge, folder, moment)
    )
    process.start()
    process.join()
    return process.exitcode


def main(folder: Path) -> None:
    """One training that nobody disturbs, and one for each moment, which is killed and then gone on with."""
    judge = random_judge(folder / "random")
    for late in ("torch._dynamo", "trl.trainer.sft_trainer"):
        importlib.import_module(late)  # else each process imports them again
    told = {"never": [_ended(judge, folder / "never", None)]}
    for name, moment in MOMENTS.items():
        told[name] = [_ended(judge, folder / name, each) for each in (moment, None)]
    steps = {name: json.loads((folder / name / "steps.json").read_text()) for name in told}
    print(json.dumps({name: [codes, steps[name]] for name, codes in told.items()}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
