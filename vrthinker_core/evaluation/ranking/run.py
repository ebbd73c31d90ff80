"""Judging what a ranking needs: all pairs, or rounds of pairs within a budget; what was judged before is not judged again."""

from collections.abc import Callable, Iterator
from pathlib import Path

from vrthinker_core.backends.base import not_cancelled
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.ranking.outcomes import as_counted
from vrthinker_core.evaluation.ranking.schedule import AdaptiveSchedule, all_pairs
from vrthinker_core.evaluation.ranking.video_table import VideoTable
from vrthinker_core.evaluation.run import Engine, evaluate, results_so_far
from vrthinker_core.results.result import PairResult


def planned_pairs(table: VideoTable, budget: int | None) -> int:
    """How many pairs a ranking judges in all. Raises BadInput for a budget that cannot connect the generators."""
    possible, least = sum(not pair.fault for pair in all_pairs(table)), len(table.generators) - 1
    if budget is not None and budget < least:
        raise BadInput(
            f"A budget of {budget} cannot compare {least + 1} generators with one another: it takes at least {least}."
        )
    return possible if budget is None else min(budget, possible)


def judge_pairs(
    table: VideoTable,
    engine: Engine,
    judge: str,
    out: Path,
    budget: int | None = None,
    stopped: Callable[[], bool] = not_cancelled,
) -> Iterator[PairResult]:
    """Judge every pair, or at most `budget` of them, chosen round by round; gives each new result once it is kept in `out`.

    A pair with a missing video has its result at once, and costs nothing of the budget.
    """
    pairs = all_pairs(table)
    kept = results_so_far(pairs, out)
    if budget is None or budget >= planned_pairs(table, None):
        yield from evaluate(pairs, engine, judge, out, kept, stopped)
        return
    gone = [pair for pair in pairs if pair.fault]
    schedule = AdaptiveSchedule(table.generators, [pair for pair in pairs if not pair.fault])
    results: dict[
        str, PairResult
    ] = {}  # Of the rounds so far and of nothing else, so that a resumed run chooses as it did before
    asked = 0
    while not stopped() and (chosen := schedule.next_round(results, budget - asked)):
        for result in evaluate([*gone, *chosen], engine, judge, out, kept, stopped):
            kept[result.pair.id] = result
            yield result
        found = as_counted((kept[pair.id] for pair in chosen if pair.id in kept), table.rule)
        results |= {result.pair.id: result for result in found}
        asked += len(chosen)
