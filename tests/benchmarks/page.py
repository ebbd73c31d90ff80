"""python -m tests.benchmarks.page [--quick]

How fast a saved run of six turns opens on the page, and how much a live run sends.

Both in Chromium. The saved run has twelve pairs a turn. The bytes of the answer that opens it are counted, and those of the updates
of a live run (pictures apart), and how often each picture is named and fetched. `--quick` opens the saved run once in place of five
times. The last line is JSON.
"""

from __future__ import annotations

import json
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.tools import benchmark_parser
from tests.support.browser import started
from tests.support.small_clips import write_clip
from tests.ui.conftest import DESKTOP, Server, write_script
from tests.ui.support import handmade_runs
from tests.ui.support.saved_examples import ANSWER, ask
from tests.ui.support.steps import fill, wait_for_judge
from vrthinker_core.traces import to_json
from vrthinker_core.types.events import Finished, StopReason, Trace

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TURNS, PAIRS = 6, 12
PICTURE = re.compile(r"frames/[0-9a-f]{24}/[0-9a-f]+\.jpg")
DRAWN = "[...document.querySelectorAll('.vrt-tile img')].length === %d"
RECORD = """(() => {
  const fetch = window.fetch;
  window.received = [];
  window.fetch = async (...request) => {
    const response = await fetch(...request);
    if (!String(request[0].url || request[0]).includes("queue/data")) return response;
    const reader = response.clone().body.pipeThrough(new TextDecoderStream()).getReader();
    const read = ({ value, done }) => done || (window.received.push(value), reader.read().then(read));
    reader.read().then(read).catch(() => {}); // the page ends it once it has what it waits for
    return response;
  };
})()"""
"""Keeps the text of the page's updates as it comes."""
LOADED = "[...document.querySelectorAll('.vrt-tile img')].every((image) => image.complete && image.naturalWidth > 0)"


def main() -> None:
    """Run the benchmark."""
    parser = benchmark_parser(__doc__, "open the saved run once")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, started() as chromium:
        result = measure(Path(name), chromium, 1 if options.quick else 5)
    print(
        "promised: a saved run opens in less than 1 s from less than 100,000 bytes, a live run streams less than 100,000 bytes, "
        "and each frame is sent and each picture fetched once"
    )
    print(json.dumps(result))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    return (
        f"opens in {result['open_seconds']:.2f} s from {result['open_bytes']:,} bytes, "
        f"all pictures loaded in {result['loaded_seconds']:.2f} s; "
        f"a live run of {result['streamed_pairs']} pairs streams {result['stream_bytes']:,} bytes of updates "
        f"(mentions of a frame: {result['sent_per_frame']:.2f}, fetches of a picture: at most {result['fetched_at_most']})"
    )


def measure(folder: Path, chromium: Browser, times: int) -> dict[str, float]:
    """Open a saved run `times` times, and follow a live run."""
    example = folder / "examples" / "long"
    example.mkdir(parents=True)
    (example / "trace.json").write_bytes(to_json(long_run()))
    requested = [tuple(range(start, 128, 11)) for start in range(TURNS - 1)]
    replies = [*(ask(*slots) for slots in requested), ANSWER]
    script = write_script(folder / "script.jsonl", replies, protocol="paired", pause=0.002)
    server = Server(folder, script, "--examples", str(folder / "examples"))
    try:
        openings = [open_saved_run(chromium, server) for _ in range(times)]
        streamed = follow_live_run(chromium, server, folder)
    finally:
        server.stop()
    drawn, loaded, sent = zip(*openings, strict=True)
    both = (("open_seconds", drawn), ("loaded_seconds", loaded))
    opened = {name: round(statistics.median(seconds), 3) for name, seconds in both}
    return {**opened, "open_bytes": max(sent), **streamed}


def long_run() -> Trace:
    """A finished run of six turns with twelve pairs each."""
    slots = [range(turn, 128, 11)[:PAIRS] for turn in range(TURNS)]
    shown = [handmade_runs.pairs(each) for each in slots]
    turns = [handmade_runs.asking(n, shown[n - 1], slots[n]) for n in range(1, TURNS)]
    turns.append(handmade_runs.answering(TURNS, shown[-1]))
    end = Finished(StopReason.ANSWERED, handmade_runs.WHOLE)
    return Trace(handmade_runs.started(), tuple(turns), end)


def open_saved_run(chromium: Browser, server: Server) -> tuple[float, float, int]:
    """Seconds from the click on an example until its tiles are drawn, and until their pictures are there; bytes of the answer."""
    page = open_recorded(chromium, server)
    page.wait_for_selector(".vrt-card")
    started = time.perf_counter()
    page.locator(".vrt-card").click()
    page.get_by_role("button", name="Skip to the end").click()
    page.wait_for_function(DRAWN % (2 * TURNS * PAIRS))
    drawn = time.perf_counter() - started
    load = "document.querySelectorAll('.vrt-tile img').forEach((image) => { image.loading = 'eager'; })"
    page.evaluate(load)
    page.wait_for_function(f"{DRAWN % (2 * TURNS * PAIRS)} && {LOADED}")
    loaded = time.perf_counter() - started
    sent = len(received(page).encode())
    page.context.close()
    return drawn, loaded, sent


def open_recorded(chromium: Browser, server: Server) -> Page:
    """The page, opened; what the server sends it from now on is recorded."""
    page = chromium.new_context(**DESKTOP).new_page()
    page.add_init_script(RECORD)
    page.goto(server.url)
    wait_for_judge(page)
    page.evaluate("window.received.length = 0")
    return page


def received(page: Page) -> str:
    """All updates up to the last one, which Gradio sends twice."""
    page.wait_for_function("window.received.join('').includes('process_completed')")
    page.wait_for_timeout(500)
    return str(page.evaluate("window.received.join('')"))


def follow_live_run(chromium: Browser, server: Server, folder: Path) -> dict[str, float]:
    """Compare two clips: bytes of the whole stream, how often an update names each frame, and how often a picture is fetched."""
    page = open_recorded(chromium, server)
    clips = ((folder / "first.mp4", 0), (folder / "second.mp4", 60))
    fill(page, [write_clip(path, frames=128, hue=hue) for path, hue in clips])
    fetched: Counter[str] = Counter()
    page.evaluate("window.received.length = 0")
    page.on("request", lambda request: fetched.update(PICTURE.findall(request.url)))
    page.locator("#go").click()
    page.wait_for_selector(".vrt-headline", timeout=120_000)
    pairs = page.locator(".vrt-tile").count()
    stream = received(page)
    page.context.close()
    updates = [line for line in stream.splitlines() if '"process_generating"' in line]
    named = sum(len(PICTURE.findall(line)) for line in updates)
    return {
        "stream_bytes": len(stream.encode()), "streamed_pairs": pairs,
        "sent_per_frame": round(named / (2 * pairs), 2), "fetched_at_most": max(fetched.values()),
    }  # fmt: skip


if __name__ == "__main__":
    main()
