"""A visitor's runs are kept whole, bounded, from everybody else; links and their previews."""

import io
import json
import math
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tests.support.forks import PAGE
from tests.support.waiting import PATIENCE_S, until
from tests.ui.support import handmade_runs
from tests.ui.support.api import files
from tests.ui.support.drawn_results import kinds, read_all, result, write_results
from tests.ui.support.inside import ANNA, ANNAS, BERT, BERTS, RUN, VISITORS, Site, run_until_stopped
from tests.ui.support.saved_examples import PROMPT
from vrthinker_core.errors import TraceError
from vrthinker_core.storage import usable_folder
from vrthinker_core.traces import to_json
from vrthinker_core.types import Preference, Verdict, Vote
from vrthinker_core.types.events import Event, TurnEnded
from vrthinker_core.ui import history as module
from vrthinker_core.ui.history import KEEP_SECONDS, History, SavedRun
from vrthinker_core.ui.run import RunJob
from vrthinker_core.ui.view import RunView
from vrthinker_core.ui.visitors import COOKIE, Visitors
from vrthinker_core.ui.words import CLAIM

JUDGED = "Video 1 is better"


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
    site.run(owner=VISITORS.owner_of({COOKIE: value}))
    until(lambda: len(anna.get("/history").json()["runs"]) == 1)
    assert bert.get("/history").json()["runs"] == []
    until(lambda: site.listed(cookie=value) == [JUDGED])
    everything = b"".join(path.read_bytes() for path in files(tmp_path / "runs"))
    assert value.encode() not in everything, "only its hash is kept"
    framed = site.client(in_frame=True).get("/").headers["set-cookie"]
    assert all(word in framed for word in ("HttpOnly", "SameSite=None", "Secure", "Partitioned"))
    other = Visitors().signed("")
    for forged in ("", "x", ".", "a" * 43, "a" * 43 + ".", f"é{value}", f"{value}\n", other):
        assert VISITORS.owner_of({COOKIE: forged}) == ""


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


@pytest.fixture
def site(examples: Path, tmp_path: Path) -> Site:
    return Site(tmp_path, examples=examples, head=GRADIO_HEAD)


def tags(site: Site, trace: str = "", **headers: str) -> dict[str, str]:
    """The preview of a page with Gradio's head, whose scripts stay; each of its tags stands once."""
    query = {"trace": trace} if trace else {}
    text = site.client().get("/", params=query, headers=headers).text
    assert SCRIPT in text
    assert "<script>alert" not in text
    found = list[tuple[str, str]]()

    class Metas(HTMLParser):
        """What a chat reads of the page."""

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            named = dict(attrs)
            if (name := named.get("property") or named.get("name")) and tag == "meta":
                found.append((name, named["content"] or ""))

    Metas().feed(text.replace(SCRIPT, ""))
    assert len(dict(found)) == len(found)
    return dict(found)


def test_the_page_has_a_title_a_description_and_a_picture_of_its_own(site: Site) -> None:
    found = tags(site)
    assert found["og:title"] == found["twitter:title"] == "VR-Thinker"
    assert found["og:description"] == CLAIM
    with Image.open(io.BytesIO(site.client().get(found["og:image"]).content)) as image:
        shape = int(found["og:image:width"]), int(found["og:image:height"])
        assert (image.format, image.size) == ("PNG", shape)
    for name in ("0" * 24, "../a-block", "a" * 5000, "\0", "<script>", "\ufffd"):
        assert tags(site, name) == found


