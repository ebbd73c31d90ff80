"""Labelled pairs from every layout they come in, and what is said of data that cannot be trained with."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets
import pytest

from tests.training.labelled_pairs.support import PAIRED, numbered_rows, write_table
from tests.training.rows.test_export import BASE as TRACE, EXAMPLE
from vrthinker_core import export
from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.traces import to_json
from vrthinker_core.training.data import absolute_data, kind_of, open_pairs, path_of, read_pairs
from vrthinker_core.training.pair_set import DrawnPairSet, VideoPairSet
from vrthinker_core.types import Preference, Verdict

VIDEOS = (EXAMPLE / "first.mp4", EXAMPLE / "second.mp4")
LABELS = TRACE.finished.verdict
ANSWER = ", ".join(f"{name}={label}" for name, label in LABELS.labels.items())


def write_rows(folder: Path, *rows: object, name: str = "rows.jsonl") -> str:
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(folder / name)


def published_rl(**more: object) -> dict[str, Any]:
    """A row as it was published, with the column that none of those has: `prompt`."""
    published = {
        "question": TRACE.turns[0].told,
        "image": [str(path) for path in VIDEOS],
        "is_video": True,
        "qid": "7",
    }
    return {**published, "answer": ANSWER, "prompt": TRACE.started.prompt} | more


def own_export(kind: str) -> Callable[[Path], str]:
    def write(folder: Path) -> str:
        out = folder / ("table.csv" if kind == "videogen-reward" else "rows.jsonl")
        assert export([EXAMPLE], kind, out).rows
        return str(out)

    return write


def traces(folder: Path) -> str:
    shutil.copytree(EXAMPLE, folder / "traces" / "one")
    return str(folder / "traces")


def evaluation(folder: Path) -> str:
    """As `evaluate` leaves it: traces, and a table of results that is a parquet file."""
    traces(folder / "evaluation")
    for name in ("run.json", "results.jsonl", "results.parquet"):
        (folder / "evaluation" / name).touch()
    return str(folder / "evaluation")


def own_table(folder: Path) -> str:
    named = {"first.mp4": VIDEOS[0], "second.mp4": VIDEOS[1]}
    for name, path in named.items():
        shutil.copy(path, folder / name)
    labels = [str(LABELS.labels[name]) for name in ("TA", "VQ", "MQ", "OA")]
    return str(write_table(folder, [(*named, TRACE.started.prompt, *labels)], clips=False))


WAYS: dict[str, Callable[[Path], str]] = {
    "published RL rows": lambda folder: write_rows(folder, published_rl()),
    "a list of them": lambda folder: write_list(folder, published_rl()),
    "RL rows in Parquet": lambda folder: write_parquet(folder, published_rl()),
    "a pattern for a name, lower case in it": lambda folder: write_rows(
        folder, published_rl(answer=f"{ANSWER.lower()}."), name="rows [0-9]*.jsonl"
    ),
    "own RL rows": own_export("rl"),
    "traces": traces,
    "the folder of an evaluation": evaluation,
    "table": own_table,
}


def write_list(folder: Path, *rows: object) -> str:
    (folder / "rows.json").write_text(json.dumps(rows), "utf-8")
    return str(folder / "rows.json")


def write_parquet(folder: Path, *rows: dict[str, Any]) -> str:
    datasets.Dataset.from_list(list(rows)).to_parquet(str(folder / "rows.parquet"))
    return f"rows:{folder / 'rows.parquet'}"


def shows_the_example(row: EvaluationPair) -> None:
    for path, video in zip((row.first, row.second), VIDEOS, strict=True):
        assert Path(path).read_bytes() == video.read_bytes()


@pytest.mark.parametrize("way", WAYS)
def test_every_layout_gives_the_same_pair(way: str, tmp_path: Path) -> None:
    (row,) = read_pairs(WAYS[way](tmp_path))
    assert (row.prompt, row.labels, row.fault) == (TRACE.started.prompt, LABELS, "")
    shows_the_example(row)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("test.json", "mj-bench-video"),
        ("videogen-rewardbench.csv", "videogen-reward"),
        ("a.parquet", "genai-bench"),
    ],
)
def test_a_data_set_in_whose_folder_a_trace_was_saved_is_that_data_set_still(
    name: str, kind: str, tmp_path: Path
) -> None:
    (tmp_path / name).touch()
    (tmp_path / "run.json").write_bytes(to_json(TRACE))
    assert kind_of(tmp_path) == kind


@pytest.mark.parametrize("kind", ["rl", "videogen-reward"])
def test_rows_name_their_videos_wherever_they_lie(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLE, tmp_path / "runs" / "one")
    (tmp_path / "rows").mkdir()
    monkeypatch.chdir(tmp_path)
    out = Path("rows", "table.csv" if kind == "videogen-reward" else "rows.jsonl")
    assert export([Path("runs")], kind, out).rows
    (row,) = read_pairs(str(out))
    assert not row.fault
    shows_the_example(row)


def test_the_published_table_of_videogen_reward_is_read(tmp_path: Path) -> None:
    table = Path(own_export("videogen-reward")(tmp_path))
    for path in VIDEOS:
        shutil.copy(path, tmp_path / path.name)
    table.write_text(table.read_text("utf-8").replace(f"{EXAMPLE.as_posix()}/", ""), "utf-8")
    (row,) = read_pairs(str(table))
    assert (row.prompt, row.labels, row.fault) == (TRACE.started.prompt, LABELS, "")


def test_a_persons_label_counts_before_any_judges_and_judges_who_differ_say_nothing(
    tmp_path: Path,
) -> None:
    other = replace(LABELS, MQ=Preference((int(LABELS.labels["MQ"]) + 1) % 3))
    contradicting = replace(TRACE, finished=replace(TRACE.finished, verdict=other))
    for name, trace in (("a", TRACE), ("b", contradicting)):
        shutil.copytree(EXAMPLE, tmp_path / name)
        (tmp_path / name / "trace.json").write_bytes(to_json(trace))
    rows = read_pairs(f"traces:{tmp_path}")  # Videos in two folders: two pairs
    assert [row.labels for row in rows] == [LABELS, other]
    (tmp_path / "a" / "again.json").write_bytes(to_json(contradicting))
    assert read_pairs(f"traces:{tmp_path / 'a'}")[0].labels == replace(LABELS, MQ=None)


def test_drawn_pairs_are_named_by_their_seed() -> None:
    opened = open_pairs("drawn:12", PAIRED)
    assert (opened.drawn(3), opened.protocol(3)) == (DrawnPairSet(12).drawn(3), "paired")
    with pytest.raises(BadInput, match="no seed"):
        open_pairs("drawn:x", PAIRED)


def test_missing_videos_are_named_with_their_number(tmp_path: Path) -> None:
    table = write_table(tmp_path, numbered_rows("A", "B", "C"), clips=False)
    said = r"^Row 1: There is no file 0a\.mp4; 3 rows of 3 cannot be used\. "
    with pytest.raises(BadInput, match=said):
        open_pairs(str(table), PAIRED)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (published_rl(answer="TA=3, VQ=1, MQ=0, OA=1"), "TA is '3', which is no label"),
        (published_rl(answer="none"), "no pair with a label"),
        (published_rl(answer="The first one."), 'answer" states no label'),
        (published_rl(answer={"TA": 1}), 'answer" states no label'),
        (published_rl(prompt=None), 'no "prompt"'),
        (published_rl(prompt=" "), "prompt is empty"),
        (
            {"message_list": [{"role": "user", "content": "A dog."}], "prompt": "A dog."},
            "does not name two videos",
        ),
        (published_rl(image=["one.mp4"]), "does not name two videos"),
        (published_rl(is_video=False), "does not name two videos"),
        (published_rl(image=["gone.mp4", "gone.mp4"]), "no file gone.mp4"),
    ],
)
def test_a_row_that_cannot_be_used_is_one_sentence(
    row: object, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput) as refused:
        open_pairs(write_rows(tmp_path, row), PAIRED)
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
@pytest.mark.parametrize(
    "content", ["", "[]", "{no json", '"text"', "\xff\xfe", "[" * 100_000, "7" * 5000]
)
def test_a_file_without_rows_is_one_sentence(content: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(BadInput, match=r"^Cannot read the rows of [^\n]+\. Give JSON, [^\n]+\.$"):
        open_pairs(f"rows:{tmp_path / name}", PAIRED)


def test_a_row_may_lack_a_column_and_hold_every_kind_of_line(tmp_path: Path) -> None:
    prompt = "A dog.\u2028Then a cat.\x85And a cow."
    rows = read_pairs(write_rows(tmp_path, {"question": "A card."}, published_rl(prompt=prompt)))
    assert [(row.prompt, bool(row.fault)) for row in rows] == [("", True), (prompt, False)]


def test_rows_without_datasets_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_rows(tmp_path, published_rl())
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(BadInput, match="pip install"):
        read_pairs(path)


def test_what_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no file or folder"):
        open_pairs(str(tmp_path / "gone"), PAIRED)
    with pytest.raises(BadInput, match="holds no pair"):
        open_pairs(str(tmp_path), PAIRED)


def test_pairs_that_people_could_not_judge_are_left_out() -> None:
    known = EvaluationPair("1", 1, "p", "a", "b", labels=Verdict(OA=Preference.TIE))
    left_out = replace(known, left_out="People could not say.")
    rows = [left_out, replace(known, labels=Verdict()), known]
    pairs = VideoPairSet(rows, PAIRED)
    assert (pairs.size, pairs.pair(0).truth) == (1, Verdict(OA=Preference.TIE))
    with pytest.raises(IndexError):
        pairs.pair(1)
    pairs.close()


@pytest.mark.parametrize("data", ["drawn:1", "drawn2:1", ""])
def test_what_is_drawn_has_no_place(data: str) -> None:
    assert (absolute_data(data), path_of(data)) == (data, None)


@pytest.mark.parametrize("kind", ["", "csv:", "traces:", "drawn2:1:"])
def test_a_place_is_known_by_its_whole_path_or_as_it_was_named_before(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute_data(f"{kind}here") == f"{kind}{tmp_path / 'here'}"
    assert path_of(f"{kind}here") == Path("here")
    (tmp_path / "link").symlink_to("here")
    assert absolute_data(f"{kind}link", f"{kind}here") == f"{kind}here"
    for before in ("drawn:1", f"{kind}there"):
        assert absolute_data(f"{kind}here", before) == f"{kind}{tmp_path / 'here'}"
