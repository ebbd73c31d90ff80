"""The public layouts, read from files of exactly their shape, odd rows among them."""

from __future__ import annotations

import random
import shlex
from pathlib import Path

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


def test_votes_of_genai_bench(tmp_path: Path) -> None:
    votes = {"leftvote": FIRST, "rightvote": SECOND, "tievote": TIE, "bothbad_vote": TIE}
    for number in range(4):
        touch(tmp_path / "videos" / genai_name(f"left {number}"))
        touch(tmp_path / "elsewhere" / "deeper" / genai_name(f"right {number}"))
    rows = []
    for n, vote in enumerate(votes):
        videos = [public.genai_address(f"{side} {n}") for side in ("left", "right")]
        rows.append((f"Prompt {n}", *videos, "LaVie", "OpenSora", vote))
    table = public.write_genai(tmp_path, rows)
    pairs = read_dataset("genai-bench", tmp_path)
    assert [pair.labels for pair in pairs] == [Verdict(OA=label) for label in votes.values()]
    assert [Path(pair.first).name for pair in pairs] == [genai_name(f"left {n}") for n in range(4)]
    assert {pair.first_generator for pair in pairs} == {"LaVie"}
    assert faults(pairs) == {}
    assert read_dataset("genai-bench", table) == pairs


def test_odd_rows_of_genai_bench_are_named(tmp_path: Path) -> None:
    good = touch(tmp_path / "videos" / genai_name("good")).name
    addresses = [public.genai_address(name) for name in ("good", "gone")]
    videos = [*addresses, "https://example.org/film.mp4", f"../../{good}/../x.mp4"]
    rows: list[tuple[str | None, ...]] = [
        *(("P", video, good, "a", "b", "leftvote") for video in videos),
        *((None, good, good, "a", "b", "leftvote"), ("P", good, good, None, None, "nobody")),
    ]
    public.write_genai(tmp_path, rows)
    found = faults(read_dataset("genai-bench", tmp_path))
    assert list(found) == [2, 3, 4, 5, 6]
    assert "Download the video" in found[2]
    assert found[5] == "The prompt is missing."
    assert found[6].startswith("vote_type is 'nobody', which is no label. Labels are leftvote, ")


def test_two_sets_of_votes_are_never_mixed(tmp_path: Path) -> None:
    name = touch(tmp_path / "videos" / genai_name("good")).name
    row = ("P", name, name, "a", "b", "tievote")
    tables = [public.write_genai(tmp_path, [row], split) for split in ("test", "test_v1")]
    with pytest.raises(BadInput, match="test and test_v1, which are different sets"):
        read_dataset("genai-bench", tmp_path)
    assert all(len(read_dataset("genai-bench", table)) == 1 for table in tables)


def test_labels_of_mj_bench_video(tmp_path: Path) -> None:
    words = ["Same", "Video 1 better", "Video 2 better", "Video 1 Better"]
    rows = [mj_row(n, word) for n, word in enumerate(words)]
    first, second = "Video 1 better", "Video 2 better"
    rows.append(mj_row(4, "Same", Alignment=first, Fineness=second, Safety=first))
    rows[-1]["category_preference"]["Coherence & Consistency"] = "Hard to judge"
    public.write_mj(tmp_path, rows)
    pairs = read_dataset("mj-bench-video", tmp_path)
    assert [pair.labels.OA for pair in pairs] == [TIE, FIRST, SECOND, FIRST, TIE]
    assert pairs[4].labels == Verdict(TA=FIRST, MQ=None, VQ=SECOND, OA=TIE)
    assert pairs[0].first == str(tmp_path / "videos" / "0_0.mp4"), "video 1 is video_0_path"
    assert not any(pair.fault or pair.left_out for pair in pairs)


def test_hard_to_judge_is_left_out_by_name_and_odd_rows_are_faults(tmp_path: Path) -> None:
    rows = [mj_row(0, "Hard to judge"), mj_row(1, "Whatever"), "no row"]
    rows += [mj_row(number, "Same") for number in (3, 3, 5)]
    rows += [
        {**mj_row(6, "Same"), "video_1_path": float("nan")},
        {**mj_row(7, "Same"), "caption": None},
        {**mj_row(8, "Same"), "category_preference": None, "caption": "a \ud800 b"},
    ]
    public.write_mj(tmp_path, rows)
    (tmp_path / "videos" / "5_1.mp4").unlink()
    pairs = read_dataset("mj-bench-video", tmp_path)
    assert {pair.row: pair.left_out for pair in pairs if pair.left_out} == {
        1: 'People found it "Hard to judge".'
    }
    assert faults(pairs) == {
        2: "overall_preference is 'Whatever', which is no label. Labels are video 1 better, video 2 better, same.",
        3: "The row is no JSON object.",
        5: "The row repeats row 4, which counts.",
        6: "There is no file videos/5_1.mp4.",
        7: "A video is not named.",
        8: "The prompt is missing.",
    }
    assert (pairs[8].labels, pairs[8].prompt) == (Verdict(OA=TIE), "a ? b")


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
