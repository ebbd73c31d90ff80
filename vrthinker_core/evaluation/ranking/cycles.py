"""Cycles of a majority: A beats B, B beats C, and C beats A. No strengths can show them."""

from collections import deque
from itertools import combinations

import numpy as np

from vrthinker_core.evaluation.ranking.outcomes import Counts

Ring = tuple[
    int, ...
]  # Generators by their places; each beats the next one, and the last one the first


def majority_cycles(margins: Counts) -> list[Ring]:
    """All cycles of three, and for each majority that closes none of them the shortest cycle it closes, if any.

    `margins` [i, j] are the wins of i over j less those of j over i; a majority is a margin above 0. Each cycle begins with its
    smallest place.
    """
    n = len(margins)
    beats = [[j for j in range(n) if margins[i, j] > 0] for i in range(n)]
    rings = {
        _turned(ring)
        for three in combinations(range(n), 3)
        for ring in _both_ways(three)
        if _holds(ring, margins)
    }
    closed = {(ring[k - 1], ring[k]) for ring in rings for k in range(len(ring))}
    for i in range(n):
        for j in beats[i]:
            if (i, j) not in closed and (path := _shortest(beats, j, i)):
                rings.add(_turned(tuple(path)))
    return sorted(rings, key=lambda ring: (len(ring), ring))


def cycle_share(ring: Ring, margins: Counts) -> float:
    """The share of samples in which all majorities of a cycle hold; `margins` are [sample, i, j]."""
    return float(
        np.all([margins[:, ring[k - 1], ring[k]] > 0 for k in range(len(ring))], axis=0).mean()
    )


def _both_ways(three: tuple[int, int, int]) -> tuple[Ring, Ring]:
    return three, three[::-1]


def _holds(ring: Ring, margins: Counts) -> bool:
    return all(margins[ring[k - 1], ring[k]] > 0 for k in range(len(ring)))


def _turned(ring: Ring) -> Ring:
    start = ring.index(min(ring))
    return ring[start:] + ring[:start]


def _shortest(beats: list[list[int]], start: int, goal: int) -> list[int] | None:
    """The shortest way from one to the other along majorities; None where there is none."""
    before: dict[int, int | None] = {start: None}
    queue = deque([start])
    while queue:
        place = queue.popleft()
        if place == goal:
            path: list[int] = []
            step: int | None = goal
            while step is not None:
                path.append(step)
                step = before[step]
            return path[::-1]
        for other in beats[place]:
            if other not in before:
                before[other] = place
                queue.append(other)
    return None
