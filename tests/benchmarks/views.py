"""python -m tests.benchmarks.views [--quick] [--pairs N] [--judge PATH] [--set K] [--photos DIR]

Flaws of the motion in cameras over a picture, as which the built-in judge sees real clips: found, missed and made up

Draws pairs of the full world without a thing, until there are enough of each kind: both even, or one of them frozen, jumping or
jittering. Prints for each kind how often the label of motion quality is right. `--photos` has pictures that no training run has
seen; without them clouds are drawn. The last line is JSON.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

from tests.benchmarks.stages import SETTINGS
from tests.benchmarks.tools.drawn_measures import STEP, UnseenPairs
from tests.benchmarks.tools.judge_scores import label_right
from tests.benchmarks.tools.options import benchmark_parser
from vrthinker_core.backends import Backend
from vrthinker_core.backends.built_in import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend
from vrthinker_core.drawn.world import FULL, TRAINING_SEEDS, DrawnPair, World, draw_pair
from vrthinker_core.training.rollouts import play
from vrthinker_core.types import Dimension

KINDS = {
    "even": ("", ""),
    "frozen": ("", "frozen"),
    "jumping": ("", "jumpy"),
    "jittering": ("", "jittery"),
}
"""What is wrong with the motion of both videos of a pair, in either order."""


def main() -> None:
    """Run the benchmark."""
    parser = benchmark_parser(__doc__, "4 pairs of each kind")
    parser.add_argument("--pairs", type=int, help="pairs of each kind: 40, with --quick 4")
    parser.add_argument("--judge", type=Path, default=NANO, help="a checkpoint's folder")
    parser.add_argument("--set", type=int, default=9, help="which unseen pairs")
    parser.add_argument("--photos", type=Path, help="a folder of photographs")
    options = parser.parse_args()
    each = options.pairs or (4 if options.quick else 40)
    world = replace(FULL, no_thing=1.0, photos=options.photos)
    judge = TransformersBackend.load(str(options.judge))
    print(
        json.dumps({"pairs": each, "right": measure(judge, draw_views(each, options.set, world))})
    )


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    right = ", ".join(f"{kind} {count}" for kind, count in result["right"].items())
    return f"motion quality right, of {result['pairs']} pairs each: {right}"


def draw_views(each: int, number: int, world: World) -> dict[str, UnseenPairs]:
    """So many pairs of each kind, of those of a set, always the same."""
    found: dict[str, list[DrawnPair]] = {kind: [] for kind in KINDS}
    by_flaws = {flaws: kind for kind, flaws in KINDS.items()}
    for seed in count(TRAINING_SEEDS + number * STEP):
        pair = draw_pair(seed, world)
        faults = [scene.motion_fault for scene in pair.scenes.values()]
        first, second = sorted(fault.kind if fault else "" for fault in faults)
        kind = by_flaws.get((first, second))
        if kind is not None and len(found[kind]) < each:
            found[kind].append(pair)
        if all(len(pairs) == each for pairs in found.values()):
            break
    return {kind: UnseenPairs(tuple(pairs)) for kind, pairs in found.items()}


def measure(judge: Backend, pairs: Mapping[str, UnseenPairs]) -> dict[str, int]:
    """How many labels of motion quality are right, by kind."""
    right = {}
    for kind, unseen in pairs.items():
        rollouts = play(unseen.labelled, judge, SETTINGS)
        right[kind] = sum(label_right(rollout, Dimension.MQ) for rollout in rollouts)
        print(f"{kind}: {right[kind]} of {len(unseen.drawn)}", flush=True)
    return right


if __name__ == "__main__":
    main()
