"""Moving clips with one known fault, and clips that only look as if they had one. Every number gives another clip."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from tests.video.support.write_clips import AV1, FAST_VP8, FFV1, H264, HEVC, MPEG4, VP9, write
from vrthinker_core import MeasuredFact, Side

FAULTS = ("freeze", "jump", "cut", "blur", "brightness")
TRAPS = (
    *("none", "twos", "pulldown", "slow", "to and fro", "fade in", "fade out", "dissolve"),
    *("flash", "whip", "shake", "noise", "explosion", "caption", "breathing", "single", "double"),
    *("wipe", "strobe", "rest"),
)
_SCENES = ("pan", "zoom", "sprites", "waves", "parallax")
CODECS: dict[str, tuple[str, dict[str, Any]]] = {
    "h264": ("mp4", {"options": H264}),
    "h264, few bits": ("mp4", {"options": {**H264, "crf": "34"}, "gop": 250}),
    "hevc": ("mp4", HEVC),
    "vp8": ("webm", FAST_VP8),
    "vp9": ("webm", VP9),
    "av1": ("mp4", AV1),
    "mjpeg": ("avi", {"codec": "mjpeg", "pix_fmt": "yuvj420p", "options": {}}),
    "mpeg4": ("avi", MPEG4),
    "prores": ("mov", {"codec": "prores", "pix_fmt": "yuv422p10le", "options": {}}),
    "ffv1": ("mkv", FFV1),
}
"""Suffix and encoding of each."""
_SIZES = ((320, 180), (426, 240), (240, 320), (176, 144), (480, 270))


@dataclass(frozen=True)
class Planted:
    """A clip and what is known about it."""

    path: Path
    fault: str  # of `FAULTS` or `TRAPS`
    start: float
    end: float
    tolerance: float  # two frames, at least 0.1 s

    def is_told_by(self, fact: MeasuredFact) -> bool:
        near = abs(fact.start - self.start) <= self.tolerance
        ends = self.fault != "freeze" or abs(fact.end - self.end) <= self.tolerance
        return (fact.kind, fact.sides) == (self.fault, (Side.FIRST,)) and near and ends


class _Scene:
    """A moving picture at any time: smooth motion of a smooth texture."""

    def __init__(self, kind: str, seed: int, size: tuple[int, int]) -> None:
        self.kind, (self.width, self.height), self.rng = kind, size, np.random.default_rng(seed)
        self.texture, self.thing = self._texture(640, 1.15), self._texture(120, 1.0)
        self.turn, self.speed = self.rng.uniform(0, 6.28), self.rng.uniform(0.1, 0.35) * self.width

    def _texture(self, side: int, slope: float) -> Any:
        waves = np.hypot(*np.meshgrid(np.fft.fftfreq(side), np.fft.fftfreq(side)))
        spectrum = np.fft.fft2(self.rng.standard_normal((side, side)))
        picture = np.fft.ifft2(spectrum / np.maximum(waves, 1 / side) ** slope).real
        return np.clip(120 + 40 * picture / picture.std(), 0, 255).astype(np.float32)

    def _seen(self, texture: Any, x: float, y: float, scale: float = 1.0, turn: float = 0.0) -> Any:
        """The texture around its middle, moved by (x, y)."""
        cos, sin = scale * np.cos(turn), scale * np.sin(turn)
        matrix = np.array([[cos, -sin, 0], [sin, cos, 0]])
        half = np.array([self.width, self.height]) / 2
        matrix[:, 2] = texture.shape[0] / 2 + np.array([x, y]) - matrix[:, :2] @ half
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        size = self.width, self.height
        return cv2.warpAffine(texture, matrix, size, flags=flags, borderMode=cv2.BORDER_REFLECT)

    def at(self, t: float) -> Any:
        x, y = self.speed * (t - 1.5) * np.array([np.cos(self.turn), np.sin(self.turn)])
        if self.kind == "pan":
            return self._seen(self.texture, x, y)
        if self.kind == "zoom":
            return self._seen(self.texture, 0, 0, 1.2 * np.exp(0.2 * (t - 1.5)), 0.25 * t)
        rows, columns = np.mgrid[: self.height, : self.width].astype(np.float32)
        if self.kind == "waves":
            bend = 0.04 * self.width * np.sin(columns / 40 + rows / 30 + self.turn + 3 * t)
            across = 450 + bend + columns - self.width / 2
            down = 450 + bend / 2 + rows - self.height / 2
            return cv2.remap(self.texture, np.float32(across), np.float32(down), cv2.INTER_LINEAR)
        picture = self._seen(self.texture, *((x / 3, y / 3) if self.kind == "parallax" else (0, 0)))
        for number in range(3):
            turn = self.turn + 2 * number + (1.5 + 0.4 * number) * t
            left = self.width * (0.5 + 0.33 * np.cos(turn))
            top = self.height * (0.5 + 0.33 * np.sin(1.3 * turn))
            moved = self._seen(self.thing, self.width / 2 - left, self.height / 2 - top)
            inside = np.hypot(columns - left, rows - top) < 0.16 * self.height
            picture = np.where(inside, moved * (0.6 + 0.3 * number), picture)
        return picture


def planted_clip(folder: Path, number: int, fault: str) -> Planted:
    """Write the clip of a number with a fault of `FAULTS`, or a trap of `TRAPS`."""
    rng = np.random.default_rng([number, len(fault)])
    (suffix, how), size = [*CODECS.values()][number % 10], _SIZES[number % 7 % len(_SIZES)]
    rate = (24, 30, 25, 60, 15, 50)[number % 6]
    scene, other = (_Scene(_SCENES[(number // step) % 5], number + step, size) for step in (1, 7))
    count, noise = round(2.6 * rate), (0.0, 1.0, 3.0)[number % 3]
    at = int(rng.uniform(0.4, 0.55) * count)
    length = round(rng.uniform(0.45, 0.9) * rate)
    times = _times(fault, count, rate, at, length)
    pictures = [
        _changed(fault, scene.at(t), other, index, at, rate, rng) for index, t in enumerate(times)
    ]
    noises = (each + rng.normal(0, noise, each.shape) for each in pictures)
    noisy = [np.clip(each, 0, 255).astype(np.uint8) for each in noises]
    for index in range(1, len(noisy)):  # A repeated frame repeats its noise, too
        if times[index] == times[index - 1] and fault in ("freeze", "twos", "pulldown"):
            noisy[index] = noisy[index - 1]
    frames = [each[..., None].repeat(3, 2) for each in noisy]
    if suffix in ("mp4", "mkv", "webm") and number % 4 == 3:
        steps = np.random.default_rng(number).integers(700, 1300, len(frames)) / rate
        how = {**how, "pts": [0, *accumulate(max(1, int(step)) for step in steps[1:])]}
    path = folder / f"{fault} {number}.{suffix}"
    write(path, len(frames), pictures=frames, size=size, rate=rate, **how)
    shown = np.array(how.get("pts") or [1000 * index / rate for index in range(count + 1)]) / 1000
    start, end = shown[min(at, len(shown) - 1)], shown[min(at + length, len(shown) - 1)]
    return Planted(path, fault, float(start), float(end), max(0.1, 2 / rate) + 1e-3)


def _times(fault: str, count: int, rate: int, at: int, length: int) -> list[float]:
    """The moment of the scene that each frame shows."""
    index = np.arange(count + 1)
    moments = {
        "freeze": np.where(index < at, index, np.maximum(at, index - (length if at % 2 else 0))),
        "jump": np.where(index < at, index, index + round(0.4 * rate)),
        "twos": index // 2 * 2,
        "pulldown": index * 4 // 5,
        "slow": index * 0.2,
        "to and fro": 0.4 * rate * (1 - np.cos(4 * index / rate)),
        "whip": index + 0.8 * rate / (1 + np.exp(-(index - at) / (0.05 * rate))),
        "shake": index + 0.12 * rate * (np.sin(11 * index / rate) + np.sin(23 * index / rate)),
        "rest": np.minimum(index, at) + 6 * (1 - np.exp(-np.maximum(0, index - at) / 6)),
    }.get(fault, index)
    if fault == "freeze":
        moments = np.where((index >= at) & (index < at + length), at, moments)
    only = {"single": 1, "double": 2}.get(fault, count + 1)
    return [float(moment) / rate for moment in moments[:only]]


def _changed(
    fault: str, picture: Any, other: _Scene, index: int, at: int, rate: int, rng: Any
) -> Any:
    """The picture of frame `index` with its fault or trap."""
    height, width = picture.shape
    since, share = index - at, min(1.0, max(0.0, (index - at) / (0.5 * rate)))
    if fault == "noise":
        return rng.uniform(0, 255, picture.shape)
    if fault == "wipe":
        return np.where(np.arange(width) < share * width, other.at(index / rate), picture)
    if fault == "explosion":
        rows, columns = np.mgrid[:height, :width]
        reached = np.hypot(rows - height // 2, columns - width // 2) < 0.1 * since * width
        return picture + 220 * np.exp(-max(0, since) / (0.3 * rate)) * reached * (since >= 0)
    if fault == "caption" and since >= 0:
        picture = picture.copy()
        picture[height * 3 // 4 : height * 5 // 6, width // 6 : -width // 6 : 3] = 240
    if fault == "cut" and since >= 0:
        return other.at(index / rate)
    if fault == "blur" and since >= 0:
        return cv2.GaussianBlur(picture, (0, 0), 0.012 * width + rng.uniform(0, 0.5))
    shift = {
        "brightness": (-28.0 if at % 2 else 24.0) * (since >= 0),
        "flash": 110.0 * (since == 0) + 45.0 * (since == 1),
        "strobe": 70.0 * (since > 0 and since % max(2, rate // 12) == 0),
        "breathing": 10 * np.sin(4 * index / rate),
    }.get(fault, 0.0)
    gain = {"fade in": min(1.0, index / rate), "fade out": 1 - share}.get(fault, 1.0)
    mixed = share if fault == "dissolve" else 0.0
    return (picture + (mixed and mixed * (other.at(index / rate) - picture))) * gain + shift
