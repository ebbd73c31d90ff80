"""Rewards for generators: win rates of N videos of a prompt."""

import asyncio
import threading
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from vrthinker_core.backends import Backend, open_backend
from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.drawn.notes import outside_words
from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.evaluation.strengths import pair_score, win_rates
from vrthinker_core.runner import check_pairs_in_hand, judge_many, pairs_in_hand, whole_traces
from vrthinker_core.system import allow_pairs
from vrthinker_core.types import Dimension, Settings, StopReason, Trace, VideoPair
from vrthinker_core.types.messages import Cancelled
from vrthinker_core.types.order import order_of

Videos = Sequence[Path | str]
PromptGroup = tuple[str, Videos]  # a prompt and the videos that were made from it


@dataclass(frozen=True, slots=True)
class ComparedVideos:
    """Two compared videos, by their places in a group, and the run."""

    first: int
    second: int
    trace: Trace

    @property
    def error(self) -> str:
        """Why the run gave no verdict; "" for one that did."""
        end = self.trace.finished
        if end is None:
            return "The run did not end."
        if end.verdict:
            return ""
        if end.outside_scope:
            return " ".join(outside_words(self.trace.started))
        if end.error:
            return end.error
        stopped = end.stop is StopReason.CANCELLED
        return "The run was stopped." if stopped else "The judge gave no verdict."

    def score(self, dimension: Dimension) -> float | None:
        """Score the first video as `pair_score` does, over both orders; None if unlabelled."""
        end, check = self.trace.finished, order_of(self.trace.runs)
        verdicts = end.verdict if end else None, check.second if check else None
        return pair_score(dimension, *verdicts)


@dataclass(frozen=True, slots=True)
class Reward:
    """What a judge says of N videos of one prompt.

    Attributes:
        rates: For each dimension N win rates, 0 to 1, in the order of `videos`: means over a
            video's pairs, a tie as half a win. None, never 0, for a video without a label.
        pairs: All N (N - 1) / 2 pairs, with their traces.
    """

    prompt: str
    videos: tuple[str, ...]
    rates: dict[Dimension, tuple[float | None, ...]]
    pairs: tuple[ComparedVideos, ...]

    @property
    def overall(self) -> tuple[float | None, ...]:
        """N win rates overall: the rewards."""
        return self.rates[Dimension.OA]

    @property
    def best(self) -> int | None:
        """Place of the (first) video with the highest overall rate, or None."""
        known = [place for place, rate in enumerate(self.overall) if rate is not None]
        return max(known, key=lambda place: self.overall[place] or 0.0, default=None)

    @property
    def errors(self) -> tuple[str, ...]:
        """Why pairs gave no verdict, a sentence each."""
        return tuple(pair.error for pair in self.pairs if pair.error)


def reward(
    prompt: str,
    videos: Videos,
    judge: Backend | str | None = None,
    settings: Settings = Settings(),
    *,
    traces: Path | str | None = None,
    cancelled: Cancelled = not_cancelled,
) -> Reward:
    """Compare every two videos; gives win rates per dimension and overall.

    A `judge` named by a word, as on the command line, is opened for this call: give a `Backend` to
    ask more than once. With `settings.swap` each pair is judged in both orders and both count;
    otherwise the sides alternate. `traces` is a folder in which the runs are kept. A video that
    cannot be read costs its own pairs. Raises BadInput for fewer than two videos, an unknown judge
    and a folder that cannot be made, and JudgeError for a judge that cannot be opened.
    """
    (only,) = reward_many([(prompt, videos)], judge, settings, traces=traces, cancelled=cancelled)
    return only


def reward_many(
    groups: Iterable[PromptGroup],
    judge: Backend | str | None = None,
    settings: Settings = Settings(),
    *,
    traces: Path | str | None = None,
    concurrency: int | None = None,
    cancelled: Cancelled = not_cancelled,
) -> list[Reward]:
    """Compute rewards of several prompts, in order, `concurrency` pairs at a time.

    None is the `live` of `judge_many`. Raises as `reward` does, and BadInput for a `concurrency`
    that is no whole number from 1 up, or more than open files allow.
    """
    groups, folder = list(groups), None if traces is None else Path(traces)
    check_pairs_in_hand("concurrency", concurrency)
    if any(isinstance(videos, str | Path) for _, videos in groups):
        raise BadInput("The videos of a prompt are a list of paths, not one path.")
    asked = [(prompt, tuple(map(str, videos))) for prompt, videos in groups]
    if any(len(videos) < 2 for _, videos in asked):
        raise BadInput("A reward needs at least two videos of each prompt.")
    # Each place in a group is on either side about as often, over the groups of one call and, for
    # a trainer that asks group by group, over calls.
    start = zlib.crc32("".join(str(prompt) for prompt, _ in asked[:1]).encode("utf-8", "replace"))
    ends = [
        (group, i, j) if (i + j + group + start) % 2 else (group, j, i)
        for group, (_, videos) in enumerate(asked)
        for i, j in combinations(range(len(videos)), 2)
    ]
    pairs = [VideoPair(asked[g][0], asked[g][1][i], asked[g][1][j]) for g, i, j in ends]

    def trace_of(position: int) -> Path | None:
        group, first, second = (place + 1 for place in ends[position])
        return folder and folder / f"group-{group}-videos-{first}-{second}.json"

    if folder is not None:
        with os_errors(f"Cannot keep traces in {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
    backend = open_backend(judge) if judge is None or isinstance(judge, str) else judge
    allow_pairs(live := pairs_in_hand(concurrency, backend))
    events = judge_many(pairs, backend, settings, live=live, cancelled=cancelled, trace_of=trace_of)
    found = dict(whole_traces(events))
    compared: list[list[ComparedVideos]] = [[] for _ in asked]
    for position, (group, first, second) in enumerate(ends):
        compared[group].append(ComparedVideos(first, second, found[position]))
    rewards = []
    for (prompt, videos), own in zip(asked, compared, strict=True):
        rates = {
            each: win_rates(
                len(videos), {(pair.first, pair.second): pair.score(each) for pair in own}
            )
            for each in Dimension
        }
        rewards.append(Reward(prompt, videos, rates, tuple(own)))
    return rewards


async def areward(
    prompt: str,
    videos: Videos,
    judge: Backend | str | None = None,
    settings: Settings = Settings(),
    *,
    traces: Path | str | None = None,
) -> Reward:
    """Run `reward` in a thread, cancelled as `areward_many` is."""
    (only,) = await areward_many([(prompt, videos)], judge, settings, traces=traces)
    return only


async def areward_many(
    groups: Iterable[PromptGroup],
    judge: Backend | str | None = None,
    settings: Settings = Settings(),
    *,
    traces: Path | str | None = None,
    concurrency: int | None = None,
) -> list[Reward]:
    """Run `reward_many` in a thread.

    A task that is cancelled ends its runs first, as `cancelled`, so that the judge is free.
    """
    stopped = threading.Event()
    how: dict[str, Any] = {"traces": traces, "concurrency": concurrency}
    call = partial(reward_many, groups, judge, settings, **how, cancelled=stopped.is_set)
    job = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(job)
    except asyncio.CancelledError:
        stopped.set()
        await asyncio.wait([job])
        raise
