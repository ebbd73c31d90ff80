"""The report of an evaluation and of two judges: whole in itself, true to the results, and harmless whatever a data set holds."""

from __future__ import annotations

import io
import json
import random
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from rich.console import Console

from tests.evaluation.support.made_results import (
    broken,
    failed,
    left_out,
    outside,
    result,
    simulate,
    verdict,
)
from vrthinker_core.commands.evaluation_commands import print_comparison, print_summary
from vrthinker_core.errors import BadInput
from vrthinker_core.evaluation.agreement import compare_judges
from vrthinker_core.evaluation.pair_tables import MAX_SHOWN, disagreements
from vrthinker_core.evaluation.summary import summarize
from vrthinker_core.evaluation.write_report import write_comparison, write_report
from vrthinker_core.results.result import PairResult
from vrthinker_core.types import Dimension
from vrthinker_core.types.wording import (
    DEMO_RUN,
    NO_RELIABLE_WINNER,
    NOT_SWAP_TESTED,
    OUTSIDE_SCOPE,
)

HOSTILE = "</script></td><img src=x onerror=alert(1)> [bold]red[/bold] \x1b[31m \x00 \ud800 ‮ {0} %s"


class Page(HTMLParser):
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

    def attributes(self, name: str) -> list[str]:
        return [value for _, attributes in self.elements if (value := attributes.get(name))]

    def links(self) -> list[str]:
        return [link for link in self.attributes("href") if not link.startswith("#")]


def report(folder: Path, results: list[PairResult], data_set: str = "") -> Page:
    written = write_report(folder, summarize(results, data_set=data_set), results)
    return Page(written.read_text("utf-8"))


def comparison(folders: tuple[Path, Path], *results: list[PairResult]) -> Page:
    written, _ = write_comparison(folders, *results)
    return Page(written.read_text("utf-8"))


def printed(*results: list[PairResult], width: int = 300) -> str:
    """What a terminal shows of an evaluation, and of its comparison where another is given."""
    terminal = Console(file=(output := io.StringIO()), width=width)
    print_summary(summarize(results[0]), terminal)
    if len(results) > 1:
        print_comparison(compare_judges(*results), terminal)
    return output.getvalue()


def with_prompt(rows: list[PairResult], prompt: str) -> list[PairResult]:
    return [
        replace(row, pair=replace(row.pair, prompt=prompt, first_generator=prompt)) for row in rows
    ]


def test_a_report_asks_for_nothing_but_the_traces_beside_it(tmp_path: Path) -> None:
    page = report(tmp_path, simulate(120, 40))
    assert page.links()
    assert all(re.fullmatch(r"traces/id\d{6}\.json", link) for link in page.links())
    assert page.attributes("src") == []
    assert page.attributes("style") == [], "the policy would refuse it"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_nothing_in_a_data_set_becomes_markup(tmp_path: Path) -> None:
    rows = [
        replace(row, judge=HOSTILE, error=HOSTILE, trace=f"traces/{HOSTILE}.json")
        for row in with_prompt(simulate(60, 9), HOSTILE)
    ]
    rows.append(failed(99, "1", HOSTILE))
    page = report(tmp_path, rows, HOSTILE)
    names = {name for name, _ in page.elements}
    assert "img" not in names
    assert sum(name == "script" for name, _ in page.elements) == 1
    assert not {name for name in page.elements if any(key.startswith("on") for key in name[1])}
    assert any("</script></td><img src=x" in text for text in page.texts)
    for link in page.attributes("href"):
        assert re.fullmatch(r"#[\w-]+|traces/[\w%./~-]+", link), link
    assert "\x00" not in (tmp_path / "report.html").read_text("utf-8")
    assert not set("\x00\x1b") & set(printed(rows))


@pytest.mark.parametrize(
    "trace", ["javascript:alert(1)", "//example.org/x.json", "https://example.org"]
)
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
    assert told["summary"]["counts"]["pairs"] == summary.counts.pairs


def test_equal_results_give_equal_files_whatever_their_order(tmp_path: Path) -> None:
    rows = simulate(90, 30)
    for name, order in (("one", rows), ("other", random.Random(2).sample(rows, len(rows)))):
        (tmp_path / name).mkdir()
        report(tmp_path / name, order)
    for file in ("report.html", "report.json"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "other" / file).read_bytes()


