"""The page's own routes: who is known by what, a visitor's list, and previews of links."""

import html
import io
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.waiting import until
from tests.ui.support.api import files
from tests.ui.support.drawn_results import kinds, read_all, result, write_results
from tests.ui.support.inside import ANNA, ANNAS, RUN, Site
from tests.ui.support.saved_examples import PROMPT, write_example
from vrthinker_core.traces import load, to_json
from vrthinker_core.types import Preference, Verdict, Vote
from vrthinker_core.ui.history import COOKIE, SavedRun, owner_of
from vrthinker_core.ui.words import CLAIM

JUDGED = "Video 1 is better overall"


def test_a_visitor_is_known_by_a_cookie_that_the_page_sets(tmp_path: Path) -> None:
    site = Site(tmp_path)
    anna, bert = site.client(), site.client()
    assert "set-cookie" not in anna.get("/history").headers
    told = anna.get("/").headers["set-cookie"]
    bert.get("/")
    assert all(word in told for word in ("HttpOnly", "SameSite=Lax", "Path=/"))
    value = anna.cookies[COOKIE]
    assert anna.get("/").headers["set-cookie"] == told, "it stays the same"
    assert value != bert.cookies[COOKIE]
    site.run(owner=owner_of({COOKIE: value}))
    until(lambda: len(anna.get("/history").json()["runs"]) == 1)
    assert bert.get("/history").json()["runs"] == []
    everything = b"".join(path.read_bytes() for path in files(tmp_path / "runs"))
    assert value.encode() not in everything, "only its hash is kept"
    framed = site.client(in_frame=True).get("/").headers["set-cookie"]
    assert all(word in framed for word in ("HttpOnly", "SameSite=None", "Secure", "Partitioned"))
    for forged in ("", "x", "a" * 42, "a" * 44, "../" * 14 + "a", "é" * 43, "a" * 43 + "\n"):
        assert owner_of({COOKIE: forged}) == ""


def test_with_vote_first_a_verdict_is_listed_after_the_vote(tmp_path: Path) -> None:
    site = Site(tmp_path)
    vote = Vote(datetime(2026, 11, 22, tzinfo=UTC), Verdict(OA=Preference.SECOND))
    traces = replace(RUN, finished=None), RUN, replace(RUN, vote=vote)
    _, name, voted = (site.history.keep(ANNA, each) for each in traces)
    client, page = site.client(ANNAS, vote_first="on"), site.sessions.get("page")

    def listed() -> Any:
        return {row["name"]: row["outcome"] for row in client.get("/history").json()["runs"]}

    assert list(listed().values()) == [JUDGED, "Hidden until you vote", "Cut off before it ended"]
    shown = site.sessions.start_replay(page, SavedRun(RUN, kept=name), owner=ANNA)
    assert listed()[name] == JUDGED, "what a page shows is no secret"
    shown.hidden = True
    assert listed()[name] == "Hidden until you vote"
    site.sessions.add_vote(page, shown, vote)
    site.sessions.end("page")
    assert listed()[name] == listed()[voted] == JUDGED


NASTY = '"><script>alert(1)</script>\n<meta property="og:title" content="x"> & ' + "long " * 100
SCRIPT = r"""<script>it = {"text": "<meta property=\"og:title\" content=\"kept\">"}</script>"""
TAGS = '<meta\n property="og:title"\n content="Gradio" /><meta name="twitter:title" content="G" />'
GRADIO_HEAD = f'<meta charset="utf-8" />{TAGS}{SCRIPT}'


def tags_of(text: str) -> dict[str, str]:
    """The tags that a preview is made of; each stands once."""
    found = re.findall(r'<meta\s[^>]*?"((?:og|twitter):\w+)"\s*content="([^"]*)"', text)
    assert len(dict(found)) == len(found)
    return {name: html.unescape(value) for name, value in found}


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two examples, one of them with a hostile prompt."""
    folder = tmp_path_factory.mktemp("examples")
    write_example(folder / "a-block")
    path = write_example(folder / "b-block") / "trace.json"
    trace = load(path)
    path.write_bytes(to_json(replace(trace, started=replace(trace.started, prompt=NASTY))))
    return folder


@pytest.fixture
def site(links: Path, tmp_path: Path) -> Site:
    return Site(tmp_path, examples=links, head=GRADIO_HEAD)


def tags(site: Site, trace: str = "", **headers: str) -> dict[str, str]:
    """The tags of a page with Gradio's head, whose scripts stay as they are."""
    query = {"trace": trace} if trace else {}
    text = site.client().get("/", params=query, headers=headers).text
    assert SCRIPT in text
    assert "<script>alert" not in text
    return tags_of(text.replace(SCRIPT, ""))


def test_the_page_has_a_title_a_description_and_a_picture_of_its_own(site: Site) -> None:
    found = tags(site)
    assert found["og:title"] == found["twitter:title"] == "VR-Thinker"
    assert found["og:description"] == CLAIM
    assert site.client().get(found["og:image"]).headers["content-type"] == "image/png"
    for name in ("0" * 24, "../a-block", "a" * 5000, "\0", "<script>", "\ufffd"):
        assert tags(site, name) == found


def test_a_link_shows_verdict_prompt_and_a_deciding_frame(site: Site) -> None:
    """But not to who votes first; what strangers wrote stays text, and short."""
    found = tags(site, "a-block", **{"x-forwarded-proto": "https"})
    assert found["og:title"] == f"{JUDGED} · VR-Thinker"
    begins = f"“{PROMPT}” Overall: Video 1. Text alignment: Video 1."
    assert found["twitter:description"].startswith(begins)
    assert "not swap-tested" in found["og:description"].lower()
    assert found["og:image"] == "https://judge.example/previews/a-block.jpg"
    with Image.open(io.BytesIO(site.client().get(found["og:image"]).content)) as image:
        assert image.format == "JPEG"
    assert JUDGED not in site.client(vote_first="on").get("/?trace=a-block").text
    hostile = tags(site, "b-block")
    assert hostile["og:title"] == found["og:title"]
    assert '"><script>alert(1)</script> <meta property=' in hostile["og:description"]
    assert len(hostile["og:description"]) < 300


def test_the_preview_of_a_run_goes_with_its_link(site: Site) -> None:
    run = site.history.keep(ANNA, RUN)
    link = site.history.share(run, RUN, ANNA)
    picture = f"/previews/{link}.jpg"
    assert tags(site, link)["og:title"] == f"{JUDGED} · VR-Thinker"
    assert site.client().get(picture).status_code == 200
    assert tags(site, run)["og:title"] == "VR-Thinker", "a run is no link"
    site.history.delete(ANNA, [run])
    assert tags(site, link)["og:title"] == "VR-Thinker"
    assert site.client().get(picture).status_code == 404


def test_a_link_to_a_row_of_an_evaluation_has_its_verdict_as_preview(tmp_path: Path) -> None:
    gone = replace(result(1), trace="", verdict=None, error="The judge was gone.")
    folder = write_results(tmp_path / "out", [gone, kinds()[6]])
    runs = read_all(folder)
    site = Site(tmp_path, runs=runs, head=GRADIO_HEAD)
    name, unjudged = (run.name for run in runs.runs())
    assert tags(site, name)["og:title"] == tags(site, unjudged)["og:title"] == "VR-Thinker"
    write_results(folder, [result(1)])
    until(lambda: runs.refresh() and tags(site, name)["og:title"] == f"{JUDGED} · VR-Thinker")
