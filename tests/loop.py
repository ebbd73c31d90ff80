"""python -m tests.loop [--out assets/intro]

The recording of a run of the demo judge for the README, played by the page's own scripts: light.gif.
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from tests.support.browser import started
from vrthinker_core.__about__ import ASSETS
from vrthinker_core.traces import load
from vrthinker_core.ui.page import EXAMPLES
from vrthinker_core.ui.routes import VIEW, joined
from vrthinker_core.ui.view import RunView, inline_image

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

EXAMPLE = EXAMPLES / "think-1-what-four-frames-do-not-show"
WIDTH, HEIGHT = 640, 400
RATE = 6  # pictures a second
COLOURS = 96  # of a GIF
HOLD = 3 * RATE  # pictures for which the verdict stands still
PACE = {"MOST": 15}  # seconds of a run
PAGE = """<!doctype html><html class="vrt-saved"><meta charset="utf-8"><style>{style} body {{ margin: 0; padding: 10px 14px; }}
.vrt-health, .vrt-foot, .vrt-playing {{ display: none; }} ::-webkit-scrollbar {{ display: none; }}</style>
<div id="trace"></div><script>{script}; const root = document.getElementById("trace");
const view = new VRThinker.Trace(root, {{}}), replay = new VRThinker.Replay(root, () => {{}});</script>"""
SHOW = f"""(at) => {{ Object.assign(VRThinker.PACE, {json.dumps(PACE)});
    replay.at = at;
    view.update(replay.take(trace));
    window.scrollTo(0, replay.playing ? document.documentElement.scrollHeight : 0);
    return replay.playing; }}"""


def main() -> None:
    """Record all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ASSETS / "intro", help="their folder")
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    with started() as chromium:
        write_gif(out / "light.gif", [*pictures(chromium)])
    for path in sorted(out.iterdir()):
        print(path, path.stat().st_size)


def pictures(chromium: Browser) -> Iterator[tuple[bytes, int]]:
    """PNGs and for how many pictures each stands: the newest words, and at the end the verdict."""
    view = RunView(load(EXAMPLE / "trace.json")).page(inline_image)
    size = {"width": WIDTH, "height": HEIGHT}
    context = chromium.new_context(viewport=size, color_scheme="light")
    page: Page = context.new_page()
    page.set_content(PAGE.format(style=joined("run.css"), script=joined(*VIEW, "live.js")))
    page.evaluate(
        "trace => { window.trace = trace; replay.take(trace); }", json.loads(json.dumps(view))
    )
    for number in count():
        goes_on = page.evaluate(SHOW, number / RATE)
        page.wait_for_function("[...document.images].every((image) => image.complete)")
        yield page.screenshot(), 1 if goes_on else HOLD
        if not goes_on:
            break
    context.close()


def write_gif(path: Path, shots: Iterable[tuple[bytes, int]]) -> None:
    """The same, where no video plays."""
    images = [Image.open(io.BytesIO(png)).convert("RGB").quantize(COLOURS) for png, _ in shots]
    times = [held * 1000 // RATE for _, held in shots]
    images[0].save(
        path, save_all=True, append_images=images[1:], duration=times, loop=0, optimize=True
    )


if __name__ == "__main__":
    main()
