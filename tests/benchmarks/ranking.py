"""python -m tests.benchmarks.ranking [--quick]

Five drawn generators of known flaw rates and three that beat one another in a circle, ranked by the built-in judge

Draws what five generators make of 5 prompts (2 with --quick): none, one fifth, two, three, four fifths of their videos have a flaw.
Three more have the same flaws in every video, such that each beats the next one by the drawn world's own rule. Ranks both sets by
the command's own path: schedule, judging, strengths, cycles. The last line is JSON.
"""

from __future__ import annotations

import csv
import json
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.tools.options import benchmark_parser
from vrthinker_core import Dimension, Settings, open_backend
from vrthinker_core.backends import Backend
from vrthinker_core.drawn.facts import COLOURS, DIRECTIONS, SceneFacts, write_prompt
from vrthinker_core.drawn.faults import draw_motion_fault, draw_picture_fault
from vrthinker_core.drawn.moving_scene import Scene
from vrthinker_core.drawn.video_files import write_video
from vrthinker_core.drawn.world import SIMPLE, draw_facts, draw_scene
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.evaluation.ranking_page import write_report
from vrthinker_core.evaluation.rankings import Ranking, rank_generators
from vrthinker_core.evaluation.schedule import judge_pairs
from vrthinker_core.evaluation.video_table import read_videos
from vrthinker_core.results.result import RESULTS, TRACES, final_results

SEED = 2_000_000_000  # As in `nano`: no training run draws from it
FIFTHS = 5  # Generator k of five has a flaw in k fifths of its videos
FLAWS = ("colour", "picture", "motion")
CIRCLE = {
    "two-facts": ("colour", "direction"),
    "fact-and-picture": ("colour", "picture"),
    "picture-and-motion": ("picture", "motion"),
}
"""Text alignment counts half as much again, but by which video is better, not by how much: the first beats the third, the third the
second, the second the first."""


def main() -> None:
    """Run the benchmark."""
    prompts = 2 if benchmark_parser(__doc__, "2 prompts").parse_args().quick else FIFTHS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = time.perf_counter()
        circle_flaws = {name: [its] * 2 for name, its in CIRCLE.items()}
        write_generators(folder / "rates", _rates(prompts), prompts)
        write_generators(folder / "circle", circle_flaws, 2)
        drawn = time.perf_counter() - started
        backend = open_backend("nano")
        started = time.perf_counter()
        rates, circle = (rank(folder / part, backend) for part in ("rates", "circle"))
        judging = time.perf_counter() - started
        seconds = {"drawing": round(drawn), "judging": round(judging)}
        print(json.dumps({**_result(rates, circle), "seconds": seconds}))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    return (
        f"{result['pairs']} pairs of {result['prompts']} prompts: {result['in_order']} of {result['neighbours']} neighbours in "
        f"order, no overlap of intervals for {result['apart']} of {result['ends']} generators {FIFTHS - 2} or more ranks apart; "
        f"the planted cycle {'found' if result['cycle'] else 'not found'}"
    )


def rank(folder: Path, backend: Backend) -> Ranking:
    """Judge every pair, and rank."""
    table, out = read_videos(folder), folder / "results"
    (out / TRACES).mkdir(parents=True, exist_ok=True)
    engine = partial(judge_locally, backend=backend, settings=Settings(), out=out, concurrency=8)
    for result in judge_pairs(table, engine, backend.name, out):
        labels = result.verdict and result.verdict.labels
        print(result.pair.first_generator, result.pair.second_generator, labels, flush=True)
    ranking = rank_generators(table, final_results(out / RESULTS), backend.name)
    write_report(ranking, out)
    for row in ranking.dimensions[Dimension.OA].strengths:
        print(asdict(row), flush=True)
    return ranking


def _result(rates: Ranking, circle: Ranking) -> dict[str, Any]:
    rows = rates.dimensions[Dimension.OA].strengths
    place = {row.generator: row.place for row in rows}
    interval = {row.generator: row.interval or (0.0, 0.0) for row in rows}
    names = sorted(place)
    far = [(better, worse) for i, better in enumerate(names) for worse in names[i + FIFTHS - 2 :]]
    cycles = [cycle.generators for cycle in circle.dimensions[Dimension.OA].cycles]
    first, second, third = CIRCLE
    wanted = (first, third, second)
    return {
        "generators": len(names),
        "prompts": rates.prompts,
        "pairs": rates.pairs,
        "order": [row.generator for row in rows],
        "neighbours": len(names) - 1,
        "in_order": sum(place[a] < place[b] for a, b in pairwise(names)),
        "ends": len(far),
        "apart": sum(interval[better][0] > interval[worse][1] for better, worse in far),
        "cycle": any(wanted in (ring[k:] + ring[:k] for k in range(len(ring))) for ring in cycles),
    }


def _rates(prompts: int) -> dict[str, list[tuple[str, ...]]]:
    """For each of five generators the flaws of its videos, spread so that no prompt is the hard one for all."""
    return {
        f"{k}-of-{FIFTHS}": [
            (FLAWS[(number + k) % len(FLAWS)],) if (number * 2 + k) % FIFTHS < k else ()
            for number in range(prompts)
        ]
        for k in range(FIFTHS)
    }


def write_generators(
    folder: Path, flaws: dict[str, list[tuple[str, ...]]], prompts: int, size: int = 224
) -> None:
    """A folder as `rank` takes it: a video of each generator for each prompt, with these flaws."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "prompts.csv").open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("video", "prompt"))
        for number, (prompt, wanted) in enumerate(_wanted(prompts)):
            rows.writerow((f"clip{number}", prompt))
            for place, (generator, its) in enumerate(flaws.items()):
                path = folder / generator / f"clip{number}.mp4"
                path.parent.mkdir(exist_ok=True)
                rng = np.random.default_rng((SEED, number, place))
                write_video(_scene(rng, wanted, its[number]), path, size)


def _wanted(prompts: int) -> Iterator[tuple[str, SceneFacts]]:
    for number in range(prompts):
        rng = np.random.default_rng((SEED, number))
        wanted = draw_facts(rng, SIMPLE)
        yield write_prompt(rng, wanted), wanted


def _scene(rng: np.random.Generator, wanted: SceneFacts, flaws: tuple[str, ...]) -> Scene:
    facts, (thing,) = wanted, wanted.things
    if "colour" in flaws:
        other = str(rng.choice([colour for colour in COLOURS if colour != thing.colour]))
        facts = replace(facts, things=(replace(thing, colour=other),))
    if "direction" in flaws:
        others = [word for word in DIRECTIONS if word != wanted.direction]
        facts = replace(facts, direction=str(rng.choice(others)))
    picture = draw_picture_fault(rng, SIMPLE.faults) if "picture" in flaws else None
    motion = draw_motion_fault(rng, SIMPLE.faults) if "motion" in flaws else None
    return draw_scene(rng, facts, SIMPLE, picture, motion)


if __name__ == "__main__":
    main()