def test_the_surest_disagreement_comes_first() -> None:
    def sure(share: float) -> dict[Dimension, tuple[float, float, float]]:
        return {Dimension.OA: (0.0, 1 - share, share)}

    rows = [
        result(1, "1", "0"),
        result(2, "1", "2"),
        result(3, "1", "2", confidence=2),
        result(4, "1", "2", confidence=5),
        result(5, "1", "2", probabilities=sure(0.6)),
        result(6, "1", "2", probabilities=sure(0.9)),
        result(7, "1", "1", probabilities=sure(0.1)),
        result(8, "1", None),
        failed(9, "1"),
        result(10, "-", "1"),
    ]
    for order in (rows, rows[::-1]):
        assert [each.row for each in disagreements(order, Dimension.OA)] == [6, 5, 4, 3, 2, 1]


def cells(page: Page, row: int) -> list[str]:
    """The texts of a row of a table, from its number on."""
    start = page.texts.index(str(row), page.texts.index("Disagreements with people"))
    return page.texts[start : start + 12]


def test_a_flip_shows_no_winner_and_a_score_keeps_the_first_label(tmp_path: Path) -> None:
    rows = [
        result(11, "1111", "1222", swapped=verdict("2201")),
        result(12, "1", "2", swapped=verdict("2")),
        result(13, "1", "1", swapped=verdict("2")),
    ]
    page, other = (
        report(tmp_path, rows),
        [replace(row, judge="other", swapped=None) for row in rows],
    )
    assert cells(page, 11)[1:5] == ["prompt 11", "1", " TA 1, MQ 1, VQ 1", "flips"], (
        "the other video when swapped"
    )
    assert cells(page, 11)[5] == " TA flips, MQ 2, VQ 2", "a tie in one order is none"
    assert cells(page, 12)[2:4] == ["1", "2"]
    assert any(NO_RELIABLE_WINNER in text for text in page.texts)
    told = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert [each["flips"] for each in told["disagreements"]["worst"]] == [["TA", "OA"], []]
    (overall,) = (each for each in summarize(rows).agreement if each.dimension is Dimension.OA)
    assert (overall.tau.value, summarize(rows).swap[-1].flips) == (1 / 3, 2 / 3)
    other = [replace(row, verdict=verdict("1")) for row in other]
    shown = comparison((tmp_path, tmp_path), rows, other).texts
    assert "flips" in shown
    assert any(NO_RELIABLE_WINNER in text for text in shown)


@pytest.mark.parametrize("swapped", [False, True])
def test_that_nothing_was_tested_in_both_orders_is_said_once(tmp_path: Path, swapped: bool) -> None:
    rows = [
        result(n, "1", "2", swapped=verdict("2") if swapped and n == 3 else None) for n in range(5)
    ]
    other = [replace(row, judge="other", swapped=None) for row in rows]
    pages = report(tmp_path, rows), comparison((tmp_path, tmp_path), rows, other)
    for text in (printed(rows), *(" ".join(page.texts) for page in pages)):
        assert text.count(NOT_SWAP_TESTED) == (0 if swapped else 1)
    silent = [failed(1, "1"), result(2, "1", None)]
    assert NOT_SWAP_TESTED not in " ".join(report(tmp_path, silent).texts), "there is no verdict"


def test_a_probability_is_told_where_it_tells_something(tmp_path: Path) -> None:
    rows = [
        result(n, "1", "2", probabilities={Dimension.OA: (0.0, 1 - p, p)})
        for n, p in ((21, 0.899), (22, 0.9), (23, 0.9999))
    ]
    page = report(tmp_path, rows)
    assert [cells(page, row)[4] for row in (23, 22, 21)] == ["high", "high", "89.9 %"]
    assert page.texts.index("23") < page.texts.index("22") < page.texts.index("21"), (
        "the surest comes first"
    )


def test_what_a_judge_cannot_judge_is_a_failure_with_that_reason(tmp_path: Path) -> None:
    rows = [outside(n, "1110") for n in range(31, 34)] + [
        result(34, "1110", "1110"),
        failed(35, "1110"),
    ]
    summary, page = summarize(rows), report(tmp_path, rows)
    counts = summary.counts
    assert (counts.pairs, counts.answered, counts.unanswered, counts.failed) == (5, 1, 0, 4)
    for text in (" ".join(page.texts), printed(rows)):
        assert f"4 failed ({DEMO_RUN}: 3; BackendFailed: 1)" in text
    assert sum(OUTSIDE_SCOPE in text for text in page.texts) == page.texts.count(DEMO_RUN) == 3, (
        "a row of what was not judged"
    )
    (overall,) = (each for each in summary.agreement if each.dimension is Dimension.OA)
    assert overall.confusion[0] == (1, 0, 0, 4), (
        "people's ties: a judge that cannot say gave no tie"
    )
    assert (overall.answered, overall.tau.value) == (1, 0.2)
    assert disagreements(rows, Dimension.OA) == []


