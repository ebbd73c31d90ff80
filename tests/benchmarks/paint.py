"""python -m tests.benchmarks.paint [--quick]

How the page appears in Chromium: how far its parts are moved, when it is usable on slow 4G, and how much it loads.

Visitors with an empty cache open the page of `python app.py`. Layout shift: Chromium's `layout-shift` entries until 3 s after the page is
usable, those without recent input and all; `card`: in the 3 s after a click on the first example. Usable: from the frame in which an
example's card and both upload areas are seen; each reacts as soon as it is there. Slow 4G: 1.6 Mbit/s, 150 ms. The last line is JSON.
"""

import json
import tempfile
from collections import Counter
from contextlib import closing
from itertools import product
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Browser, Request

from tests.benchmarks.tools import benchmark_parser
from tests.support.browser import started
from tests.ui.conftest import Server

SIZES = (1440, 900), (1024, 768), (390, 844)
STATES = {"empty": "", "link": "?trace=think-1-what-four-frames-do-not-show", "card": ""}
SLOW_4G = {"offline": False, "latency": 150, "downloadThroughput": 2e5, "uploadThroughput": 93_750}
WATCH = """
window.shifts = [];
new PerformanceObserver((list) => shifts.push(...list.getEntries())).observe({ type: "layout-shift", buffered: true });
const isSeen = (part) => document.querySelector(part)?.checkVisibility({ visibilityProperty: true });
const isUsable = () => [".vrt-examples", "#first label", "#second label"].every(isSeen);
(function look() { isUsable() ? (window.usable = performance.now() / 1000) : requestAnimationFrame(look); })();
"""


def main() -> None:
    """Run the benchmark."""
    quick = benchmark_parser(__doc__, "one width and one load").parse_args().quick
    shifts: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory() as name,
        started() as browser,
        closing(Server(Path(name), "nano")) as server,
    ):
        for size, state in product(SIZES[: 1 if quick else None], STATES):
            shifts[f"{state} {size[0]}"] = sums = shift(browser, server.url, state, size)
            print(f"{state:5} {size[0]:4}: {sums[0]:.3f} without input, {sums[1]:.3f} in all")
        loads = [load(browser, server.url) for _ in range(1 if quick else 5)]
    for file, count in Counter(loads[-1][1]).most_common():
        print(f"{count:9,} {file[:100]}")
    print(json.dumps({"shifts": shifts, "usable": [round(seconds, 2) for seconds, _ in loads]}))


def readme_row(result: dict[str, Any]) -> str:
    """The result in a sentence for the README's table."""
    most, usable = max(map(max, result["shifts"].values())), median(result["usable"])
    return f"layout shift at most {most:.3f}; usable on slow 4G after {usable:.1f} s"


def shift(browser: Browser, url: str, state: str, size: tuple[int, int]) -> list[float]:
    """The sums of one visit."""
    with browser.new_page(viewport={"width": size[0], "height": size[1]}) as page:
        page.add_init_script(WATCH)
        page.goto(url + STATES[state])
        page.wait_for_function("window.usable")
        page.wait_for_timeout(3000)
        if state == "card":
            page.evaluate("shifts.length = 0")
            page.locator(".vrt-hero .vrt-watch").click()
            page.wait_for_timeout(3000)
        found = page.evaluate("shifts.map(({ hadRecentInput, value }) => [hadRecentInput, value])")
        return [sum(value for by, value in found if not by), sum(value for _, value in found)]


def load(browser: Browser, url: str) -> tuple[float, dict[str, int]]:
    """When one visit on slow 4G is usable, in seconds, and the bytes of each file until 3 s later."""
    requests = list[Request]()
    with browser.new_page(viewport={"width": 1440, "height": 900}) as page:
        page.add_init_script(WATCH)
        page.on("requestfinished", lambda request: requests.append(request))
        page.context.new_cdp_session(page).send("Network.emulateNetworkConditions", SLOW_4G)
        page.goto(url, wait_until="commit")
        usable = page.wait_for_function("window.usable").json_value()
        page.wait_for_timeout(3000)
        files = {each.url.removeprefix(url): each.sizes()["responseBodySize"] for each in requests}
    return usable, files


if __name__ == "__main__":
    main()
