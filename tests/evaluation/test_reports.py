"""Reports of an evaluation and of two judges: each file whole in itself, true to the results, harmless whatever a data set holds."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tests.evaluation.support import made_results as made
from tests.evaluation.support.made_results import failed, outside, result, simulate, verdict
from tests.test_cli import call
from vrthinker_core.commands.evaluation_commands import print_comparison, print_summary
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation import html
from vrthinker_core.evaluation.agreement import compare_judges
from vrthinker_core.evaluation.evaluation_page import MAX_SHOWN, disagreements
from vrthinker_core.evaluation.html import Bar, Cell, element, render_page, sortable_table
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.evaluation.write_report import Evaluation, write_comparison, write_report
from vrthinker_core.results.result import RESULTS, PairResult, RunStart, to_line, write_run
from vrthinker_core.types import Dimension, Settings, wording

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

HOSTILE = "</script></td><img src=x onerror=alert(1)> \"onload='x' [bold]red[/bold] \x1b[31m \x00 \ud800 &lt; ‮ {0} %s"


class ReadPage(HTMLParser):
    """What a browser would find in a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.elements]

    def attributes(self, name: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(name))]

    def links(self) -> list[str]:
        return [link for link in self.attributes("href") if not link.startswith("#")]


def report(folder: Path, results: list[PairResult], data_set: str = "") -> ReadPage:
    written = write_report(folder, summarize(results, made.run_of(data_set)), results)
    return ReadPage(written.read_text("utf-8"))


def comparison(folders: tuple[Path, Path], *results: list[PairResult]) -> ReadPage:
    written, *_ = write_comparison(list(map(Evaluation, folders, results)))
    return ReadPage(written.read_text("utf-8"))


def printed(*results: list[PairResult], width: int = 300) -> str:
    """What a terminal shows of an evaluation, and of its comparison where another is given."""
    terminal = Console(file=(output := io.StringIO()), width=width)
    print_summary(summarize(results[0]), terminal)
    if len(results) > 1:
        print_comparison(compare_judges(*results), terminal)
    return output.getvalue()


def test_text_never_becomes_markup_and_a_page_asks_for_nothing() -> None:
    made = element("td", HOSTILE, title=HOSTILE)
    assert ReadPage(made).names == ["td"]
    assert "\x00" not in made
    assert ElementTree.fromstring(made).text.startswith("</script></td><img")  # type: ignore[union-attr]
    parts = [("First part", element("p", HOSTILE)), ("Nothing", "")]
    page = render_page(HOSTILE, element("p", HOSTILE), parts)
    assert ReadPage(page).names.count("script") == 1
    for text in ("default-src 'none'", 'href="#first-part"', 'id="first-part"'):
        assert text in page
    unwanted = r"""(?:src|href)=["'](?!#)|url\(|@import|Nothing|style="""
    assert not re.findall(unwanted, page), "the policy would refuse it"
    assert page.encode("utf-8")


def test_a_number_has_no_minus_nought() -> None:
    assert html.number(-0.0012, 2) == Cell("0.00", -0.0012)


def test_bars_lie_within_their_plot_and_in_proportion() -> None:
    svg = ElementTree.fromstring(
        html.interval_bars("tau", [Bar("a", 0.25), Bar("b", 0.5), Bar("c", 7.0)])
    )
    bars = [bar.attrib for bar in svg.iter("rect") if bar.attrib["class"] == "bar"]
    assert float(bars[1]["width"]) == pytest.approx(2 * float(bars[0]["width"]), abs=0.02)
    ends = [float(bar.attrib["x"]) + float(bar.attrib["width"]) for bar in svg.iter("rect")]
    assert max(ends) <= html.WIDTH


@pytest.fixture
def page(chromium: Browser) -> Iterator[Page]:
    """A page of a phone, which fails the test where a script or a style is refused, or anything is fetched."""
    opened = chromium.new_page(viewport={"width": 390, "height": 800}, color_scheme="dark")
    complaints, asked = list[str](), list[str]()
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    yield opened
    opened.close()
    assert (complaints, [url for url in asked if not url.endswith(".html")]) == ([], [])


