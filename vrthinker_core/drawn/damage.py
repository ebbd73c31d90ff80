"""What happens to a picture on its way to a judge: the file's size, its codec, resizing.

Wear is no fault: both videos of a pair have the same. JPEG stands in for the video codec, which
takes ten times as long; now and then it is H.264 itself.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import av
import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vrthinker_core.drawn.textures import Pixels

REFERENCE_SIDE = 112
"""Pixels per side at which the built-in judge sees a picture. Damage scales with the picture."""
FAINTEST = -0.5  # The lowest strength of damage; plain faults run from 0 to 1


def _blurry(picture: Pixels, strength: float, *_: object) -> Pixels:
    sigma = (1.6 + 1.6 * strength) * picture.shape[1] / REFERENCE_SIDE
    return _pixels(cv2.GaussianBlur(picture, (0, 0), sigma))


def add_noise(
    picture: Pixels, strength: float, rng: np.random.Generator, grain: int = REFERENCE_SIDE
) -> Pixels:
    """Add noise with `grain` grains a side.

    Noise finer than REFERENCE_SIDE fades when the picture is shrunk for the judge.
    """
    grains = rng.standard_normal((grain, grain, 3), np.float32) * np.float32(22 + 22 * strength)
    height, width = picture.shape[:2]
    fitting = cv2.INTER_NEAREST if grain <= min(height, width) else cv2.INTER_AREA
    return _pixels(picture + cv2.resize(grains, (width, height), interpolation=fitting))


def _blocky(picture: Pixels, strength: float, *_: object) -> Pixels:
    blocks = 26 if strength < 0 else 18 if strength < 0.5 else 14
    height, width = picture.shape[:2]
    small = cv2.resize(picture, (blocks, blocks), interpolation=cv2.INTER_AREA)
    return _pixels(cv2.resize(small, (width, height), interpolation=cv2.INTER_NEAREST))


def _dark(picture: Pixels, strength: float, *_: object) -> Pixels:
    return _pixels(picture * np.float32(0.38 - 0.12 * strength))


def _bright(picture: Pixels, strength: float, *_: object) -> Pixels:
    return _pixels(picture * np.float32(1.25 + 0.15 * strength) + 45 + 30 * min(strength, 0))


def _banded(picture: Pixels, strength: float, *_: object) -> Pixels:
    levels = 5 if strength < 0 else 4 if strength < 0.5 else 3
    return _pixels(np.floor(picture * np.float32(levels / 256)) * np.float32(255 / (levels - 1)))


def _pixels(values: NDArray[Any]) -> Pixels:
    clipped: Pixels = np.clip(values, 0, 255).astype(np.uint8)
    return clipped


# Each takes picture, strength, random numbers and grains a side
DAMAGES: dict[str, Callable[[Pixels, float, np.random.Generator, int], Pixels]] = {
    "blurry": _blurry,
    "noisy": add_noise,
    "blocky": _blocky,
    "dark": _dark,
    "bright": _bright,
    "banded": _banded,
}


# Pixels of a file's shorter side (from, below), share of such files, and the worst JPEG quality:
# its damage must stay smaller than the faintest fault
SIZES = ((112, 160, 0.5, 62), (160, 240, 0.34, 48), (240, 360, 0.12, 34), (480, 720, 0.04, 28))
STRETCHES = (1.0, 1.0, 4 / 3, 16 / 9, 9 / 16)  # Width by height of files
# Quality differs from frame to frame, so that two frames of the same content differ, too
_UNEVEN = (0, -2, 3, -4, 2, -1, 4, -3, 1)


@dataclass(frozen=True, slots=True)
class CodecNoise:
    """One file's size and codec."""

    width: int
    height: int
    quality: int  # JPEG's, or H.264's constant rate factor
    h264: bool = False
    drawn: int = 112  # Pixels per side of the drawn scene; a larger one has smoother edges

    def apply(self, draw: Callable[[int], Pixels], index: int, size: int) -> Pixels:
        """Return frame `index` for a judge, RGB [size, size, 3].

        `draw` gives the file's frames.
        """

        def scaled(number: int) -> Pixels:
            return scale_picture(draw(number), self.width, self.height)

        if self.h264:
            burst = [scaled(number) for number in range(max(0, index - 1), index + 1)]
            coded = code_h264(burst, self.quality)[-1]
        else:
            coded = code_jpeg(scaled(index), self.quality + _UNEVEN[index % len(_UNEVEN)])
        return as_the_judge_sees(coded, size)


def draw_codec_noise(rng: np.random.Generator, h264: float) -> CodecNoise:
    """Return a random size and codec; `h264` is the share of H.264."""
    kind = int(rng.choice(len(SIZES), p=[share for _, _, share, _ in SIZES]))
    least, most, _, worst = SIZES[kind]
    shorter, stretch = int(rng.integers(least, most)), float(rng.choice(STRETCHES))
    # Even, as codecs need them
    width, height = (2 * round(shorter * max(1.0, ratio) / 2) for ratio in (stretch, 1 / stretch))
    drawn = 168 if rng.random() < 0.15 else 112
    coded = rng.random() < h264 and kind < 2
    quality = int(rng.integers(18, 33) if coded else rng.integers(worst, 96))
    return CodecNoise(width, height, quality, h264=coded, drawn=drawn)


def code_jpeg(picture: Pixels, quality: int) -> Pixels:
    """Return the picture, RGB [h, w, 3], after JPEG of quality 1 to 100."""
    bgr = cv2.cvtColor(picture, cv2.COLOR_RGB2BGR)
    _, data = cv2.imencode(".jpg", bgr, [cv2.IMWRITE_JPEG_QUALITY, quality])
    decoded = cv2.imdecode(data, cv2.IMREAD_COLOR)
    assert decoded is not None
    return np.asarray(cv2.cvtColor(decoded, cv2.COLOR_BGR2RGB), np.uint8)


def code_h264(pictures: list[Pixels], crf: int) -> list[Pixels]:
    """Return pictures, RGB [h, w, 3] with even sides, after H.264.

    `crf` is the constant rate factor.
    """
    height, width = pictures[0].shape[:2]
    encoder = av.CodecContext.create("libx264", "w")
    encoder.width, encoder.height, encoder.pix_fmt = width, height, "yuv420p"
    encoder.time_base, encoder.thread_count = Fraction(1, 24), 1
    encoder.options = {"crf": str(crf), "preset": "veryfast", "tune": "zerolatency"}
    decoder = av.CodecContext.create("h264", "r")
    decoder.thread_count = 1
    shown = [av.VideoFrame.from_ndarray(picture, format="rgb24") for picture in pictures]
    packets = [packet for picture in (*shown, None) for packet in encoder.encode(picture)]
    frames = [frame for packet in (*packets, None) for frame in decoder.decode(packet)]
    return [np.asarray(frame.to_ndarray(format="rgb24"), np.uint8) for frame in frames]


def as_the_judge_sees(picture: Pixels, size: int) -> Pixels:
    """Return a file's picture for a judge of `size` pixels a side.

    The product resizes to 448 x 448 first. Resizing at once gives nearly the same, far faster.
    """
    if picture.shape[:2] == (size, size):
        return picture
    image = Image.fromarray(picture)
    return np.asarray(image.resize((size, size), Image.Resampling.BICUBIC, reducing_gap=2))


def scale_picture(picture: Pixels, width: int, height: int) -> Pixels:
    """Return the picture at another size, RGB [height, width, 3]."""
    if picture.shape[:2] == (height, width):
        return picture
    interpolation = cv2.INTER_AREA if width < picture.shape[1] else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, (width, height), interpolation=interpolation), np.uint8)