def test_a_link_shows_verdict_and_prompt_and_has_a_picture(site: Site) -> None:
    """But not to who votes first; what strangers wrote stays text, and short."""
    found = tags(site, "a-block", **{"x-forwarded-proto": "https"})
    assert found["og:title"] == f"{JUDGED} · VR-Thinker"
    begins = f"“{PROMPT}” Overall: Video 1. Text alignment: Video 1."
    assert found["twitter:description"].startswith(begins)
    assert "asked in one order only" in found["og:description"].lower()
    assert found["og:image"] == "https://judge.example/previews/a-block.jpg"
    with Image.open(io.BytesIO(site.client().get(found["og:image"]).content)) as image:
        assert (image.format, image.size) == ("JPEG", (1200, 630))
    told = found["og:image:width"], found["og:image:height"], found["twitter:card"]
    assert told == ("1200", "630", "summary_large_image")
    assert found["og:image:alt"] == found["og:title"]
    assert JUDGED not in site.client(vote_first="on").get("/?trace=a-block").text
    prompted = replace(RUN, started=replace(RUN.started, prompt=NASTY))
    hostile = tags(site, site.history.share("0" * 24, prompted))
    assert hostile["og:title"] == found["og:title"]
    assert '"><script>alert(1)</script> <meta property=' in hostile["og:description"]
    assert len(hostile["og:description"]) < 300


def test_the_preview_of_a_run_goes_with_its_link(site: Site) -> None:
    run = site.history.keep(ANNA, RUN)
    link = site.history.share(run, RUN, ANNA)
    made = f"/previews/{link}.jpg", f"/reports/{link}.html"
    assert tags(site, link)["og:title"] == f"{JUDGED} · VR-Thinker"
    for path in made:
        assert site.client().get(path).status_code == 200
        hidden = site.client(vote_first="on").get(path)
        assert (hidden.status_code, hidden.text) == (404, "Hidden until you vote")
    assert tags(site, run)["og:title"] == "VR-Thinker", "a run is no link"
    site.history.delete(ANNA, [run])
    assert tags(site, link)["og:title"] == "VR-Thinker"
    assert {site.client().get(path).status_code for path in made} == {404}


def test_a_link_to_a_row_of_an_evaluation_has_its_verdict_as_preview(tmp_path: Path) -> None:
    gone = replace(result(1), trace="", verdict=None, error="The judge was gone.")
    folder = write_results(tmp_path / "out", [gone, kinds()[6]])
    runs = read_all(folder)
    site = Site(tmp_path, runs=runs, head=GRADIO_HEAD)
    name, unjudged = (run.name for run in runs.runs())
    assert tags(site, name)["og:title"] == tags(site, unjudged)["og:title"] == "VR-Thinker"
    write_results(folder, [result(1)])
    until(lambda: runs.refresh() and tags(site, name)["og:title"] == f"{JUDGED} · VR-Thinker")


# -- the folder of runs --------------------------------------------------------------------------

VOTE = Vote(datetime(2026, 11, 22, tzinfo=UTC), Verdict(OA=Preference.SECOND), note="Sharper.")
DATABASE = "runs.sqlite"


def name(number: int) -> str:
    return f"{number:024x}"


def keep(history: History, number: int, *videos: Path, owner: str = ANNA, **more: Any) -> bool:
    """Keep a run that began so many seconds after 1970."""
    return history.update(name(number), owner, RUN, number, videos, **{"again": False, **more})


def names(history: History, owner: str = ANNA) -> list[str]:
    return [*history.rows(owner, False, {})]


def video(folder: Path, number: int, size: int = 1000) -> Path:
    path = folder / f"{number}.mp4"
    path.write_bytes(bytes([number]) * size)
    return path


def kept_videos(folder: Path) -> list[int]:
    return sorted(path.read_bytes()[0] for path in (folder / "videos").iterdir())


def file_names(folder: Path) -> set[str]:
    """But what is there for a full disk."""
    return {path.name for path in files(folder)} - {"ballast", f"{DATABASE}-journal"}


def test_nobody_sees_opens_or_deletes_the_run_of_another(tmp_path: Path) -> None:
    history, file = History(tmp_path / "runs"), video(tmp_path, 1)
    clip = replace(handmade_runs.clip("a.mp4"), digest=sha256(file.read_bytes()).hexdigest())
    trace = handmade_runs.three_turns(clips=(clip, None))
    kept = history.keep(ANNA, trace, [file])
    for other in (BERT, ""):
        assert names(history, other) == history.videos(other, trace) == []
        with pytest.raises(TraceError) as refused:
            history.open(other, kept)
        with pytest.raises(TraceError) as unknown:
            history.open(other, name(0))
        assert str(refused.value) == str(unknown.value)
        history.delete(other, [kept])
        history.delete(other)
    assert names(history) == [kept]
    assert [path.read_bytes() for path in history.videos(ANNA, trace)] == [file.read_bytes()]