def test_tables_sort_both_ways_and_say_so(page: Page, tmp_path: Path) -> None:
    values = {"b10": 2.0, "b9": None, "a": 10.0, "c": -1.5, "d": 2.04}
    rows = [[name, html.number(value, 1)] for name, value in values.items()]
    table = sortable_table("c", ("name", "value"), rows)
    (tmp_path / "table.html").write_text(render_page("t", "", [("s", table)]), "utf-8")
    page.goto((tmp_path / "table.html").as_uri())
    names, value = page.get_by_role("button").all()
    seen = []
    for button in (value, value, names, names):
        button.click()
        order = [row.inner_text() for row in page.locator("tbody th").all()]
        seen.append((order, page.locator("thead th[aria-sort]").get_attribute("aria-sort")))
    assert seen == [
        (["a", "d", "b10", "c", "b9"], "descending"),
        (["c", "b10", "d", "a", "b9"], "ascending"),
        (["a", "b9", "b10", "c", "d"], "ascending"),
        (["d", "c", "b10", "b9", "a"], "descending"),
    ]


def test_a_report_fits_a_phone_and_a_desk_and_asks_for_nothing(page: Page, tmp_path: Path) -> None:
    rows = simulate(60, 20)
    page.goto(write_report(tmp_path, summarize(rows), rows).as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(15, 15, 15)"
    assert page.locator("svg").count() >= 10
    page.set_viewport_size({"width": 1280, "height": 900})
    cut = "[...document.querySelectorAll('.scroll:not(.tall)')].filter((part) => part.scrollWidth > part.clientWidth)"
    assert page.evaluate(f"{cut}.length") == 0


def hostile(rows: list[PairResult]) -> list[PairResult]:
    """The rows with such texts wherever a data set, a judge or a file may bring one."""
    texts = {"judge": HOSTILE, "error": HOSTILE, "trace": f"traces/{HOSTILE}.json"}
    pairs = [replace(row.pair, prompt=HOSTILE, first_generator=HOSTILE) for row in rows]
    return [replace(row, pair=pair, **texts) for row, pair in zip(rows, pairs, strict=True)]


def test_nothing_in_a_data_set_becomes_markup(tmp_path: Path) -> None:
    rows = [*hostile(simulate(60, 9)), failed(99, "1", HOSTILE)]
    page = report(tmp_path, rows, HOSTILE)
    other = comparison((tmp_path, tmp_path), rows, hostile(simulate(60, 9, seed=1)))
    for svg in re.findall("<svg.*?</svg>", (tmp_path / "report.html").read_text("utf-8"), re.S):
        ElementTree.fromstring(svg)
    for each in (page, other):
        assert "img" not in each.names
        assert each.names.count("script") == 1
        assert not [name for _, found in each.elements for name in found if name.startswith("on")]
        assert (each.attributes("src"), each.attributes("style")) == ([], [])
    assert any("</script></td><img src=x" in text for text in page.texts)
    for link in page.attributes("href"):
        assert re.fullmatch(r"#[\w-]+|traces/[\w%./~-]+", link), link
    assert "\x00" not in (tmp_path / "report.html").read_text("utf-8")
    assert not set("\x00\x1b") & set(printed(rows))
    rows = [replace(row, judge="[bold]j[/bold]") for row in rows]
    assert printed(rows, rows).count("[bold]j[/bold]") >= 2, "a terminal shows text"


@pytest.mark.parametrize("trace", ["javascript:alert(1)", "//example.org/x", "https://a.org"])
def test_a_trace_that_is_named_like_an_address_is_a_file(trace: str, tmp_path: Path) -> None:
    page = report(tmp_path, [result(1, "1", "2", trace=trace)])
    [link] = page.links()
    assert ":" not in link
    assert not link.startswith("/")
    assert unquote(link) == trace.lstrip("/")


def test_the_figures_of_page_json_and_terminal_are_those_of_the_summary(tmp_path: Path) -> None:
    rows = simulate(150, 50)
    summary, terminal = summarize(rows), printed(rows)
    page, told = report(tmp_path, rows), json.loads((tmp_path / "report.json").read_text("utf-8"))
    for found, written in zip(summary.agreement, told["summary"]["agreement"], strict=True):
        assert written["tau"]["value"] == found.tau.value
        assert any(f"{100 * found.tau.value:.1f} %" in text for text in page.texts)
        assert f"{100 * found.tau.value:.1f} (" in terminal
    assert told["format"] == "vr-thinker-report/1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]
    assert told["summary"]["counts"]["pairs"] == summary.counts.pairs


def test_the_surest_disagreement_comes_first() -> None:
    def sure(share: float) -> dict[Dimension, tuple[float, float, float]]:
        return {Dimension.OA: (0.0, 1 - share, share)}

    rows = [
        *(result(1, "1", "0"), result(2, "1", "2")),
        *(result(n, "1", "2", confidence=level) for n, level in ((3, 2), (4, 5))),
        *(result(n, "1", "2", probabilities=sure(share)) for n, share in ((5, 0.6), (6, 0.9))),
        result(7, "1", "1", probabilities=sure(0.1)),
        *(result(8, "1", None), failed(9, "1"), result(10, "-", "1")),
    ]
    for order in (rows, rows[::-1]):
        assert [each.row for each in disagreements(order, Dimension.OA)] == [6, 5, 4, 3, 2, 1]


def cells(page: ReadPage, row: int) -> list[str]:
    """The texts of a row of a table, from its number on."""
    start = page.texts.index(str(row), page.texts.index("Disagreements with people"))
    return page.texts[start : start + 12]


def test_a_flip_shows_no_winner_and_a_score_keeps_the_first_label(tmp_path: Path) -> None:
    rows = [
        result(11, "1111", "1222", swapped=verdict("2201")),
        result(12, "1", "2", swapped=verdict("2")),
        result(13, "1", "1", swapped=verdict("2")),
    ]
    page = report(tmp_path, rows)
    flips = ["flips", " TA flips, MQ 2, VQ 2"]  # A tie in one order is none
    assert cells(page, 11)[1:6] == ["prompt 11", "1", " TA 1, MQ 1, VQ 1", *flips]
    assert cells(page, 12)[2:4] == ["1", "2"]
    assert any(wording.NO_RELIABLE_WINNER in text for text in page.texts)
    told = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert [each["flips"] for each in told["disagreements"]["worst"]] == [["TA", "OA"], []]
    (overall,) = (each for each in summarize(rows).agreement if each.dimension is Dimension.OA)
    assert (overall.tau.value, summarize(rows).swap[-1].flips) == (1 / 3, 2 / 3)
    other = [replace(row, judge="other", swapped=None, verdict=verdict("1")) for row in rows]
    shown = comparison((tmp_path, tmp_path), rows, other).texts
    assert "flips" in shown
    assert any(wording.NO_RELIABLE_WINNER in text for text in shown)


@pytest.mark.parametrize("swapped", [False, True])
def test_that_nothing_was_tested_in_both_orders_is_said_once(tmp_path: Path, swapped: bool) -> None:
    rows = [
        result(n, "1", "2", swapped=verdict("2") if swapped and n == 3 else None) for n in range(5)
    ]
    other = [replace(row, judge="other", swapped=None) for row in rows]
    pages = report(tmp_path, rows), comparison((tmp_path, tmp_path), rows, other)
    for text in (printed(rows), *(" ".join(page.texts) for page in pages)):
        assert text.count(wording.NOT_SWAP_TESTED) == (0 if swapped else 1)
    silent = [failed(1, "1"), result(2, "1", None)]
    assert wording.NOT_SWAP_TESTED not in " ".join(report(tmp_path, silent).texts)


def test_a_probability_is_told_where_it_tells_something(tmp_path: Path) -> None:
    rows = [
        result(n, "1", "2", probabilities={Dimension.OA: (0.0, 1 - p, p)})
        for n, p in ((21, 0.899), (22, 0.9), (23, 0.9999))
    ]
    page = report(tmp_path, rows)
    assert [cells(page, row)[4] for row in (23, 22, 21)] == ["high", "high", "89.9 %"]


def test_what_a_judge_cannot_judge_is_a_failure_with_that_reason(tmp_path: Path) -> None:
    rows = [outside(n, "1110") for n in range(31, 34)]
    rows += [result(34, "1110", "1110"), failed(35, "1110")]
    summary, page = summarize(rows), report(tmp_path, rows)
    counts = summary.counts
    assert (counts.pairs, counts.answered, counts.unanswered, counts.failed) == (5, 1, 0, 4)
    for text in (" ".join(page.texts), printed(rows)):
        assert f"4 failed ({wording.DEMO_RUN}: 3; BackendFailed: 1)" in text
    assert page.texts.count(wording.DEMO_RUN) == 3, "a row of what was not judged"
    (overall,) = (each for each in summary.agreement if each.dimension is Dimension.OA)
    ties = overall.confusion[0]
    assert ties == (1, 0, 0, 4), "people's: a judge that cannot say gave no tie"
    assert (overall.answered, overall.tau.value) == (1, 0.2)
    assert disagreements(rows, Dimension.OA) == []


def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    rows = [result(n, "1", "2", trace=f"traces/{n}.json") for n in range(MAX_SHOWN + 20)]
    page = report(tmp_path, rows)
    assert any(f"The first {MAX_SHOWN} of {len(rows):,} pairs" in text for text in page.texts)
    assert sum(link.startswith("traces/") for link in page.attributes("href")) == MAX_SHOWN
    told = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert told["disagreements"]["pairs"] == len(rows)


SMALLEST = [
    *(made.broken(1, "1"), made.left_out(1), failed(1, "1"), result(1, "-", "1111")),
    *(result(1, "1", "1"), result(1, "0", "-"), result(1, "0", "0", turns=0, seconds=1e9)),
]


@pytest.mark.parametrize("row", SMALLEST)
def test_the_smallest_evaluations_have_a_report_too(row: PairResult, tmp_path: Path) -> None:
    page = report(tmp_path, [row], "genai-bench")
    texts = [text for text in page.texts if "function" not in text and "color-scheme" not in text]
    assert not [text for text in texts if re.search("nan|None|inf", text)]
    printed([row])


def test_how_a_judge_compares_with_a_constant_answer_is_told(tmp_path: Path) -> None:
    even = [result(n, "0" if n % 10 else "1", "1" if n % 20 in (0, 5) else "0") for n in range(60)]
    worse = [result(n, "1", "1" if n % 6 == 0 else "2") for n in range(60)]
    no_better, below = (" ".join(report(tmp_path, rows).texts) for rows in (even, worse))
    assert "not clearly better than “always tie”" in no_better
    assert "On these pairs that is clearly worse than “always 1”." in below
    assert "not clearly better" not in below


def test_published_numbers_stand_beside_the_whole_set(tmp_path: Path) -> None:
    rows = [result(n, "1", "1", prompt="one") for n in range(1069)]
    texts = " ".join(report(tmp_path, rows, "genai-bench").texts)
    assert "UnifiedReward-Think 7B" in texts
    assert "does not say which one" in texts


def test_tables_fit_a_terminal() -> None:
    lines = printed(simulate(400, 90), simulate(400, 90, seed=1), width=80).splitlines()
    assert sum(line.startswith(("TA ", "MQ ", "VQ ", "OA ")) for line in lines) == 4 + 8


def test_a_comparison_links_both_traces(tmp_path: Path) -> None:
    folders = tmp_path / "first", tmp_path / "second run"
    for folder in folders:
        folder.mkdir()
    page = comparison(folders, *([result(1, "1", said, trace="traces/1.json")] for said in "12"))
    assert page.links() == ["traces/1.json", "../second%20run/traces/1.json"]
    told = json.loads((folders[0] / "comparison.json").read_text("utf-8"))
    assert told["comparisons"][0]["judges"] == ["a judge in first", "a judge in second run"]
    assert told["comparisons"][0]["shared"] == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    rows = [result(1, "1", "1")]
    with pytest.raises(BadInput, match="Cannot write"):
        write_report(tmp_path / "none", summarize(rows), rows)


def keep(folder: Path, results: list[PairResult]) -> Path:
    folder.mkdir()
    (folder / RESULTS).write_bytes(b"".join(map(to_line, results)))
    return folder


def test_one_folder_gives_a_report_in_which_a_pair_judged_again_counts_once(tmp_path: Path) -> None:
    rows = simulate(60, 20)
    folder = keep(tmp_path / "run", [*simulate(60, 20, seed=1), *rows])
    write_run(folder, made.run_of("genai-bench"))
    code, out, error = call("report", folder)
    assert (code, error) == (0, "")
    assert "compared with “always tie”" in " ".join(out.split())
    assert str(folder / "report.html") in out.replace("\n", "")
    told = json.loads((folder / "report.json").read_text("utf-8"))["summary"]
    kept = asdict(summarize(rows, made.run_of("genai-bench")))
    assert told == json.loads(json.dumps(kept)), "what was kept says what was judged"


def test_two_folders_give_a_comparison(tmp_path: Path) -> None:
    folders = [keep(tmp_path / name, simulate(60, 20, name=name)) for name in ("one", "two")]
    code, out, error = call("report", *folders)
    assert (code, error) == (0, "")
    assert "McNemar" in out
    assert [(folder / "comparison.html").is_file() for folder in folders] == [True, False]


def test_several_folders_stand_side_by_side_with_the_setting_that_differs(tmp_path: Path) -> None:
    folders, rows = [], [row for row in simulate(60, 20) if row.judged]
    for window in (None, 1, 2):
        own = [replace(row, left_view=window == 1) for row in rows[window or 0 :]]
        folders.append(keep(tmp_path / str(window), own))
        starts = (RunStart("", "local", 8, None, judged=50, seconds=25.0 * (window or 1)),)
        write_run(folders[-1], made.run_of("csv", settings=Settings(window=window), starts=starts))
    code, out, error = call("report", *folders)
    assert (code, error, out.count("McNemar")) == (0, "", 2)
    page = ReadPage((folders[0] / "comparison.html").read_text("utf-8")).texts

    def row(head: str) -> list[str]:
        return page[(place := page.index(head)) + 1 : place + 4]

    shared = f"on {len(rows) - 2} shared pairs"
    assert row(shared) == [f"a judge, window {window}" for window in ("own", 1, 2)]
    tau = f"{100 * summarize(rows[2:]).agreement[-1].tau.value:.1f} % ("
    assert all(each.startswith(tau) for each in row("tau, overall"))
    assert row("pairs an hour") == ["7,200", "7,200", "3,600"]
    left = row("runs in which frames had left the view")
    assert [each.partition(" %")[0] for each in left] == ["0.0", "100.0", "0.0"]


@pytest.mark.parametrize(
    ("content", "said"), [(None, "holds no results.jsonl"), (b"", "no result"), (b"{}\n", "Line 1")]
)
def test_no_evaluation_is_one_sentence(content: bytes | None, said: str, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / RESULTS).write_bytes(content)
    code, out, error = call("report", tmp_path)
    assert (code, out) == (2, "")
    assert said in error
    assert error.count("\n") == 1
