"""Labelled pairs and runs from every layout they come in, and what is said of data that cannot be trained with."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from contextlib import ExitStack
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.training.tables import PAIRED, write_table
from tests.training.test_export import BASE as TRACE, EXAMPLE
from tests.training.test_teacher import PAIRS, SCRIPTED
from vrthinker_core import export
from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.traces import to_json
from vrthinker_core.training.data import absolute_data, named_sets, open_pairs
from vrthinker_core.training.pair_set import PairSet
from vrthinker_core.training.rollouts import Rollout
from vrthinker_core.training.stages import passing, run_readers, runs_folder, taught_pairs
from vrthinker_core.training.teacher import Teacher, run_teacher
from vrthinker_core.types import Preference, Verdict, Vote

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


def read_pairs(data: str) -> list[EvaluationPair]:
    (named,) = named_sets(data)
    return named.pairs()


def evaluation(folder: Path) -> str:
    """As `evaluate` leaves it: traces, and a table of results that is a parquet file."""
    shutil.copytree(EXAMPLE, folder / "evaluation" / "one")
    for name in ("run.json", "results.jsonl", "results.parquet"):
        (folder / "evaluation" / name).touch()
    return str(folder / "evaluation")


def shows_the_example(row: EvaluationPair) -> None:
    for path, video in zip((row.first, row.second), VIDEOS, strict=True):
        assert Path(path).read_bytes() == video.read_bytes()


def test_every_layout_gives_the_same_pair(tmp_path: Path) -> None:
    """Published RL rows in three kinds of file, exported ones, a table, traces, an evaluation."""
    import pyarrow.parquet

    lower = published_rl(answer=f"{ANSWER.lower()}.")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([lower]), tmp_path / "rows.parquet")
    (tmp_path / "rows.json").write_text(json.dumps([published_rl()], indent=1))
    assert export([EXAMPLE], "rl", tmp_path / "own.jsonl").rows
    labels = [str(LABELS.labels[name]) for name in ("TA", "VQ", "MQ", "OA")]
    shutil.copytree(EXAMPLE, tmp_path / "one")
    named = (f"one/{path.name}" for path in VIDEOS)
    write_table(tmp_path, [(*named, TRACE.started.prompt, *labels)], clips=False)
    files = (tmp_path / name for name in ("rows.parquet", "rows.json", "own.jsonl", "pairs.csv"))
    folders = (str(tmp_path / "one"), evaluation(tmp_path))
    for data in (write_rows(tmp_path, published_rl()), *map(str, files), *folders):
        (row,) = read_pairs(data)
        assert (row.prompt, row.labels, row.fault) == (TRACE.started.prompt, LABELS, ""), data
        shows_the_example(row)


LABELLED = [Verdict(*map(Preference, (n % 3, n // 3 % 3, (n + 1) % 3))) for n in range(20)]


SHARES = ((0.5, 0.5), (0.51, 0.49), (0.2, 0.8))
CARDS: dict[str, tuple[tuple[str, ...], tuple[str, ...], tuple[Any, ...]]] = {
    "videogen-reward": (("path_A", "path_B"), ("TA", "VQ", "MQ"), ("same", "A", "B")),
    "mj-bench-video": (
        ("video_0_path", "video_1_path"),
        ("Alignment", "Fineness", "Coherence & Consistency"),
        ("Same", "Video 1 better", "Video 2 better"),
    ),
    "rapidata": (("file_name1", "file_name2"), ("Alignment", "Preference", "Coherence"), SHARES),
    "datapoint": (("video1", "video2"), ("Prompt_Adherence", "Aesthetic", "Coherence"), SHARES),
}
"""Columns of the videos, columns of TA, VQ and MQ, and how these say tie, first and second."""


def published_row(form: str, prompt: str, labels: Verdict) -> dict[str, Any]:
    """A row as the card of the data set describes it."""
    columns, names, words = CARDS[form]
    of = zip(names, ("TA", "VQ", "MQ"), strict=True)
    told = {name: words[int(labels.labels[dimension])] for name, dimension in of}
    paths = [path.name if form == "rapidata" else f"./Videos/{path.name}" for path in VIDEOS]
    row = dict(zip(columns, paths, strict=True)) | {"prompt": prompt}
    if form == "videogen-reward":
        return row | told | {"fps_A": 8, "num_frames_A": 49, "fps_B": 16, "num_frames_B": 96}
    if form == "mj-bench-video":
        return row | {"caption": prompt, "category_preference": told | {"Bias": words[1]}}
    if form == "rapidata":
        row |= {f"video{side}": f"https://assets.example/{side}.mp4" for side in (1, 2)}
    else:
        held = ({"bytes": video.read_bytes(), "path": video.name} for video in VIDEOS)
        row |= dict(zip(columns, held, strict=True))
    return row | {
        f"weighted_results{n + 1}_{name}": told[name][n] for name in names for n in (0, 1)
    }


def write_published(form: str, folder: Path) -> None:
    """Twenty rows with the labels of `LABELLED`, where the published folder has them."""
    import pyarrow
    from pyarrow import csv, parquet

    rows = [published_row(form, f"A dog, number {n}.", each) for n, each in enumerate(LABELLED)]
    (folder / "data").mkdir()
    shutil.copytree(EXAMPLE, folder / "Videos")  # A trace beside them changes nothing
    (folder / "data" / "benchmark.parquet").touch()
    if form == "videogen-reward":
        csv.write_csv(pyarrow.Table.from_pylist(rows), folder / "train.csv")
    elif form == "mj-bench-video":
        (folder / "train.json").write_text(json.dumps(rows))
        (folder / "test.json").write_text("[]")
    else:
        train = folder / "data" / "train-00000-of-00001.parquet"
        parquet.write_table(pyarrow.Table.from_pylist(rows), train)


@pytest.mark.parametrize("form", CARDS)
def test_published_training_sets_have_the_labels_of_their_cards(form: str, tmp_path: Path) -> None:
    write_published(form, tmp_path)
    rows = read_pairs(str(tmp_path))
    assert [(row.fault, row.labels) for row in rows] == [("", labels) for labels in LABELLED]
    shows_the_example(rows[-1])


def test_sets_are_mixed_by_their_weights(tmp_path: Path) -> None:
    write_table(tmp_path, [("v.mp4", "v.mp4", "", "", "", "", "")])
    for name in ("a", "b"):
        rows = [("v.mp4", "v.mp4", f"{name}{n}", "1", "", "", "") for n in range(20)]
        write_table(tmp_path, rows, clips=False, name=f"{name}=1.csv")
    data = f"{tmp_path}/a=1.csv\n{tmp_path}/b=1.csv=0.5"
    with open_pairs(data, PAIRED, seed=3) as pairs, open_pairs(data, PAIRED, seed=3) as again:
        drawn = [pairs.pair(number) for number in range(600)]
        assert again.pair(577).prompt == drawn[577].prompt, "a run goes on where it stopped"
        assert len({pair.seed for pair in drawn}) == 600, "each is answered anew"
    for start in range(0, 600, 60):
        some = [pair.prompt[0] for pair in drawn[start : start + 60]]
        assert abs(some.count("a") - 40) <= 1
    assert {drawn[0].row} < {f"{n} of {tmp_path}/{name}=1.csv" for n in range(21) for name in "ab"}
    seen = Counter(pair.prompt for pair in drawn)
    for name, times in (("a", {19, 20, 21}), ("b", {9, 10, 11})):
        assert {seen[f"{name}{n}"] for n in range(20)} <= times
    (tmp_path / "b=1.csv").write_text("video1,video2,prompt,TA\nv.mp4,gone.mp4,p,1\n")
    with pytest.raises(BadInput, match=r"^Row 1 of .*b=1\.csv: There is no file gone\.mp4"):
        open_pairs(data, PAIRED)
    for weight in ("0", "-1", "nan", "inf"):
        with pytest.raises(BadInput, match="a number above 0"):
            open_pairs(f"drawn:1={weight}", PAIRED)
    (tmp_path / "empty").mkdir()
    for data, sentence in (("drawn:x", "names no seed"), (tmp_path / "empty", "holds no pair")):
        with pytest.raises(BadInput, match=sentence):
            open_pairs(str(data), PAIRED)


def test_a_persons_label_counts_first_and_judges_who_differ_say_nothing(tmp_path: Path) -> None:
    other = replace(LABELS, MQ=Preference((int(LABELS.labels["MQ"]) + 1) % 3))
    contradicting = replace(TRACE, finished=replace(TRACE.finished, verdict=other))
    for name, trace in (("a", TRACE), ("b", contradicting)):
        shutil.copytree(EXAMPLE, tmp_path / name)
        (tmp_path / name / "trace.json").write_bytes(to_json(trace))
    rows = read_pairs(f"traces:{tmp_path}")  # Videos in two folders: two pairs
    assert [row.labels for row in rows] == [LABELS, other]
    (tmp_path / "a" / "again.json").write_bytes(to_json(contradicting))
    assert read_pairs(f"traces:{tmp_path / 'a'}")[0].labels == replace(LABELS, MQ=None)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (published_rl(answer="TA=3, VQ=1, MQ=0, OA=1"), "TA is '3', which is no label"),
        (published_rl(answer="none"), "no pair with a label"),
        (published_rl(answer="The first one."), "which is no label"),
        (published_rl(prompt=None), "Row 1: The prompt is missing"),
        (published_rl(image=["one.mp4"]), "has no column video1"),
        (published_rl(image=["gone.mp4", "gone.mp4"]), "^Row 1: There is no file gone.mp4; 2 rows"),
    ],
)
def test_an_unusable_row_is_one_sentence(
    row: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=sentence) as refused:
        open_pairs(write_rows(tmp_path, row, row | {"prompt": "Another."}), PAIRED)
    assert "\n" not in str(refused.value)


def test_a_row_may_lack_a_column_and_hold_every_kind_of_line(tmp_path: Path) -> None:
    prompt = "A dog.\u2028Then a cat.\x85And a cow."
    rows = read_pairs(write_rows(tmp_path, {"question": "A card."}, published_rl(prompt=prompt)))
    assert [(row.prompt, bool(row.fault)) for row in rows] == [("", True), (prompt, False)]


def test_pairs_that_people_could_not_judge_are_left_out() -> None:
    known = EvaluationPair("1", 1, "p", "a", "b", labels=Verdict(OA=Preference.TIE))
    left_out = replace(known, left_out="People could not say.")
    rows = [left_out, replace(known, labels=Verdict()), known]
    pairs = PairSet.of_rows(rows, PAIRED)
    assert (pairs.size, pairs.pair(0).truth) == (1, Verdict(OA=Preference.TIE))
    with pytest.raises(IndexError):
        pairs.pair(1)
    pairs.close()


@pytest.mark.parametrize("kind", ["", "csv:", "traces:"])
def test_a_place_is_known_from_anywhere(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("here", "a=2"):
        (tmp_path / name).touch()
    named = f"drawn:1=2\n{kind}here=0.5\n{kind}a=2"
    known = f"drawn:1=2\n{kind}{tmp_path}/here=0.5\n{kind}{tmp_path}/a=2"
    assert absolute_data(named) == absolute_data(known) == known
    with pytest.raises(BadInput, match="no file or folder gone"):
        absolute_data(f"drawn:1\n{kind}gone")


OTHER = replace(LABELS, OA=Preference((int(LABELS.OA or 0) + 1) % 3))


def kept(data: Path | str, most: int = 9) -> tuple[list[Rollout], str]:
    said: list[str] = []
    folder = runs_folder(str(data))
    assert folder is not None
    with ExitStack() as videos:
        readers = run_readers([folder], videos, keep_tokens=False)
        found = list(passing(readers, most, said.append))
        assert all(stored.read_again().prompts == stored.rollout.prompts for stored in found)
    return [stored.rollout for stored in found], said[0]


def test_traces_are_learnt_from_where_the_known_labels_are_theirs(tmp_path: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    outside = replace(TRACE, finished=replace(TRACE.finished, verdict=None, outside_scope=True))
    traces = {
        "right": TRACE,
        "wrong": replace(TRACE, vote=Vote(at, Verdict(OA=OTHER.OA), None)),
        "without": TRACE,
        "outside": outside,
        "outside, a person says so": replace(outside, vote=Vote(at, LABELS)),
        "outside, a person says other": replace(outside, vote=Vote(at, OTHER)),
    }
    for name, trace in traces.items():
        shutil.copytree(EXAMPLE, tmp_path / name)
        (tmp_path / name / "trace.json").write_bytes(to_json(trace))
    (tmp_path / "without" / "first.mp4").unlink()
    rollouts, said = kept(tmp_path)
    assert [rollout.run.whole_answer for rollout in rollouts] == [LABELS] * 2
    for rollout in rollouts:
        assert not any(turn.completion.tokens for turn in rollout.run.turns)
        shown = [len(prompt[-1].frames) for prompt in rollout.prompts]
        assert shown == [len(turn.frames) for turn in TRACE.turns]
    assert set(said.rstrip(".").split("; ")) == {
        "2 of 6 runs pass the filters",
        "2 not: a label is not the known one",
        "1 not: no label of the pair is known",
        "1 not: a video cannot be read",
    }


def test_an_evaluation_is_learnt_from_and_what_is_called_traces(tmp_path: Path) -> None:
    assert len(kept(evaluation(tmp_path))[0]) == 1
    (tmp_path / "evaluation" / "run.json").unlink()
    assert runs_folder(str(tmp_path / "evaluation")) is None
    assert len(kept(f"traces:{tmp_path / 'evaluation'}")[0]) == 1
    table = tmp_path / "pairs.csv"
    table.write_text("video1,video2,prompt,OA\n")
    for data in ("drawn:1", table, tmp_path / "gone", write_rows(tmp_path, published_rl())):
        assert runs_folder(str(data)) is None, "pairs alone are no runs"


def test_a_teachers_folder_says_which_pairs_it_was_given(tmp_path: Path) -> None:
    teacher = Teacher("script", lambda: SCRIPTED, PAIRS, "drawn:3")
    list(run_teacher(teacher, range(2), tmp_path / "taught"))
    rollouts, _ = kept(tmp_path / "taught")
    assert [each.pair.truth for each in rollouts] == [PAIRS.pair(n).truth for n in range(2)]
    assert len(kept(tmp_path / "taught", most=1)[0]) == 1
    assert taught_pairs(str(tmp_path / "taught")) == "drawn:3"
    list(run_teacher(replace(teacher, data=""), range(1), tmp_path / "inner"))
    with pytest.raises(BadInput, match="does not say which pairs"):
        taught_pairs(str(tmp_path / "inner"))
