"""Opens what `--data` names: drawn pairs, published tables, a folder of traces, or a mixture."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair, pair_id, video_finder
from vrthinker_core.results.open_dataset import DATASETS, FORMS, data_root, find_tables, read_pairs
from vrthinker_core.results.result import RESULTS, RUN
from vrthinker_core.training.pair_set import FramePlans, PairSet
from vrthinker_core.training.traces import NotForTraining, read_traces, trace_videos
from vrthinker_core.types import Dimension, Preference, Verdict

KINDS = ("traces", "rows", *DATASETS)
TABLES = (
    "train.csv",
    "videogen-rewardbench.csv",
    "train.json",
    "test.json",
    "*.parquet */*.parquet",
)
"""Of a folder, in this order."""


def training_tables(path: Path) -> list[Path]:
    """Return the tables of a data set's split, [] for a folder of traces. Raises BadInput."""
    # The table of an evaluation or a ranking is a parquet file, too
    traced = path.is_dir() and (path / RUN).exists() and (path / RESULTS).exists()
    return [] if traced else find_tables(path, TABLES, "train")


def kind_of(path: Path) -> str:
    """Return what a path holds, traces or rows. Raises BadInput."""
    return "rows" if training_tables(path) else "traces"


def read_traced_pairs(folder: Path) -> list[EvaluationPair]:
    """Return the pairs of all traces below a folder. Runs of one pair count together.

    A dimension has no label if the runs of a judge contradict one another and no person says
    anything. A file that is no trace is left out.
    """
    found: dict[tuple[str, str, str], list[tuple[dict[Dimension, Preference], Verdict]]] = {}
    for file in read_traces([folder]):
        try:
            first, second = (str(each["path"]) for each in trace_videos(file))
        except NotForTraining:
            continue  # A run without its videos says nothing of them
        place = file.trace.started.prompt, first, second
        found.setdefault(place, []).append((file.people, file.known))
    rows = []
    for number, (key, known) in enumerate(found.items(), start=1):
        agreed = {}
        for each in Dimension:
            told = {people[each] for people, _ in known if each in people}
            said = told or {dict(labels)[each] for _, labels in known} - {None}
            if len(said) == 1:
                agreed[each.value] = said.pop()
        rows.append(EvaluationPair(pair_id(*key), number, *key, Verdict(**agreed)))
    return rows


@dataclass(frozen=True, slots=True)
class NamedSet:
    """One set of pairs, as `--data` names it."""

    kind: str  # Of `KINDS`, drawn, or "" to be seen from the path
    place: str  # A seed, or a path
    weight: float = 1.0

    def __str__(self) -> str:
        """Spell it as `--data` takes it."""
        kind = f"{self.kind}:" if self.kind else ""
        return f"{kind}{self.place}{'' if self.weight == 1 else f'={self.weight:g}'}"

    @property
    def path(self) -> Path | None:
        """The file or folder, None for drawn pairs."""
        return None if self.kind == "drawn" else Path(self.place)

    def pairs(self) -> list[EvaluationPair]:
        """Return the pairs of traces, or of the training part of a data set, with broken rows.

        A video is a full path, a path relative to the table, or the name of a file anywhere in the
        folder of the data set. Raises BadInput for what cannot be read, or holds no pair.
        """
        path = Path(self.place).absolute()
        if tables := [] if self.kind == "traces" else training_tables(path):
            folder = tables[0].parent
            root = path if path.is_dir() else data_root(folder)
            rows = read_pairs(tables, FORMS, video_finder(folder, root, absolute=True))
        else:
            rows = read_traced_pairs(path)
        if not rows:
            raise BadInput(f"{path} holds no pair.")
        return rows

    def open(self, plans: FramePlans, name: str = "") -> PairSet:
        """Open the pairs; `name` stands in errors. Raises BadInput."""
        if self.kind != "drawn":
            return PairSet.of_rows(self.pairs(), plans, name)
        if not self.place.isascii() or not self.place.isdecimal():
            raise BadInput(f"{self} names no seed: give a whole number from 0 on, as in drawn:1.")
        return PairSet.drawn(int(self.place), plans)


def named_sets(data: str) -> list[NamedSet]:
    """Return the sets that `data` names, one a line, each as `[KIND:]PLACE[=WEIGHT]`.

    A path that exists may have "=" in its name. Raises BadInput for a weight that is none.
    """
    found = []
    for name in data.split("\n"):
        kind, _, place = name.partition(":")
        if kind not in ("drawn", *KINDS) or not place:
            kind, place = "", name
        weight, (before, _, text) = 1.0, place.rpartition("=")
        with suppress(ValueError):  # An "=" before no number belongs to the name
            if before and not Path(place).exists():
                weight, place = float(text), before
        if not 0 < weight < math.inf:
            raise BadInput(f"{name}: the weight of a data set is a number above 0, as in =0.5.")
        found.append(NamedSet(kind, place, weight))
    return found


def absolute_data(data: str) -> str:
    """Return `data` with whole paths, found from any folder. Raises BadInput if one is missing."""
    names = []
    for each in named_sets(data):
        if each.path is not None and not each.path.exists():
            raise BadInput(
                f"There is no file or folder {each.path}: name the training data as drawn:SEED, "
                "KIND:PATH, or a path whose kind is seen from it."
            )
        place = each.place if each.path is None else str(each.path.absolute())
        names.append(str(replace(each, place=place)))
    return "\n".join(names)


def is_drawn(data: str) -> bool:
    """Return whether all pairs of `data` are drawn."""
    return all(each.path is None for each in named_sets(data))


def open_pairs(data: str, plans: FramePlans, seed: int = 0) -> PairSet:
    """Open the pairs of `data`; several sets are mixed by their weights and `seed`.

    `plans`: of the trained protocols, which pairs take in turn. Raises BadInput if nothing can be
    read, a video is missing, a label is none, or no pair of a set has one.
    """
    sets = named_sets(data)
    if len(sets) == 1:
        return sets[0].open(plans)
    return PairSet.mixed([(each.open(plans, each.place), each.weight) for each in sets], seed)
