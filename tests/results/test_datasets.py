"""The public layouts, read from files of exactly their shape, odd rows among them."""

from __future__ import annotations

import random
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.support import public_files as public
from tests.evaluation.support.public_files import VIDEOGEN_ROW, genai_name, mj_row, touch
from vrthinker_core.errors import BadInput
from vrthinker_core.results.layout import EvaluationPair
from vrthinker_core.results.open_dataset import DATASETS, read_dataset, take_some
from vrthinker_core.types import Preference, Verdict

FIRST, SECOND, TIE = Preference.FIRST, Preference.SECOND, Preference.TIE


def faults(pairs: list[EvaluationPair]) -> dict[int, str]:
    return {pair.row: pair.fault for pair in pairs if pair.fault}


def videogen_row(number: int, **changed: str) -> list[str]:
    names = ("path_A", "path_B", "A_model", "B_model", "prompt", "VQ", "MQ", "TA", "Overall")
    row = dict(zip(names, VIDEOGEN_ROW[:9], strict=True))
    row |= {"path_A": f"videos/a/{number}.mp4", "path_B": f"videos/b/{number}.mp4", **changed}
    return [*row.values(), *VIDEOGEN_ROW[9:]]


def test_the_published_row_of_videogen_reward(tmp_path: Path) -> None:
    table = public.write_videogen(tmp_path)
    (pair,) = read_dataset("videogen-reward", tmp_path)
    assert pair.labels == Verdict(TA=SECOND, MQ=TIE, VQ=TIE, OA=SECOND)
    assert [pair.first, pair.second] == [str(tmp_path / name) for name in VIDEOGEN_ROW[:2]]
    assert (pair.first_generator, pair.second_generator, pair.prompt) == VIDEOGEN_ROW[2:5]
    assert not pair.fault
    assert read_dataset("videogen-reward", table) == [pair], "the table in place of its folder"


def test_odd_rows_of_videogen_reward_are_named_and_the_rest_is_read(tmp_path: Path) -> None:
    rows = [
        videogen_row(1, Overall="A"),
        videogen_row(2, path_A="videos/gone.mp4"),
        videogen_row(3, path_B="https://example.org/3.mp4"),
        videogen_row(4, prompt="  "),
        videogen_row(1, Overall="A"),
        videogen_row(6, VQ="C"),
        videogen_row(7, path_A="../outside.mp4"),
        videogen_row(8, path_B="/etc/hostname"),
        videogen_row(9, VQ="", MQ="NaN", Overall="B"),
        [*videogen_row(10)[:9], "NaN", "", "nan", "inf"],
        videogen_row(11, path_A=r"C:\videos\a\1.mp4"),
        videogen_row(12, path_A=r"\videos\a\1.mp4"),
    ]
    public.write_videogen(tmp_path, rows)
    (tmp_path / "videos" / "gone.mp4").unlink()
    touch(tmp_path.parent / "outside.mp4")
    pairs = read_dataset("videogen-reward", tmp_path)
    assert faults(pairs) == {
        2: "There is no file videos/gone.mp4.",
        3: "There is no file https://example.org/3.mp4. Download the video, and name its file.",
        4: "The prompt is missing.",
        5: "The row repeats row 1, which counts.",
        6: "VQ is 'C', which is no label. Labels are a, b, same.",
        7: "../outside.mp4 leaves the folder of the data set.",
        8: "/etc/hostname leaves the folder of the data set.",
        11: r"There is no file C:\videos\a\1.mp4.",
        12: r"There is no file \videos\a\1.mp4.",
    }
    assert len({pair.id for pair in pairs}) == len(rows)
    assert pairs[8].labels == Verdict(TA=SECOND, OA=SECOND), "a label that nobody gave is no tie"


def test_votes_of_genai_bench_and_odd_rows(tmp_path: Path) -> None:
    votes = {"leftvote": FIRST, "rightvote": SECOND, "tievote": TIE, "bothbad_vote": TIE}
    left = touch(tmp_path / "videos" / genai_name("left")).name
    touch(tmp_path / "elsewhere" / "deeper" / genai_name("right"))
    known = [public.genai_address(side) for side in ("left", "right")]
    rows: list[tuple[str | None, ...]] = [
        *((f"Prompt {vote}", *known, "LaVie", "OpenSora", vote) for vote in votes),
        *(("P", public.genai_address("gone"), left, "a", "b", "leftvote"),),
        *(("P", f"../../{left}/../x.mp4", left, "a", "b", "leftvote"),),
        *((None, left, left, "a", "b", "leftvote"), ("P", left, left, None, None, "nobody")),
    ]
    table = public.write_genai(tmp_path, rows)
    pairs = read_dataset("genai-bench", tmp_path)
    assert [pair.labels for pair in pairs[:4]] == [Verdict(OA=label) for label in votes.values()]
    assert {Path(pair.first).name for pair in pairs[:4]} == {left}
    assert {pair.first_generator for pair in pairs[:4]} == {"LaVie"}
    found = faults(pairs)
    assert list(found) == [5, 6, 7, 8]
    assert "Download the video" in found[5]
    assert found[7] == "The prompt is missing."
    assert found[8].startswith("vote_type is 'nobody', which is no label. Labels are leftvote, ")
    assert read_dataset("genai-bench", table) == pairs
    shutil.copy(table, table.with_name("test-0.parquet"))
    with pytest.raises(BadInput, match="test and test_v1, which are different sets"):
        read_dataset("genai-bench", tmp_path)