def test_pages_that_show_one_run_lose_nothing_of_each_other(tmp_path: Path) -> None:
    history, checked = History(tmp_path), handmade_runs.both_orders()
    times = (VOTE.at + timedelta(seconds=seconds) for seconds in (0, 5))
    early, later = (replace(RUN, vote=replace(VOTE, at=at)) for at in times)
    keep(history, 1)
    for trace in (checked, early, later, early):
        assert history.update(name(1), ANNA, trace, 1, [], again=True)
    kept, _ = history.open(ANNA, name(1))
    assert (kept.swapped, kept.vote) == (checked.swapped, later.vote), "the later vote counts"


def test_what_a_killed_server_had_of_a_run_and_a_vote_on_it_is_kept(tmp_path: Path) -> None:
    def two_turns_and_no_end(job: RunJob) -> Generator[Event, None, None]:
        events = list(RUN.events())
        ends = [number for number, event in enumerate(events) if isinstance(event, TurnEnded)]
        yield from events[: ends[1] + 2]
        until(job.stop_file.exists)

    site = Site(tmp_path, two_turns_and_no_end)
    shown = site.run()
    until(lambda: shown.run.trace and len(RunView.of(shown.run).turns) == 3)
    slots = sorted({frame.ref.slot for frame in RunView.of(shown.run).turns[-1].frames})
    site.sessions.add_vote(site.sessions.get("page"), shown, replace(VOTE, slots=tuple(slots)))
    after_kill = Site(tmp_path)  # nothing told the first one to end
    assert after_kill.listed() == ["Cut off before it ended"]
    trace, videos = after_kill.history.open(ANNA, shown.kept)
    assert (trace.turns, len(videos)) == (RUN.turns[:2], 2)
    assert trace.vote.labels == VOTE.labels, "without frames of the third turn"
    site.sessions.close()


@pytest.mark.parametrize("left", [False, True], ids=["shown", "left"])
def test_a_run_goes_on_in_the_list_until_its_end_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, left: bool
) -> None:
    site, disk = Site(tmp_path, run_until_stopped), threading.Event()
    shown, update = site.run(), site.history.update
    until(lambda: shown.stored)

    def slowly(*told: Any, **how: Any) -> bool:
        disk.wait(PATIENCE_S)
        return update(*told, **how)

    monkeypatch.setattr(site.history, "update", slowly)
    if left:
        site.sessions.end("page")
    shown.run.request_stop()
    until(lambda: shown.run.over)
    time.sleep(0.3)  # as the thread looks that removes a run
    assert site.listed() == ["Goes on"]
    disk.set()
    until(lambda: site.listed() == ["Stopped"])


def test_a_check_that_is_left_goes_on_also_where_another_page_shows_its_run(tmp_path: Path) -> None:
    site = Site(tmp_path, run_until_stopped)
    shown = site.run()
    shown.run.stop()
    checked = site.check_order("another page", site.show("another page", shown))
    site.sessions.end("another page")
    assert (site.sessions.runs_of(ANNA), site.listed()) == ([checked], ["Goes on"])
    checked.run.stop()
    until(lambda: site.sessions.find_run(shown.name) is shown)
    assert site.listed() == ["Stopped"]
    assert shown.thumbnails.add(b"a picture", ".jpg"), "the files of the run are still there"


def test_deleting_ends_runs_and_their_links_and_leaves_no_file(tmp_path: Path) -> None:
    site = Site(tmp_path, run_until_stopped)
    ended, live, anna = site.run(), site.run("another page"), site.client(ANNAS)
    ended.run.stop()
    until(lambda: sorted(site.listed()) == ["Goes on", "Stopped"])
    link = anna.post(f"/runs/{ended.name}/link").json()["trace"]
    site.client(BERTS).delete(f"/history/{ended.kept}")
    site.client(BERTS).delete("/history")
    assert site.history.is_link(link)
    assert len(anna.delete(f"/history/{ended.kept}").json()["runs"]) == 1
    assert not site.history.is_link(link)
    assert anna.delete("/history").json()["runs"] == []
    until(lambda: live.run.join(PATIENCE_S))
    checked = site.check_order("page", ended)
    checked.run.stop()
    assert checked.run.join(PATIENCE_S)
    assert site.listed() == [], "what was deleted is not written again"
    assert file_names(tmp_path / "runs") == {DATABASE}


