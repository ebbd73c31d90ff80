"""What reports are made of: nothing that was written by others becomes markup, and each file is whole in itself."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest

from vrthinker_core.evaluation.html import (
    WIDTH,
    Bar,
    Cell,
    ReliabilityPoint,
    element,
    histogram,
    interval_bars,
    number,
    percent,
    reliability_plot,
    render_page,
    sortable_table,
)

HOSTILE = "</script></td><script>alert(1)</script>\" onload='x' \x00\x1b[31m \ud800 &lt; ‮"


def texts(page: str) -> list[str]:
    """The elements of a page by name, as a browser would read them."""
    names: list[str] = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: names.append(tag)  # type: ignore[method-assign]
    parser.feed(page)
    return names


def test_text_never_becomes_markup() -> None:
    made = element("td", HOSTILE, title=HOSTILE)
    assert texts(made) == ["td"]
    assert "\x00" not in made
    assert made.encode("utf-8")
    assert ElementTree.fromstring(made).text.startswith("</script></td><script>")  # type: ignore[union-attr]


def test_a_page_asks_for_nothing_and_allows_nothing() -> None:
    page = render_page(
        HOSTILE, element("p", HOSTILE), [("First part", element("p", HOSTILE)), ("Nothing", "")]
    )
    assert texts(page).count("script") == 1
    assert not re.findall(r"""(?:src|href)=["'](?!#)""", page)
    assert "url(" not in page
    assert "@import" not in page
    assert "default-src 'none'" in page
    assert 'href="#first-part"' in page
    assert 'id="first-part"' in page
    assert "Nothing" not in page
    assert "style=" not in page, "the policy would refuse it"
    page.encode("utf-8")


def test_a_table_has_buttons_and_values_to_sort_by() -> None:
    table = sortable_table(
        "Judges", ("judge", "tau"), [["b", percent(2 / 3)], [HOSTILE, percent(None)]]
    )
    assert texts(table).count("button") == 2
    assert f'data-value="{2 / 3!r}"' in table
    assert ">66.7 %<" in table
    assert table.count('scope="row"') == 2
    assert table.count("data-value") == 1, "what is not known has no value, and sorts last"
    assert sortable_table("Nothing", ("judge",), []) == ""
    assert number(1234.5, 1, "s") == Cell("1,234.5 s", 1234.5)
    assert number(-0.0012, 2) == Cell("0.00", -0.0012)


def plots_of(label: str) -> list[str]:
    return [
        interval_bars(label, [Bar(label, 0.5, 0.25, 0.75), Bar("always tie", 1.0, plain=True)]),
        interval_bars(label, [Bar(label, -0.1, -0.2, 0.0)], span=(-0.5, 0.5), unit="points"),
        histogram(label, [(label, 3), ("2", 0)]),
        reliability_plot(label, [ReliabilityPoint(0.5, 0.4, 10), ReliabilityPoint(0.9, 1.0, 1)]),
    ]


@pytest.mark.parametrize("position", range(4))
def test_plots_are_well_formed_whatever_stands_in_them(position: int) -> None:
    ElementTree.fromstring(plots_of("plain")[position])
    assert "script" not in texts(plots_of(HOSTILE)[position])


def test_bars_lie_within_their_plot_and_in_proportion() -> None:
    svg = ElementTree.fromstring(
        interval_bars("tau", [Bar("a", 0.25), Bar("b", 0.5), Bar("c", 7.0)])
    )
    widths = [
        float(bar.attrib["width"]) for bar in svg.iter("rect") if bar.attrib["class"] == "bar"
    ]
    assert widths[1] == pytest.approx(2 * widths[0], abs=0.02)
    assert (
        max(float(bar.attrib["x"]) + float(bar.attrib["width"]) for bar in svg.iter("rect"))
        <= WIDTH
    )