def test_labels_and_odd_rows_of_mj_bench_video(tmp_path: Path) -> None:
    first, second = "Video 1 better", "Video 2 better"
    words = ["Hard to judge", "Whatever", "Same", first, second, "Video 1 Better", "Same"]
    rows: list[Any] = [mj_row(n, word) for n, word in enumerate(words)]
    rows[3] |= {"category_preference": {"Alignment": second, "Fineness": "Hard to judge"}}
    rows += ["no row", mj_row(2, "Same")]
    rows += [
        {**mj_row(9, "Same"), "video_1_path": float("nan")},
        {**mj_row(10, "Same"), "caption": None},
        {**mj_row(11, "Same"), "category_preference": None, "caption": "a \ud800 b"},
    ]
    public.write_mj(tmp_path, rows)
    (tmp_path / "videos" / "6_1.mp4").unlink()
    pairs = read_dataset("mj-bench-video", tmp_path)
    assert [pair.labels.OA for pair in pairs[2:6]] == [TIE, FIRST, SECOND, FIRST]
    assert pairs[2].first == str(tmp_path / "videos" / "2_0.mp4"), "video 1 is video_0_path"
    assert pairs[3].labels == Verdict(TA=SECOND, OA=FIRST)
    assert {pair.row: pair.left_out for pair in pairs if pair.left_out} == {
        1: 'People found it "Hard to judge".'
    }
    assert faults(pairs) == {
        2: "overall_preference is 'Whatever', which is no label. Labels are video 1 better, video 2 better, same.",
        7: "There is no file videos/6_1.mp4.",
        8: "The row is no JSON object.",
        9: "The row repeats row 3, which counts.",
        10: "A video is not named.",
        11: "The prompt is missing.",
    }
    assert (pairs[11].labels, pairs[11].prompt) == (Verdict(OA=TIE), "a ? b")


def test_other_labels_make_a_pair_of_their_own_whatever_the_order(tmp_path: Path) -> None:
    rows = [*(videogen_row(1, Overall=label) for label in "ABA"), videogen_row(2)]
    found = []
    for seed in range(4):
        random.Random(seed).shuffle(rows)
        public.write_videogen(tmp_path, rows)
        pairs = read_dataset("videogen-reward", tmp_path)
        found.append(sorted((each.id, each.labels.OA, bool(each.fault)) for each in pairs))
    assert all(each == found[0] for each in found)
    assert len({name for name, _, _ in found[0]}) == 4
    assert [fault for _, _, fault in found[0]].count(True) == 1


def test_a_limit_takes_the_same_pairs_in_any_order(tmp_path: Path) -> None:
    """And those of a smaller limit."""
    public.write_videogen(tmp_path, rows := [videogen_row(n) for n in range(30)])
    pairs = read_dataset("videogen-reward", tmp_path)
    chosen = {limit: {pair.id for pair in take_some(pairs, limit)} for limit in (5, 12, 99)}
    assert [len(names) for names in chosen.values()] == [5, 12, 30]
    assert chosen[5] < chosen[12] < chosen[99]
    random.Random(1).shuffle(rows)
    public.write_videogen(tmp_path, rows)
    shuffled = read_dataset("videogen-reward", tmp_path)
    assert {pair.id for pair in take_some(shuffled, 5)} == chosen[5]
    with pytest.raises(BadInput, match="--limit 0 takes no pair"):
        take_some([], 0)


@pytest.mark.parametrize("kind", [*DATASETS, "another"])
def test_a_place_where_nothing_is_gives_a_sentence(tmp_path: Path, kind: str) -> None:
    """With the command that gets the data set there, if it is a published one."""
    for place in (tmp_path, tmp_path / "a folder"):
        with pytest.raises(BadInput) as told:
            read_dataset(kind, place)
        command = shlex.split(str(told.value).partition("Get it: ")[2])
        assert command[5:6] == ([] if kind in ("csv", "another") else [str(place)])
    with pytest.raises(BadInput):
        read_dataset(kind, tmp_path / ("n" * 300))
