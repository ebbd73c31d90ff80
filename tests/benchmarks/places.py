"""python -m tests.benchmarks.places [--quick] [--pairs N] [--judge PATH] [--set K] [--second-world [--photos DIR]]

Where the built-in judge's vision tower sees things, against where they are in drawn frames

Motion is read from places, so a flaw of it that is missed often begins with a thing seen where it is not. Takes seven frames of
each video of unseen drawn pairs (set K) and reads the tower's frame code, without the language model. Prints how far off the first
thing's place is, in shares of the picture along the worse axis, over all frames, by what damages the picture, and by what stands on
what. The last line is JSON.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tests.benchmarks.tools.drawn_measures import parse_pair_options, unseen_pairs
from vrthinker_core.training.base.frames.seen_features import PairFeatures
from vrthinker_core.training.base.model.base_checkpoint import open_checkpoint
from vrthinker_core.training.drawn_world.scenes import FIRST_WORLD, SECOND_WORLD, DrawnPair
from vrthinker_core.training.frame_facts.frame_code import PARTS, basis, place_of
from vrthinker_core.types import Side

FRAMES = tuple(range(16, 128, 16))
OFF, FAR_OFF = 0.02, 0.03  # Of the picture: a jump or jitter of the things farthest away is hardly more
LEAST = 20  # Frames of a thing on a ground, or nothing is said of them
WORST = 8  # That are printed


@dataclass(frozen=True)
class Seen:
    """One frame's first thing."""

    state: str  # Of the picture
    pairing: str  # The thing's colour on which ground
    error: float  # Along the worse axis
    pair: int


def main() -> None:
    """Run the benchmark."""
    options = _options()
    world = replace(SECOND_WORLD, photos=options.photos) if options.second_world else FIRST_WORLD
    result = measure(options.judge, unseen_pairs(options.pairs, options.set, world).drawn)
    for title in ("states", "pairings"):
        for name, figures in list(result[title].items())[:WORST]:
            print(f"{name}: off by more than {OFF:.0%} in {figures['off']:.3f} of {figures['frames']} frames")
    print(json.dumps(result))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    return (
        f"{result['frames']:,} frames of {result['pairs']} pairs: half of the places are off by less than {result['median']:.2%} "
        f"of the picture, {result['far_off']:.1%} by more than {FAR_OFF:.0%}, at least one in {result['pairs_far_off']} pairs"
    )


def measure(checkpoint: Path, pairs: Sequence[DrawnPair]) -> dict[str, Any]:
    """How far off the places are that the tower of a checkpoint reads."""
    visual = open_checkpoint(checkpoint)[0].model.visual
    directions = basis(visual.config.out_hidden_size)
    seen = [each for pair in pairs for side in Side for each in see(pair, side, visual, directions)]
    if not seen:
        raise SystemExit("None of these pairs shows a thing: name more of them with --pairs.")
    errors = np.array([each.error for each in seen])
    return {
        "pairs": len(pairs),
        "frames": len(seen),
        "median": float(np.median(errors)),
        "far_off": float(np.mean(errors > FAR_OFF)),
        "pairs_far_off": len({each.pair for each in seen if each.error > FAR_OFF}),
        "states": _by([(each.state, each.error) for each in seen]),
        "pairings": _by([(each.pairing, each.error) for each in seen]),
    }


def see(pair: DrawnPair, side: Side, visual: Any, directions: torch.Tensor) -> Iterator[Seen]:
    """The frames of one video in which its first thing is seen; a video without things has none."""
    scene = pair.scenes[side]
    places = ((index, place) for index in FRAMES for place in scene.thing_positions(index)[:1])
    placed = [(index, place) for index, place in places if place is not None]
    if not placed:
        return
    codes = (PairFeatures(pair, visual).features([(side, index) for index, _ in placed]).mean(1) @ directions.T).numpy()
    read = zip(*(place_of(codes[:, PARTS[axis]]) for axis in ("x", "y")), strict=True)
    thing = scene.facts.things[0]
    for (index, place), found in zip(placed, read, strict=True):
        error = float(np.abs(np.array(found) - place).max())
        yield Seen(scene.picture_state(index), f"{thing.colour} on {scene.facts.ground}", error, pair.seed)


def _by(errors: Sequence[tuple[str, float]]) -> dict[str, dict[str, float]]:
    """Frames and the share of them that are off, by name, the worst first."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for name, error in errors:
        groups[name].append(error > OFF)
    found = {name: {"frames": len(off), "off": float(np.mean(off))} for name, off in groups.items() if len(off) >= LEAST}
    return dict(sorted(found.items(), key=lambda item: -item[1]["off"]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--second-world", action="store_true", help="pairs of the second world")
    return parse_pair_options(parser, "pairs", full=200, quick=20, number=8)


if __name__ == "__main__":
    main()
