"""What is measured on a pair: every known fault is told at its time, and nothing else is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from tests.video.support.hostile_clips import HOSTILE
from tests.video.support.open_clips import opened
from tests.video.support.planted_clips import FAULTS, TRAPS, planted_clip
from tests.video.support.real_clips import real_clips
from tests.video.support.write_clips import H264, KINDS, write
from vrthinker_core import Measurement, Side, VideoError, VideoPair, measure
from vrthinker_core.video import DecoderPool

FILM = Path(__file__).parents[2] / "assets/examples/real-1-a-film-and-its-copy/first.mp4"
SEEN = {
    "first.mp4": ["freeze 0.7", "blur 3.4"],
    "av_colors-animated-alpha.avif": ["cut 0.3", "cut 0.7"],
    "ax_bbb_800x640_768kbps_30fps_avc_pyramid_3b.mp4": ["cut 0.2"],
    "ax_edit_list_positive_shift.mp4": ["freeze 0.0"],
    "ax_roadtrip-vp92-10bit.webm": ["cut 1.8", "cut 2.9"],
    "ax_sample_h263.ts": ["freeze 0.0"],
    "ax_sample_android_slow_motion.mp4": ["freeze 0.0"],
    "ax_silent-black-10s.mp4": ["freeze 0.0"],
    "mp_-video-with-dash-.mp4": ["cut 1.0", "cut 2.0", "cut 3.0", "cut 4.0"],
    "sk_bikes.mp4": ["cut 1.2", "cut 3.0", "cut 5.5", "cut 7.5", "cut 9.7"],
    "tc_nasa_13013.mp4": ["cut 8.0"],
}
"""What a person sees in real clips, of which only the first ones are always measured."""
QUIET = ("pair01_unicorn_a.mp4", "tc_av1_video.mkv", "ax_sample.mp4", "mp_transparent.webm")


@pytest.fixture(scope="module")
def pool() -> Iterator[DecoderPool]:
    with DecoderPool() as decoders:
        yield decoders


def kinds(found: Measurement, side: Side) -> list[str]:
    facts = [fact for fact in found.facts if fact.sides == (side,)]
    return [f"{fact.kind} {fact.start:.1f}" for fact in facts]


@pytest.mark.parametrize("number", [0, 1, 12, 3, 14, 5, 6, 17, 8, 19])
def test_a_fault_is_told_at_its_time_and_nothing_else(
    number: int, tmp_path: Path, pool: DecoderPool
) -> None:
    fault, trap = FAULTS[number % 5], TRAPS[number]
    clip, quiet = planted_clip(tmp_path, number, fault), planted_clip(tmp_path, number, trap)
    found = measure(VideoPair("p", clip.path, quiet.path), decoder_pool=pool)
    assert [clip.is_told_by(fact) for fact in found.facts] == [True], found


@pytest.mark.parametrize("path", [FILM, *real_clips({*SEEN, *QUIET})])
def test_of_real_clips_only_what_a_person_sees_is_told(path: Path, pool: DecoderPool) -> None:
    try:
        found = measure(VideoPair("p", path, path), decoder_pool=pool)
    except VideoError:
        pytest.skip("not readable")
    assert kinds(found, Side.FIRST) == kinds(found, Side.SECOND) == SEEN.get(path.name, [])


@pytest.mark.parametrize("kind", KINDS | HOSTILE)
def test_every_clip_that_can_be_compared_is_measured(
    kind: str, make_clip: Callable[[str], Path], pool: DecoderPool
) -> None:
    path, refused = make_clip(kind), ""
    try:
        with opened(path, decoders=pool) as clip:
            seconds = clip.info.seconds
    except VideoError as error:
        refused = str(error)
    if refused:
        with pytest.raises(VideoError) as told:
            measure(VideoPair("p", path, FILM), decoder_pool=pool)
        assert (str(told.value), told.value.sides) == (f"Video 1: {refused}", (Side.FIRST,))
        return
    video, again = measure(VideoPair("p", path, path), decoder_pool=pool).videos
    assert video == again
    assert video.seconds == pytest.approx(seconds, abs=0.05)
    assert len(video.times) == len(video.differences) <= 300
    assert list(video.times) == sorted({*video.times})
    assert video.differences[0] == 0 <= min(video.differences) <= max(video.differences) <= 255


def test_sharpness_is_compared_of_the_same_pictures_only(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    sharp = cv2.GaussianBlur(rng.uniform(0, 255, (240, 320, 3)).astype(np.uint8), (0, 0), 1.2)
    noisy = np.clip(sharp + rng.normal(0, 9, sharp.shape), 0, 255).astype(np.uint8)
    pictures = {"soft": cv2.GaussianBlur(sharp, (0, 0), 1.5), "noisy": noisy, "other": sharp[::-1]}
    how = {"size": (320, 240), "options": {**H264, "crf": "18"}}
    base = write(tmp_path / "sharp.mp4", 12, pictures=[sharp] * 12, **how)
    for name, picture in pictures.items():
        whole = [np.ascontiguousarray(picture)] * 12
        other = write(tmp_path / f"{name}.mp4", 12, pictures=whole, **how)
        facts = measure(VideoPair("p", other, base)).facts
        told = [fact.text.partition(" is ")[0] for fact in facts if fact.kind == "sharpness"]
        assert told == (["Video 2"] if name == "soft" else []), facts


def test_a_cancelled_measurement_ends(pool: DecoderPool) -> None:
    with pytest.raises(VideoError):
        measure(VideoPair("p", FILM, FILM), decoder_pool=pool, cancelled=lambda: True)
