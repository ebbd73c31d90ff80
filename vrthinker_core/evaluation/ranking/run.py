"""Judging what a ranking needs: all pairs, or rounds of pairs within a budget; what was judged before is not judged again."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from vrthinker_core.atomic_file import atomic_path
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.ranking.schedule import AdaptiveSchedule, all_pairs
from vrthinker_core.evaluation.ranking.video_table import VideoTable
from vrthinker_core.evaluation.run import Engine, evaluate
from vrthinker_core.results.result import PairResult
from vrthinker_core.results.result_file import RESULTS, read_results
from vrthinker_core.text import encodable
from vrthinker_core.types import Settings

RUN = "ranking-run.json"  # In the folder of a ranking: the judge and the settings of its results


def planned_pairs(table: VideoTable, budget: int | None) -> int:
    """How many pairs a ranking judges in all. Raises BadInput for a budget that cannot connect the generators."""
    possible, least = len(all_pairs(table)), len(table.generators) - 1
    if budget is not None and budget < least:
        raise BadInput(f"A budget of {budget} cannot compare {least + 1} generators with one another: it takes at least {least}.")
    return possible if budget is None else min(budget, possible)


def judge_pairs(table: VideoTable, engine: Engine, judge: str, out: Path, budget: int | None = None) -> Iterator[PairResult]:
    """Judge every pair, or at most `budget` of them, chosen round by round; gives each new result once it is kept in `out`."""
    pairs = all_pairs(table)
    if budget is None or budget >= len(pairs):
        yield from evaluate(pairs, engine, judge, out)
        return
    schedule = AdaptiveSchedule(table.generators, pairs)
    kept = {result.pair.id: result for result in _results(out)}
    results: dict[str, PairResult] = {}  # Of the rounds so far and of nothing else, so that a resumed run chooses as it did before
    while chosen := schedule.next_round(results, budget - len(results)):
        for result in evaluate(chosen, engine, judge, out):
            kept[result.pair.id] = result
            yield result
        results |= {pair.id: kept[pair.id] for pair in chosen}


class RankingFolder:
    """The folder of a ranking: results of one table of videos by one judge with one set of settings."""

    def __init__(self, out: Path, table: VideoTable) -> None:
        self._out = out
        self._known = {pair.id for pair in all_pairs(table)}
        self._name = encodable(str(out))

    def results(self) -> list[PairResult]:
        """The results that it holds."""
        return _results(self._out)

    def check(self, resume: bool) -> None:
        """Raises BadInput for a folder of something else, and for one that holds results unless they are to be gone on with."""
        if self._out.exists() and not self._out.is_dir():
            raise BadInput(f"{self._name} is a file: name a folder for the results.")
        results = self.results()
        if results and not resume:
            raise BadInput(f"{self._name} holds results already: add --resume to go on with them, or name another folder.")
        if (results and not (self._out / RUN).exists()) or any(result.pair.id not in self._known for result in results):
            raise BadInput(f"{self._name} holds the results of another run: name another folder.")

    def claim(self, judge: str, settings: Settings) -> None:
        """Note whose results it holds. Raises BadInput where they are those of another judge or of other settings."""
        mine = json.loads(json.dumps({"judge": judge, "settings": asdict(settings)}, default=str))
        path = self._out / RUN
        try:
            if self.results() and json.loads(path.read_text("utf-8")) != mine:
                raise BadInput(f"{self._name} holds results of another judge or of other settings: name another folder.")
            self._out.mkdir(parents=True, exist_ok=True)
            with atomic_path(path) as part:
                part.write_text(json.dumps(mine, indent=1) + "\n", "utf-8")
        except ValueError:
            raise BadInput(f"Cannot read {encodable(str(path))}: name another folder.") from None
        except OSError as error:
            raise BadInput(f"Cannot write to {self._name}: {error.strerror or error}.") from None


def _results(out: Path) -> list[PairResult]:
    return list(read_results(out / RESULTS)) if (out / RESULTS).exists() else []
