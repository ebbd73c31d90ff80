"""Drawn pairs as files: the table is true, videos show their scenes, a second run goes on, files of others are not touched."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest

from vrthinker_core.drawn.faults import FRAMES
from vrthinker_core.drawn.moving_scene import SceneRenderer
from vrthinker_core.drawn.textures import Pixels
from vrthinker_core.drawn.video_files import pair_of, write_pairs, write_video
from vrthinker_core.drawn.world import FULL, SIMPLE, draw_pair
from vrthinker_core.errors import BadInput
from vrthinker_core.types import Side

SIZE = 112


def difference(one: Pixels, other: Pixels) -> float:
    return float(np.abs(one.astype(float) - other).mean())


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("drawn") / "pairs"
    write_pairs(1, 5, out, SIZE, world=FULL)
    return out


def decoded(path: Path) -> list[Pixels]:
    with av.open(str(path)) as video:
        return [frame.to_ndarray(format="rgb24") for frame in video.decode(video=0)]


def test_the_table_holds_prompts_and_true_labels(folder: Path) -> None:
    (row,) = csv.DictReader((folder / "pairs.csv").read_text("utf-8").splitlines())
    assert list(row) == ["video1", "video2", "prompt", "TA", "VQ", "MQ", "OA"]
    assert (row["video1"], row["video2"]) == ("pair_0000_a.mp4", "pair_0000_b.mp4")
    pair = pair_of(5, 0, FULL)
    assert row["prompt"] == pair.prompt
    assert {name: int(row[name]) for name in ("TA", "VQ", "MQ", "OA")} == pair.verdict.labels
    assert {path.name for path in folder.iterdir()} == {row["video1"], row["video2"], "pairs.csv"}


def test_a_video_shows_its_scene(folder: Path) -> None:
    with av.open(str(folder / "pair_0000_b.mp4")) as video:
        stream = video.streams.video[0]
        assert (stream.codec_context.name, stream.pix_fmt) == ("h264", "yuv420p")
        assert stream.average_rate == 24
    frames = decoded(folder / "pair_0000_b.mp4")
    assert [frame.shape for frame in frames] == [(SIZE, SIZE, 3)] * FRAMES
    renderer = SceneRenderer(pair_of(5, 0, FULL).scenes[Side.SECOND], SIZE, supersample=4)
    assert max(difference(frames[index], renderer.frame(index)) for index in (0, 50, 127)) < 10


def test_a_second_run_keeps_the_videos_that_are_there_and_writes_the_others(folder: Path) -> None:
    lost, kept = folder / "pair_0000_a.mp4", folder / "pair_0000_b.mp4"
    before, stamp = decoded(lost), kept.stat().st_mtime_ns
    lost.unlink()
    progress: list[tuple[int, int]] = []
    write_pairs(1, 5, folder, SIZE, world=FULL, progress=lambda *each: progress.append(each))
    assert progress == [(1, 2), (2, 2)]
    assert max(map(difference, decoded(lost), before)) < 1
    assert kept.stat().st_mtime_ns == stamp


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"count": 0}, "at least one pair"),
        ({"seed": -1}, "0 or larger"),
        ({"size": 225}, "even number"),
        ({"size": 110}, "112 to 1080"),
        ({"size": 1082}, "112 to 1080"),
        ({"world": replace(FULL, photos=Path("none"))}, "holds no picture"),
    ],
)
def test_odd_numbers_are_refused(tmp_path: Path, numbers: dict[str, Any], message: str) -> None:
    out = tmp_path / "new"
    with pytest.raises(BadInput, match=f"(?i){message}"):
        write_pairs(**{"count": 1, "seed": 0, "size": SIZE, "out": out} | numbers)
    assert not out.exists()


def test_folders_of_other_files_and_of_other_runs_are_refused(folder: Path, tmp_path: Path) -> None:
    holiday, table = tmp_path / "photos" / "holiday.mp4", tmp_path / "one" / "pairs.csv"
    for other in (holiday, table):
        other.parent.mkdir()
        other.write_text("other")
    for seed, out, size, world, said in (
        (0, holiday.parent, SIZE, FULL, r"holiday\.mp4"),
        (0, table.parent, SIZE, FULL, r"pairs\.csv"),
        (0, holiday, SIZE, FULL, "cannot be written"),
        (6, folder, SIZE, FULL, "another seed or size"),
        (5, folder, 2 * SIZE, FULL, "another seed or size"),
        (5, folder, SIZE, SIMPLE, "another seed or size"),
    ):
        with pytest.raises(BadInput, match=said):
            write_pairs(1, seed, out, size, world=world)
    assert (holiday.read_text(), table.read_text()) == ("other", "other")


def test_interrupted_video_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: SceneRenderer, index: int) -> Pixels:
        raise KeyboardInterrupt

    monkeypatch.setattr(SceneRenderer, "frame", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_video(draw_pair(1).first, tmp_path / "video.mp4", SIZE)
    assert list(tmp_path.iterdir()) == []