def test_a_server_that_keeps_nothing_keeps_links_alone(tmp_path: Path) -> None:
    site = Site(tmp_path, run_until_stopped, seconds=0)
    shown = site.run()
    shown.run.stop()
    checked = site.check_order("page", shown)
    assert (shown.kept, checked.kept) == ("", ""), "no address names a run that is not kept"
    site.sessions.end("page")
    assert checked.run.join(PATIENCE_S)
    assert (site.history.keep(ANNA, RUN), names(site.history)) == ("", [])
    assert "keeps no runs" in site.history.help
    assert site.history.linked(site.history.share(shown.name, RUN))[0] == RUN


def test_a_disk_that_was_full_costs_no_run_and_leaves_no_row(tmp_path: Path) -> None:
    """Stands for a full disk: the folder of the traces is away. What has ended stays in memory."""
    site, traces = Site(tmp_path, run_until_stopped), tmp_path / "runs" / "traces"
    traces.rename(tmp_path / "away")
    shown, history = site.run(), site.history
    assert not keep(history, 1, video(tmp_path, 1))
    with pytest.raises(OSError, match="No such file"):
        history.share(name(1), RUN)
    assert [*history.rows(ANNA, False, {})] == [shown.kept, name(1)]
    assert history.open(ANNA, name(1))[0] == RUN
    (tmp_path / "away").rename(traces)
    shown.run.stop()
    until(lambda: site.listed() == ["Stopped", JUDGED])
    history.sweep()
    assert kept_videos(tmp_path / "runs") == [1, *b"ab"]
    history.delete(ANNA)  # it was too old, or too large
    site.sessions.add_vote(site.sessions.get("page"), shown, VOTE)
    assert history.open(ANNA, shown.kept)[0].vote == VOTE
    site.sessions.close()
    (tmp_path / "runs").rename(tmp_path / "lost")
    assert not keep(history, 2), "nor can the list be used"


