"""A stage in two processes, as `accelerate launch` starts them: the work is shared, and the outcome is that of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.slow import slow
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.checkpoint import open_checkpoint
from vrthinker_core.training.outcome_file import read_outcomes

FEW = (
    "settings.max_turns=1 rejection.pairs=5 rejection.samples=4 rejection.temperature=0.7 "
    "rejection.sft.epochs=1 rejection.sft.batch=1"
)
START = [
    *("-m", "vrthinker_core", "train", "rejection", "--model", str(NANO), "--data", "drawn:3"),
    *(f"--set={each}" for each in FEW.split()),
]
TWO = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")


def run(*arguments: str | Path) -> str:
    command = [sys.executable, *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true"}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr + done.stdout


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    out = tmp_path_factory.mktemp("two") / "run"
    return out, run(*TWO, *START, "--out", out)


def test_each_process_plays_its_share_of_the_pairs(shared: tuple[Path, str]) -> None:
    out, said = shared
    first, second = read_outcomes(out / "samples"), read_outcomes(out / "samples-1")
    assert {outcome.pair for outcome in first} == {0, 2, 4}
    assert {outcome.pair for outcome in second} == {1, 3}
    assert len(first) + len(second) == 20
    assert "of 20 runs kept, of " in said
    assert said.count("Trained: ") == 1
    assert open_checkpoint(str(out / "checkpoint")).folder == out / "checkpoint"


@slow
def test_one_process_has_the_same_outcomes(shared: tuple[Path, str], tmp_path: Path) -> None:
    out, said = shared
    alone = run(*START, "--out", tmp_path / "run")
    both = [*read_outcomes(out / "samples"), *read_outcomes(out / "samples-1")]
    both.sort(key=lambda each: (each.pair, each.sample))
    assert both == read_outcomes(tmp_path / "run" / "samples")
    kept = re.findall(r"^.*runs kept.*$|^.*chosen to learn.*$", said, re.M)
    assert kept
    assert all(line in alone for line in kept)
