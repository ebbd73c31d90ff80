"""Results made by hand and by simulation."""

from __future__ import annotations

import random
from typing import Any

from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.result import (
    LEFT_OUT,
    OUTSIDE_FAULT,
    ROW_FAULT,
    EvaluationRun,
    PairResult,
)
from vrthinker_core.types import Dimension, Preference, Settings, StopReason, Verdict
from vrthinker_core.types.wording import OUTSIDE_SCOPE

WORDS = {None: None, "1": Preference.FIRST, "2": Preference.SECOND, "0": Preference.TIE, "-": None}


def verdict(labels: str) -> Verdict:
    """Four characters in the order TA, MQ, VQ, OA, or one for OA alone; - for a label that is missing."""
    whole = labels.rjust(4, "-")
    return Verdict(**{d.value: WORDS[label] for d, label in zip(Dimension, whole, strict=True)})


def result(row: int, people: str, judge: str | None, **fields: Any) -> PairResult:
    """One pair with people's labels and the judge's; None for a judge that gave no verdict."""
    prompt = fields.pop("prompt", f"prompt {row}")
    generators = fields.pop("generators", ("", ""))
    pair = EvaluationPair(
        f"id{row:06}", row, prompt, "one.mp4", "two.mp4", verdict(people), *generators
    )
    stop, name = fields.pop("stop", StopReason.ANSWERED), fields.pop("name", "a judge")
    return PairResult(pair, name, stop, None if judge is None else verdict(judge), **fields)


def run_of(data_set: str, **fields: Any) -> EvaluationRun:
    """What the run of such results is; `fields` are its settings and starts."""
    settings = fields.pop("settings", Settings())
    return EvaluationRun(data_set, "data", 60, "digest", "nano", settings, **fields)


def failed(row: int, people: str, fault: str = "BackendFailed") -> PairResult:
    """A pair that the judge could not be asked about."""
    how = {"stop": StopReason.FAILED, "fault": fault, "error": "The judge stopped."}
    return result(row, people, None, **how)


def broken(row: int, people: str) -> PairResult:
    """A row that cannot be judged."""
    return failed(row, people, ROW_FAULT)


def outside(row: int, people: str) -> PairResult:
    """A pair that its judge cannot judge, although its run was answered."""
    return result(row, people, None, outside_scope=True, fault=OUTSIDE_FAULT, error=OUTSIDE_SCOPE)


def left_out(row: int) -> PairResult:
    """A row in which people could not say."""
    return failed(row, "-", LEFT_OUT)


def simulate(rows: int, prompts: int, seed: int = 0, name: str = "a judge") -> list[PairResult]:
    """Results of everything that can vary, in the order of their rows. Labels of people depend on the row alone."""
    people, judge = random.Random(rows), random.Random(f"{seed} {name}")
    return [_simulated(row, people, judge, prompts, name) for row in range(rows)]


def _simulated(
    row: int, people: random.Random, judge: random.Random, prompts: int, name: str
) -> PairResult:
    truth = "".join(people.choice("0012") for _ in Dimension)
    prompt = f"prompt {people.randrange(prompts)}"
    generators = tuple(people.sample(("Kite", "Lark", "Wren"), 2))
    lengths = (people.uniform(1, 9), people.uniform(1, 9))
    if judge.random() < 0.05:
        return judge.choice((failed, broken))(row, truth)
    said = "".join(label if judge.random() < 0.6 else judge.choice("0122-") for label in truth)
    shares = {d: (0.5 * p, 0.4 * p, 0.1 * p) for d in Dimension for p in [judge.uniform(0.5, 1.0)]}
    return result(
        row, truth, said, prompt=prompt, generators=generators, name=name, probabilities=shares, clip_seconds=lengths,
        swapped=verdict("".join(judge.choice("012") for _ in Dimension)), provisional=judge.random() < 0.1,
        confidence=judge.choice((None, 1, 2, 3, 4, 5)), turns=judge.randint(1, 6), frames=judge.randint(8, 100),
        prompt_tokens=judge.randint(500, 9000), new_tokens=judge.randint(50, 900), seconds=judge.uniform(0.1, 40),
        trace=f"traces/id{row:06}.json",
    )  # fmt: skip