def test_the_largest_owners_oldest_go_until_all_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their number, and in bytes."""
    monkeypatch.setattr(module, "MAX_LISTED", 3)
    history = History(tmp_path / "runs", max_bytes=400_000)
    keep(history, 0, owner=BERT)
    for number in (1, 3, 2, 5, 4):
        keep(history, number)
    assert names(history) == [name(5), name(4), name(3)]
    assert names(history, BERT) == [name(0)]
    monkeypatch.setattr(module, "MAX_RUNS", 2)
    history.sweep()
    assert (names(history), names(history, BERT)) == ([name(5)], [name(0)])
    for number in (7, 6):
        keep(history, number, video(tmp_path, number, 190_000))
    assert (names(history), names(history, BERT)) == ([name(7)], [name(0)])
    kept = [path for path in files(tmp_path / "runs") if path.suffix in (".json", ".mp4")]
    assert 190_000 < sum(path.stat().st_size for path in kept) <= 400_000
    keep(history, 8, video(tmp_path, 8, 210_000))
    assert history.open(ANNA, name(8)) == (RUN, []), "one such video would push out all others"


def test_a_run_is_kept_for_its_time_and_no_longer(tmp_path: Path) -> None:
    short, history = History(tmp_path / "runs", seconds=0.5), History(tmp_path / "runs")
    keep(history, 1)
    keep(short, 2, video(tmp_path, 1))
    link = short.share(name(1), RUN)
    until(lambda: names(history) == [name(1)] and not history.is_link(link))
    with pytest.raises(TraceError):
        history.open(ANNA, name(2))
    with pytest.raises(TraceError):
        history.linked(link)
    history.sweep()
    assert file_names(tmp_path / "runs") == {DATABASE, f"{name(1)}.json"}


def test_a_video_is_kept_once_and_as_long_as_a_run_needs_it(tmp_path: Path) -> None:
    """Only a file that nobody else writes to is linked."""
    folder, (one, two, three) = tmp_path / "runs", (video(tmp_path, n) for n in (1, 2, 3))
    history = History(folder, is_ours=lambda path: path == two)
    keep(history, 1, one, two)
    keep(history, 2, two, three)
    assert kept_videos(folder) == [1, 2, 3]
    history.delete(ANNA, [name(1)])
    three.write_bytes(b"edited")
    second, third = history.open(ANNA, name(2))[1]
    assert second.stat().st_ino == two.stat().st_ino
    assert third.read_bytes() == bytes([3]) * 1000
    assert kept_videos(folder) == [2, 3]
    History(folder).delete(ANNA, [name(2)])  # by another server
    assert not keep(history, 2, one, again=True), "what was deleted is not written again"
    assert file_names(folder) == {DATABASE}


WRONG = ["", "x", "../traces/a", "0" * 23 + "G", "..%2f" * 5, "a" * 5000, "\0", "\ud800", "%"]


def test_a_link_shows_the_same_trace_and_ends_with_its_run(tmp_path: Path) -> None:
    history = History(tmp_path / "runs")
    keep(history, 1)
    link = history.share(name(1), RUN, ANNA, [video(tmp_path, 1)])
    assert history.share(name(1), RUN, ANNA) == link
    longer = replace(RUN, started=replace(RUN.started, notes=("More.",)))
    others = [(name(2), RUN, ANNA), (name(1), longer, ANNA), (name(1), RUN, BERT)]
    assert len({link, *(history.share(*each) for each in others)}) == 4
    again = History(tmp_path / "runs")
    trace, videos = again.linked(link)
    assert (trace, len(videos)) == (RUN, 1)
    assert names(again) == [name(1)], "a link is no run"
    for wrong in (*WRONG, name(0), name(1)):  # a run's name opens it for its visitor alone
        assert not again.is_link(wrong)
        for find in (again.linked, lambda name: again.open(BERT, name)):
            with pytest.raises(TraceError, match=r"was deleted|is gone"):
                find(wrong)
    again.delete(ANNA, [name(1)])
    assert not again.is_link(link)


def record(**changes: object) -> bytes:
    """A record as servers since a34fd25 write it."""
    base = {"owner": ANNA, "prompt": "", "judge": "", "begun": 0, "until": 1e12}
    return json.dumps(base | changes).encode()


DAMAGES = [
    *(b"", b"{" * 50_000, b"\xff" * 100, b"[" + b"1," * 10**5 + b"1]", b'{"owner": 1}'),
    *(record(owner=owner) for owner in ("../x", f"{ANNA}\n")),
    *(record(videos=videos) for videos in (["../../secret"], ["0" * 64] * 3)),
    *(record(origin="../../secret"), record(branch="x" * 401)),
    *(record(begun=-1), record(until=math.inf)),
]


def test_runs_of_earlier_versions_are_taken_over_with_their_links(tmp_path: Path) -> None:
    """But those whose record is damaged; of them, no file is left."""
    for place in ("records", "traces", "videos"):
        (tmp_path / place).mkdir()
    kept = tmp_path / "videos" / f"{sha256(b'a video').hexdigest()}.mp4"
    kept.write_bytes(b"a video")
    (tmp_path / "videos" / ("0" * 64)).write_bytes(b"that only a damaged record names")
    records = {
        name(1): record(videos=[kept.name], judged=True, overall=1, ending="answered"),
        name(2): record(origin=name(1), videos=[kept.name]),
        "no name": record(),
        **{name(number): damaged for number, damaged in enumerate(DAMAGES, 10)},
    }
    for each, written in records.items():
        (tmp_path / "records" / f"{each}.json").write_bytes(written)
        (tmp_path / "traces" / f"{each}.json").write_bytes(to_json(RUN))
    for _ in range(2):
        history = History(tmp_path)
        rows = history.rows(ANNA, False, {})
        assert [(each, row["outcome"]) for each, row in rows.items()] == [(name(1), JUDGED)]
        assert history.open(ANNA, name(1)) == history.linked(name(2)) == (RUN, [kept])
        traces = {f"{name(number)}.json" for number in (1, 2)}
        assert file_names(tmp_path) == {DATABASE, kept.name, *traces}
    history.delete(ANNA)
    assert not history.is_link(name(2))


def run_sql(folder: Path, text: str, *values: object) -> None:
    with closing(sqlite3.connect(folder / DATABASE)) as runs, runs:
        runs.execute(text, values)


def test_a_damaged_row_or_trace_is_survived_and_goes_with_its_age(tmp_path: Path) -> None:
    history = History(tmp_path)
    for number, damaged in enumerate(DAMAGES, 2):
        keep(history, number)
        run_sql(tmp_path, "UPDATE runs SET record = ? WHERE name = ?", damaged, name(number))
    keep(history, 1)
    keep(history, 99)
    (tmp_path / "traces" / f"{name(99)}.json").write_bytes(b'{"started": 5}')
    for opened in (history, History(tmp_path)):
        assert names(opened) == [name(99), name(1)]
        with pytest.raises(TraceError, match="not a VR-Thinker trace"):
            opened.open(ANNA, name(99))
    assert keep(history, 99, again=True), "a damaged trace is replaced"
    assert history.open(ANNA, name(99))[0] == RUN
    run_sql(tmp_path, "UPDATE runs SET until = 0 WHERE name != ?", name(1))
    (tmp_path / "traces" / f"{name(1)}.json").unlink()  # a server was killed as it removed the run
    history.sweep()
    assert names(history) == []
    assert file_names(tmp_path) == {DATABASE}


@pytest.mark.parametrize("damage", ["no database", "cut", "overwritten"])
def test_a_damaged_database_is_put_aside(tmp_path: Path, damage: str) -> None:
    history, database = History(tmp_path), tmp_path / DATABASE
    for number in range(1, 30):
        keep(history, number)
    whole = database.read_bytes()
    damaged = {"no database": b"x" * 10_000, "cut": whole[:5000]}
    database.write_bytes(damaged.get(damage, whole[:4096] + b"\xff" * (len(whole) - 4096)))
    for opened in (History(tmp_path), history):
        assert keep(opened, 50)
        assert name(50) in names(opened)
    assert (tmp_path / "runs.damaged").exists()


def test_a_table_that_another_holds_keeps_nobody_waiting(tmp_path: Path) -> None:
    history = History(tmp_path)
    keep(history, 1)
    with closing(sqlite3.connect(tmp_path / DATABASE)) as other:
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        assert keep(history, 2), "in memory"
        assert history.open(ANNA, name(2))[0] == RUN
        with pytest.raises(TraceError, match="Try again in a minute"):
            history.linked(name(1))
        assert time.monotonic() - began < 3
    history.sweep()
    assert names(history) == [name(2), name(1)]


def test_a_trace_that_is_opened_again_is_kept_once(tmp_path: Path) -> None:
    history = History(tmp_path)
    first = history.keep(ANNA, RUN)
    assert history.keep(ANNA, RUN) == first
    assert history.keep(BERT, RUN) != first


def test_a_trace_of_a_pair_that_was_compared_twice_is_kept_with_its_videos(tmp_path: Path) -> None:
    history, videos = History(tmp_path / "runs"), [video(tmp_path, number) for number in (1, 2)]
    digests = (sha256(path.read_bytes()).hexdigest() for path in videos)
    clips = tuple(replace(handmade_runs.clip("a.mp4"), digest=digest) for digest in digests)
    for prompt in ("once", "twice"):
        history.keep(ANNA, handmade_runs.three_turns(prompt=prompt, clips=clips), videos)
    opened = handmade_runs.three_turns(prompt="another", clips=clips)
    kept = history.keep(ANNA, opened, history.videos(ANNA, opened))
    assert sorted(path.read_bytes()[0] for path in history.open(ANNA, kept)[1]) == [1, 2]


def test_a_clock_that_jumps_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = History(tmp_path)
    keep(history, 1)
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + 2 * KEEP_SECONDS)
    history.sweep()
    assert names(history) == [name(1)]


SMALL_DISK = """
import os, signal, sys, time
from pathlib import Path
from tests.ui.test_history import ANNA, BERT, History, RUN, keep, name, names, video
disk, outside = Path(sys.argv[1]), Path(sys.argv[2])
history = History(disk / "runs")
for number in range(1, 9):
    keep(history, number, video(outside, number, 300_000), owner=BERT)