def test_a_long_list_is_cut_and_says_so(tmp_path: Path) -> None:
    rows = [result(n, "1", "2", trace=f"traces/{n}.json") for n in range(MAX_SHOWN + 20)]
    page = report(tmp_path, rows)
    assert any(f"The first {MAX_SHOWN} of {len(rows):,} pairs" in text for text in page.texts)
    assert sum(link.startswith("traces/") for link in page.attributes("href")) == MAX_SHOWN
    assert json.loads((tmp_path / "report.json").read_text("utf-8"))["disagreements"][
        "pairs"
    ] == len(rows)


@pytest.mark.parametrize(
    "rows",
    [
        [broken(1, "1")],
        [left_out(1)],
        [failed(1, "1")],
        [result(1, "-", "1111")],
        [result(1, "1", "1")],
        [result(1, "0", "-")],
        [result(1, "0", "0", turns=0, seconds=1e9)],
    ],
)
def test_the_smallest_evaluations_have_a_report_too(rows: list[PairResult], tmp_path: Path) -> None:
    page = report(tmp_path, rows, "genai-bench")
    assert not any(
        word in text
        for text in page.texts
        if "function" not in text and "color-scheme" not in text
        for word in ("nan", "None", "inf")
    )
    printed(rows)


def test_how_a_judge_compares_with_a_constant_answer_is_told(tmp_path: Path) -> None:
    even = [result(n, "0" if n % 10 else "1", "1" if n % 20 in (0, 5) else "0") for n in range(60)]
    worse = [result(n, "1", "1" if n % 6 == 0 else "2") for n in range(60)]
    no_better, below = (" ".join(report(tmp_path, rows).texts) for rows in (even, worse))
    assert "not clearly better than “always tie”" in no_better
    assert "On these pairs that is clearly worse than “always 1”." in below
    assert "not clearly better" not in below


def test_published_numbers_stand_beside_the_whole_set_only(tmp_path: Path) -> None:
    rows = [result(n, "1", "1", prompt="one") for n in range(1069)]
    whole, part = report(tmp_path, rows, "genai-bench"), report(tmp_path, rows[:100], "genai-bench")
    assert "UnifiedReward-Think 7B" in whole.texts
    assert "UnifiedReward-Think 7B" not in part.texts
    assert any("does not say which one" in text for text in whole.texts)
    assert any("Published numbers are left out" in text for text in part.texts)


def test_what_a_terminal_shows_is_text_whatever_a_data_set_holds() -> None:
    rows = [replace(row, judge="[bold]j[/bold]") for row in simulate(30, 9)]
    assert printed(rows, rows).count("[bold]j[/bold]") >= 2


def test_tables_fit_a_terminal() -> None:
    lines = printed(simulate(400, 90), simulate(400, 90, seed=1), width=80).splitlines()
    assert sum(line.startswith(("TA ", "MQ ", "VQ ", "OA ")) for line in lines) == 4 + 8


def test_a_comparison_links_both_traces(tmp_path: Path) -> None:
    for name in ("first", "second run"):
        (tmp_path / name).mkdir()
    first, second = ([result(1, "1", said, trace="traces/1.json")] for said in "12")
    page = comparison((tmp_path / "first", tmp_path / "second run"), first, second)
    assert page.links() == ["traces/1.json", "../second%20run/traces/1.json"]
    told = json.loads((tmp_path / "first" / "comparison.json").read_text("utf-8"))
    assert told["comparison"]["judges"] == ["a judge in first", "a judge in second run"]
    assert told["comparison"]["shared"] == 1


def test_a_comparison_is_harmless_too(tmp_path: Path) -> None:
    rows = with_prompt(simulate(60, 9), HOSTILE)
    other = [replace(row, judge=HOSTILE) for row in with_prompt(simulate(60, 9, seed=1), HOSTILE)]
    page = comparison((tmp_path, tmp_path), rows, other)
    assert "img" not in {name for name, _ in page.elements}
    assert sum(name == "script" for name, _ in page.elements) == 1


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    rows = [result(1, "1", "1")]
    with pytest.raises(BadInput, match="Cannot write"):
        write_report(tmp_path / "none", summarize(rows), rows)
    shutil.rmtree(tmp_path)
