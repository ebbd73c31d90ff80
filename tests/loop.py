"""python -m tests.loop [--out assets/intro]

The recording of a real run: one stored example, drawn turn by turn by the page's own scripts, in 10 silent seconds. Writes
light.mp4 and dark.mp4 for the empty page and light.gif for the README.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

import av
from PIL import Image

from tests.support.browser import started
from vrthinker_core.__about__ import ASSETS
from vrthinker_core.traces import load
from vrthinker_core.types.events import Event, Finished, FramesShown, TextArrived, Trace
from vrthinker_core.ui.page import EXAMPLES
from vrthinker_core.ui.routes import VIEW, joined
from vrthinker_core.ui.run import RunState, fold
from vrthinker_core.ui.view import Json, RunView, inline_image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXAMPLE = EXAMPLES / "think-3-equal-at-first-sight"
WIDTH, HEIGHT = 640, 400
RATE = 6  # pictures a second
COLOURS = 96  # of a GIF
CHARACTERS = 60  # of a reply in each picture
HOLD = {FramesShown: 5, Finished: 14}  # pictures for which a step stands still
PAGE = """<!doctype html><html class="vrt-saved"><meta charset="utf-8"><style>{style} body {{ margin: 0; padding: 10px 14px; }}
.vrt-health, .vrt-notes, .vrt-foot {{ display: none; }} ::-webkit-scrollbar {{ display: none; }}</style>
<div id="trace"></div><script>{script}; window.view = new VRThinker.Trace(document.getElementById("trace"), {{}});</script>"""


def main() -> None:
    """Record all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=ASSETS / "intro", help="folder of the recordings"
    )
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    views = list(steps(load(EXAMPLE / "trace.json")))
    with started() as chromium:
        for scheme in ("light", "dark"):
            shots = list(pictures(chromium, scheme, views))
            write_video(out / f"{scheme}.mp4", shots)
            if scheme == "light":
                write_gif(out / "light.gif", shots)
    for path in sorted(out.iterdir()):
        print(path, path.stat().st_size)


def steps(trace: Trace) -> Iterator[tuple[Json, int]]:
    """The run as the page shows it, step by step, and for how many pictures each step stands."""
    events = list(pieces(trace.events()))
    for event, state in zip(
        events, list(accumulate(events, fold, initial=RunState()))[1:], strict=True
    ):
        if state.turns:
            yield RunView(state).page(inline_image), HOLD.get(type(event), 1)


def pieces(events: Iterator[Event]) -> Iterator[Event]:
    """The same events with every text in pieces of CHARACTERS."""
    text = ""
    for event in events:
        if not isinstance(event, TextArrived):
            text = ""
            yield event
            continue
        text += event.text
        while len(text) >= CHARACTERS:
            yield TextArrived(event.turn, text[:CHARACTERS])
            text = text[CHARACTERS:]


def pictures(
    chromium: Browser, scheme: str, views: list[tuple[Json, int]]
) -> Iterator[tuple[bytes, int]]:
    """A PNG of each step: the newest words while the judge writes, the verdict at the end."""
    context = chromium.new_context(
        viewport={"width": WIDTH, "height": HEIGHT},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page: Page = context.new_page()
    style = joined("run.css")
    page.set_content(PAGE.format(style=style, script=joined(*VIEW)))
    for view, count in views:
        top = "0" if view["verdict"] else "document.documentElement.scrollHeight"
        page.evaluate(
            f"view => {{ window.view.update(view); window.scrollTo(0, {top}); }}",
            json.loads(json.dumps(view)),
        )
        page.wait_for_function("[...document.images].every((image) => image.complete)")
        yield page.screenshot(), count
    context.close()


def write_gif(path: Path, shots: Iterable[tuple[bytes, int]]) -> None:
    """The same, where no video plays."""
    images = [Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS) for png, _ in shots]
    times = [count * 1000 // RATE for _, count in shots]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=times, loop=0, optimize=True
    )


def write_video(path: Path, shots: Iterable[tuple[bytes, int]]) -> None:
    """H.264 that every browser plays, without sound."""
    with av.open(str(path), "w", options={"movflags": "faststart"}) as container:
        stream = container.add_stream(
            "libx264", rate=Fraction(RATE), options={"preset": "slow", "crf": "26", "g": "600"}
        )
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for png, count in shots:
            frame = av.VideoFrame.from_image(Image.open(io.BytesIO(png)).convert("RGB"))
            for _ in range(count):
                container.mux(stream.encode(frame.reformat()))
        container.mux(stream.encode())


if __name__ == "__main__":
    main()