with (disk / "of somebody else").open("wb", buffering=0) as file:
    try:
        while file.write(bytes(4096)):
            pass
    except OSError:
        pass
assert os.statvfs(disk).f_bavail == 0
history.delete(BERT, [name(1)])
assert name(1) not in names(history, BERT) and not history._gone
assert keep(history, 9, video(outside, 9, 300_000)) and not history._unwritten
later = History(disk / "runs")
assert names(later) == [name(9)] and name(1) not in names(later, BERT)
assert history.open(ANNA, name(9))[1][0].stat().st_size == 300_000
for kill in range(20):
    if not (writer := os.fork()):
        history = History(disk / "runs")
        for number in range(100 * kill + 10, 10**6):
            keep(history, number, video(outside, number % 50 + kill, 300_000))
    time.sleep(0.2 + kill / 100)
    os.kill(writer, signal.SIGKILL)
    os.waitpid(writer, 0)
    opened = History(disk / "runs")
    for each in names(opened):
        trace, videos = opened.open(ANNA, each)
        assert trace == RUN and [path.stat().st_size for path in videos] == [300_000], each
    assert names(opened) and not (disk / "runs" / "runs.damaged").exists()
print("whole", flush=True)
os._exit(0)
"""
SMALL = 'mount -t tmpfs -o size=10m none {0} && exec {1} -c "$CODE" {0} {2}'


def test_a_disk_that_is_full_lets_go_and_keeps_the_next_run(tmp_path: Path) -> None:
    """And tears nothing if its server is killed while it makes room."""
    (disk := tmp_path / "disk").mkdir()
    command = SMALL.format(disk, sys.executable, tmp_path)
    way = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", command]
    told = {"env": {**os.environ, "CODE": SMALL_DISK}, "capture_output": True, "text": True}
    done = subprocess.run(way, check=False, timeout=3 * PATIENCE_S, **told)  # type: ignore[call-overload]
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("nobody may mount a file system here")
    assert done.stdout.endswith("whole\n"), done.stderr


def put_for_ever(folder: Path) -> None:
    history = History(folder)
    for number in range(1, 10**6):
        keep(history, number, video(folder.parent, number % 100 + 1, 20_000))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is locked here")
def test_what_a_killed_server_left_is_removed_and_nothing_of_one_that_lives(tmp_path: Path) -> None:
    folder, latest = tmp_path / "runs", 10**9
    mine = History(folder)
    keep(mine, latest, video(tmp_path, 0))
    writer = PAGE.start(put_for_ever, folder)
    until(lambda: len(names(mine)) > 3)
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    opened = History(folder)
    runs = {each: opened.open(ANNA, each) for each in names(opened)}
    assert next(iter(runs)) == name(latest)
    assert all(trace == RUN and len(videos) == 1 for trace, videos in runs.values())
    named = {f"{each}.json" for each in runs} | {each[1][0].name for each in runs.values()}
    assert file_names(folder) == {*named, DATABASE}
    assert names(mine) == list(runs)


def test_runs_go_to_the_named_folder_or_the_first_that_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert usable_folder(tmp_path / "named", {}) == tmp_path / "named"
    assert usable_folder(tmp_path / "file" / "below", {}) is None
    cache = {"XDG_CACHE_HOME": str(tmp_path), "HOME": "/nowhere"}
    assert usable_folder(None, cache) == tmp_path / "vr-thinker" / "runs"
    for nowhere in ({"XDG_CACHE_HOME": str(tmp_path / "file")}, {}):
        assert usable_folder(None, nowhere) is None
