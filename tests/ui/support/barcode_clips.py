"""Clips whose frames show their number as bars, and the script that reads it in a browser."""

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

BITS, BAR = 10, 16
WIDTH, HEIGHT = BITS * BAR, 64

# Seeks a player (when seconds are given), waits until it has, and reads the shown frame's number
READ = f"""async ([selector, seconds]) => {{
  const video = document.querySelector(selector), canvas = document.createElement("canvas");
  const later = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  const drawn = () => new Promise((done) => requestAnimationFrame(done));
  if (seconds !== null) video.currentTime = seconds;
  for (let tries = 0; video.seeking && tries < 600; tries += 1) await later(20);
  await drawn().then(drawn);
  [canvas.width, canvas.height] = [{WIDTH}, {HEIGHT}];
  const context = canvas.getContext("2d");
  context.drawImage(video, 0, 0, {WIDTH}, {HEIGHT});
  let number = 0;
  for (let bit = 0; bit < {BITS}; bit += 1) {{
    const [red] = context.getImageData(bit * {BAR} + {BAR // 2}, {HEIGHT // 2}, 1, 1).data;
    if (red > 128) number += 2 ** bit;
  }}
  return number;
}}"""


def picture(number: int) -> np.ndarray:
    """A frame with `number` in ten bars, the lowest bit on the left."""
    bars = [255 if number >> bit & 1 else 0 for bit in range(BITS)]
    row = np.repeat(np.array(bars, np.uint8), BAR)
    return np.repeat(np.tile(row, (HEIGHT, 1))[:, :, None], 3, axis=2)


def write_bars(path: Path, codec: str, times: Sequence[Fraction]) -> Path:
    """A clip with one frame at each of `times` (seconds), in the container of its suffix."""
    options = {"libx264": {"preset": "veryfast", "crf": "18", "bf": "2"}, "gif": {}}
    options["libvpx-vp9"] = {"deadline": "realtime", "cpu-used": "8"}
    if max(times) > len(times):  # A recorder that pauses stores frames as it shows them
        options["libx264"]["bf"] = "0"
    base = Fraction(1, 100 if codec == "gif" else 12_000)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=24, options=options[codec])
        stream.width, stream.height = WIDTH, HEIGHT
        stream.pix_fmt = "rgb8" if codec == "gif" else "yuv420p"
        stream.codec_context.time_base = base
        for number, seconds in enumerate(times):
            frame = av.VideoFrame.from_ndarray(picture(number), format="rgb24")
            frame.pts, frame.time_base = round(seconds / base), base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def steady(frames: int, rate: int) -> list[Fraction]:
    """Times of a constant frame rate."""
    return [Fraction(number, rate) for number in range(frames)]


def uneven(frames: int) -> list[Fraction]:
    """Times of a frame rate that changes with every frame, between 10 and 60 a second."""
    gaps = [Fraction(1, 10 + (number * 37) % 51) for number in range(frames)]
    return [sum(gaps[:number], Fraction(0)) for number in range(frames)]
