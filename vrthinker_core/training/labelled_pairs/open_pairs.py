"""Opens the labelled pairs that `--data` names: drawn ones, a data set, rows, or a folder of traces."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from vrthinker_core.errors import BadInput
from vrthinker_core.results.datasets import DATASETS
from vrthinker_core.results.datasets.mj_bench_video import FILE as MJ_BENCH
from vrthinker_core.results.datasets.videogen_reward import FILE as VIDEOGEN
from vrthinker_core.results.pair import EvaluationPair
from vrthinker_core.results.result_file import RESULTS
from vrthinker_core.results.run_file import RUN
from vrthinker_core.training.drawn_world.rendering.photographs import photo_paths
from vrthinker_core.training.drawn_world.scenes import FULL, draw_pair
from vrthinker_core.training.labelled_pairs.pair_set import DrawnPairSet, PairSet
from vrthinker_core.training.labelled_pairs.rl_rows import read_rl_rows
from vrthinker_core.training.labelled_pairs.traced_pairs import read_traced_pairs
from vrthinker_core.training.labelled_pairs.video_pairs import Layouts, VideoPairSet

CHOICES = "drawn:SEED, drawn2:SEED[:PHOTOS], KIND:PATH, or a path whose kind is seen from it"
READERS: dict[str, Callable[[Path], list[EvaluationPair]]] = {
    **DATASETS,
    "rows": read_rl_rows,
    "traces": read_traced_pairs,
}
"""By the word for KIND."""


def open_pairs(data: str, layouts: Layouts) -> PairSet:
    """The pair set of `data`, one of `CHOICES`; `layouts`: of the protocols that are trained, which pairs take in turn.

    Raises BadInput where nothing can be read, a video is missing, a label is none, or no pair has one.
    """
    kind, _, rest = data.partition(":")
    if kind in ("drawn", "drawn2"):
        return replace(
            _drawn_pairs(kind, rest),
            grids=tuple((protocol, layout.grid) for protocol, layout in layouts.items()),
        )
    return VideoPairSet(read_pairs(data), layouts)


def _drawn_pairs(kind: str, rest: str) -> DrawnPairSet:
    """`drawn:SEED`: simple scenes; `drawn2:SEED` or `drawn2:SEED:PHOTOS`: all there is, with a folder of photographs.

    Raises BadInput, also for a folder without one.
    """
    seed, _, photos = rest.partition(":")
    if not seed.isascii() or not seed.isdecimal() or (photos and kind == "drawn"):
        raise BadInput(
            f"{kind}:{rest} names no seed: give a whole number from 0 on, as in {kind}:1."
        )
    if kind == "drawn":
        return DrawnPairSet(int(seed))
    if photos:
        photo_paths(Path(photos))
    world = replace(FULL, photos=Path(photos) if photos else None)
    return DrawnPairSet(int(seed), draw=partial(draw_pair, world=world))


def path_of(data: str) -> Path | None:
    """The file or folder that `data` names; None for drawn pairs, but for their photographs."""
    path = _divided(data)[1]
    return Path(path) if path else None


def absolute_data(data: str, before: str | None = None) -> str:
    """`data` with its whole path, so that it is found from any working directory.

    Where `before` names the same place, it is that: what a folder of an earlier version was begun with, as it was typed.
    """
    kind, path = _divided(data)
    if not path:
        return data
    if (
        before
        and _divided(before)[0] == kind
        and Path(_divided(before)[1]).resolve() == Path(path).resolve()
    ):
        return before
    return f"{kind}{Path(path).absolute()}"


def _divided(data: str) -> tuple[str, str]:
    """What stands before a path with its colon, and the path, "" where there is none."""
    kind, _, rest = data.partition(":")
    if kind in ("drawn", "drawn2"):
        seed, colon, photos = rest.partition(":")
        return f"{kind}:{seed}{colon}", photos
    return (f"{kind}:", rest) if kind in READERS and rest else ("", data)


def read_pairs(data: str) -> list[EvaluationPair]:
    """The rows of a data set, broken ones among them. Raises BadInput where nothing can be read."""
    kind, path = find_data(data)
    rows = READERS[kind](path.absolute())
    if not rows:
        raise BadInput(f"{path} holds no pair.")
    return rows


def find_data(data: str) -> tuple[str, Path]:
    """Which reader `data`, which is not drawn, is for, and where it lies. Raises BadInput where nothing is there."""
    kind, _, rest = data.partition(":")
    if kind not in READERS or not rest:
        kind, rest = kind_of(Path(data)), data
    path = Path(rest)
    if not path.exists():
        raise BadInput(f"There is no file or folder {path}: name the training data as {CHOICES}.")
    return kind, path


def kind_of(path: Path) -> str:
    """Which reader a path is for."""
    if path.is_dir():
        if (path / RUN).exists() and (
            path / RESULTS
        ).exists():  # An evaluation or a ranking, whose table is a parquet file too
            return "traces"
        if (path / VIDEOGEN).exists():
            return "videogen-reward"
        if (path / MJ_BENCH).exists():
            return "mj-bench-video"
        return (
            "genai-bench"
            if any(path.glob("*.parquet")) or any(path.glob("*/*.parquet"))
            else "traces"
        )
    if path.suffix == ".parquet":
        return "genai-bench"
    if path.suffix in (".jsonl", ".json"):
        return "mj-bench-video" if path.name == MJ_BENCH else "rows"
    return "videogen-reward" if "path_A" in _head(path) else "csv"


def _head(path: Path) -> str:
    """The beginning of a file; "" for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(1000).decode("utf-8", "replace").lstrip("\ufeff")
    except OSError:
        return ""
