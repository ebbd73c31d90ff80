"""What the page's events do for a visitor, without a browser."""

import json
import re
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import until
from tests.ui.conftest import Clips
from tests.ui.support import handmade_runs
from tests.ui.support.inside import (
    BRANCH,
    RUN,
    VISITORS,
    Inside,
    OpenPage,
    finish_at_once,
    inside,
    run_until_stopped as write_on,
)
from tests.ui.support.saved_examples import ANSWER
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.protocols.base import MAX_PROMPT
from vrthinker_core.traces import from_json
from vrthinker_core.types import Preference, Verdict
from vrthinker_core.types.events import Event, Finished, StopReason, Trace
from vrthinker_core.ui import words
from vrthinker_core.ui.history import SavedRun
from vrthinker_core.ui.judges import JudgeLoader
from vrthinker_core.ui.run import RunJob
from vrthinker_core.ui.sessions import MAX_BRANCHES
from vrthinker_core.ui.words import place_in_queue
from vrthinker_core.video.files import file_digest

ASKED = RUN.started.prompt
CODE = "python:os:abort"  # Runs code: only the server's own command line may name it
Pair = tuple[Path, Path]


@pytest.fixture(scope="module")
def judges() -> Iterator[JudgeLoader]:
    names = "by hand", "another"
    openers = {name: partial(ScriptedBackend, [ANSWER], name=name) for name in names}
    with closing(JudgeLoader(openers, in_thread=False)) as loader:
        yield loader


@pytest.fixture
def here(tmp_path: Path, judges: JudgeLoader) -> Iterator[Inside]:
    """A server whose judge answers at once, and otherwise for a branch."""

    def judge(job: RunJob) -> Generator[Event, None, None]:
        for event in finish_at_once(job):
            if job.plan and isinstance(event, Finished) and event.verdict:
                event = replace(event, verdict=replace(event.verdict, VQ=Preference.TIE))
            yield event

    with inside(tmp_path, judges, judge) as opened:
        yield opened


@pytest.fixture
def busy(tmp_path: Path, judges: JudgeLoader) -> Iterator[Inside]:
    """A server whose judge writes until it is stopped; two may wait for it."""
    with inside(tmp_path, judges, write_on, waiting=2) as opened:
        yield opened


@pytest.fixture
def two(tmp_path: Path) -> Pair:
    """Two files, which no handmade judge reads."""
    for name in "ab":
        (tmp_path / f"{name}.mp4").write_text(name)
    return tmp_path / "a.mp4", tmp_path / "b.mp4"


def running(here: Inside, two: Pair, name: str = "anna", **cookies: str) -> OpenPage:
    """A visitor's page that shows their own run."""
    page = OpenPage(here, name, name, **cookies)
    page.compare(two)
    until(lambda: (page["trace"] or {}).get("turns"))
    return page


def compared(here: Inside, two: Pair, name: str = "anna", **cookies: str) -> OpenPage:
    """The same, when the run is over."""
    page = running(here, two, name, **cookies)
    until(lambda: page["trace"]["over"])
    return page


def replaying(here: Inside, two: Any = (None, None), trace: Trace = RUN) -> OpenPage:
    """A page that shows a saved run of these videos."""
    page = OpenPage(here)
    here.sessions.start_replay(page.session, SavedRun(trace), two)
    return page


# -- runs and their line -------------------------------------------------------------------------


def test_who_waits_is_told_their_place_and_may_leave(busy: Inside, two: Pair) -> None:
    anna, bert = running(busy, two), replaying(busy)
    cleo, dora = OpenPage(busy, "cleo"), OpenPage(busy, "dora")
    bert.compare(two)
    until(lambda: bert["status"] == place_in_queue(1))
    cleo.compare(two)
    until(lambda: cleo["status"] == place_in_queue(2))
    dora.compare(two).result()
    assert (dora["status"], dora["buttons"]["running"]) == (words.BUSY, False)
    assert (bert.session.shown.run.is_replay, bert["trace"]) == (True, None), "what was shown stays"
    earlier = bert["buttons"]["number"]
    assert bert.stop()["buttons"] == {"number": earlier, "running": False}
    until(lambda: cleo["status"] == place_in_queue(1))
    players = cleo["first"], cleo["second"]
    cleo.act(busy.on.swap_videos, *map(str, two))
    assert (cleo["first"], cleo["second"]) == players, "what waits is not changed"
    bert.compare(two)
    until(lambda: bert["status"] == place_in_queue(2))
    bert.stop(earlier)
    assert bert.session.waiting, "what is said of an earlier run stops no later one"
    assert anna.stop()["status"].startswith("Stopped")
    until(lambda: cleo["trace"] and cleo["trace"]["turns"])


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"gone": True}, {"first": words.GONE}),
        ({"videos": 1}, {"second": words.MISSING_VIDEO.format(2)}),
        ({"prompt": "\u200b \n", "seed": "x"}, {"prompt": "The prompt is", "seed": "The setting"}),
        ({"prompt": "x" * (MAX_PROMPT + 1)}, {"prompt": "The prompt has"}),
        ({"judge": "nobody"}, {"judge": "There is no judge 'nobody' here."}),
        ({"judge": CODE}, {"judge": f"There is no judge '{CODE}' here."}),
        ({"temperature": "2.5"}, {"temperature": 'The setting "Temperature" must lie between 0'}),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_refused_form_changes_nothing(busy: Inside, two: Pair, form: Any, said: Any) -> None:
    page, form = replaying(busy), dict(form)
    if form.pop("gone", False):
        two[0].unlink()
    page.compare([*two[: form.pop("videos", 2)], None][:2], **form).result()
    faults = page["buttons"]["faults"]
    assert list(faults) == list(said), "each field says what is wrong with it"
    assert all(faults[field].startswith(text) for field, text in said.items())
    assert page["status"].startswith("Not started.")
    assert (page["trace"], page["buttons"]["running"]) == (None, False)
    assert (page.session.shown.run.is_replay, busy.queue.counts()) == (True, (0, 0))


def test_what_a_branch_asks_for_reaches_its_run(here: Inside, two: Pair) -> None:
    page, asked = replaying(here, two), {"no_tool": True, "frames": "", "window": "2"}
    branched(page, two, turn="1", prompt="A cat.", judge="another", **asked)
    job = page.session.shown.run.job
    assert (job.judge, job.pair.prompt, job.settings.window) == ("another", "A cat.", 2)
    assert (job.plan.branch.turn, job.plan.branch.no_tool, page["prompt"]) == (1, True, "A cat.")


def test_a_run_that_was_left_is_followed_on_another_page(busy: Inside, two: Pair) -> None:
    first, second = running(busy, two), OpenPage(busy, "second", "anna")
    name = first["trace"]["kept"]
    busy.sessions.end("anna")
    following = second.begin(busy.on.open, second.form([None, None], ""), run=name)
    until(lambda: second["trace"])
    assert (second["prompt"], second["first"]) == (ASKED, str(two[0]))
    length = len(json.dumps(second["trace"]))
    until(lambda: len(json.dumps(second["trace"])) > length)
    assert second["buttons"]["running"]
    second.request.query_params = {"trace": busy.history.share("0" * 24, RUN)}
    second.act(busy.on.open_linked)
    said = second["status"], second["trace"]["run"]
    following.result()
    assert (second["status"], second["trace"]["run"]) == said, "no late answer takes its place"


def test_settings_go_with_their_run_until_the_visitor_changes_one(here: Inside, two: Pair) -> None:
    page, link = compared(here, two), here.history.share("0" * 24, RUN)
    kept, parts = page["trace"]["kept"], here.parts
    sent = parts.judge, *parts.settings.values()
    page.values |= page.form(two, ASKED, "another", max_turns="2")

    def opened(**named: str) -> tuple[str, str]:
        page.act(here.on.open, {part: page.values[part] for part in sent}, **named)
        return page["judge"], page.values[parts.settings["max_turns"]]

    own, chosen = ("by hand", "6"), ("another", "2")
    opens = {"run": kept}, {"example": link}, {"run": kept}
    assert [opened(**each) for each in opens] == [own, chosen, own]
    page.values[parts.settings["max_turns"]] = "4"
    assert opened(example=link) == ("by hand", "4"), "a choice for the next run"


# -- the order -----------------------------------------------------------------------------------

FOREIGN = replace(RUN, started=replace(RUN.started, judge=CODE))
UNREAD = replace(RUN, finished=Finished(StopReason.NO_ANSWER))


@pytest.mark.parametrize(
    ("trace", "prompt", "players", "said"),
    [
        (UNREAD, ASKED, "ab", words.NOTHING_TO_CHECK),
        (RUN, "Something else.", "ab", words.OTHER_INPUTS),
        (RUN, ASKED, "aa", words.OTHER_INPUTS),
        (RUN, ASKED, "  ", words.NO_VIDEOS),
        (RUN, ASKED, "a ", words.NO_VIDEO.format(2)),
        (BRANCH, ASKED, "ab", words.CHECK_BRANCH),
        (FOREIGN, ASKED, "ab", words.CHECK_NO_JUDGE.format(CODE)),
    ],
)
def test_an_order_that_cannot_be_checked_is_told_beside_the_button(
    here: Inside, two: Pair, trace: Trace, prompt: str, players: str, said: str
) -> None:
    page, held = replaying(here, two, trace), {"a": str(two[0]), "b": str(two[1])}
    page.act(here.on.check, prompt, *map(held.get, players))
    assert (page["trace"]["refusal"], here.queue.counts()) == (said, (0, 0))
    nothing = OpenPage(here, "empty").act(here.on.check, prompt, None, None)
    assert nothing["status"] == words.NOTHING_TO_CHECK


@pytest.mark.parametrize("saved", [True, False])
def test_an_order_is_checked_again_and_again_and_kept(here: Inside, two: Pair, saved: bool) -> None:
    page = replaying(here, two) if saved else compared(here, two)
    before = page.session.shown
    before.link = "example"
    for _ in range(2):
        page.act(here.on.check, ASKED, *map(str, two))
        shown = page.session.shown
        assert page["trace"]["order"]["checked"]
        assert (shown.name, shown.files, shown.link) == (before.name, two, "")
        first, second = map(Path, (shown.run.job.pair.first, shown.run.job.pair.second))
        assert (second, first, shown.run.job.settings.swap) == (*two, "off")
        assert replace(shown.run.trace, swapped=None) == RUN
        assert shown.run.trace.swapped.finished == RUN.finished
    if not saved:
        until(lambda: here.history.open(before.owner, before.kept)[0].swapped)


# -- branches ------------------------------------------------------------------------------------


def branched(page: OpenPage, two: Pair, **asked: Any) -> list[dict[str, Any]]:
    """Begin a branch of the shown run; the strip afterwards."""
    asked = {"turn": 2, "frames": "4, 9", **asked}
    return strip(page.act(page.here.on.branch, *map(str, two), **asked))


def strip(page: OpenPage) -> list[dict[str, Any]]:
    return (page["trace"]["branches"] or {"runs": []})["runs"]


def show(page: OpenPage, place: object) -> Any:
    """Show another run of the strip; what is shown then."""
    return page.act(page.here.on.show_branch, ASKED, place=place)["trace"]


def test_a_branch_and_its_origin_can_both_be_shown(here: Inside, two: Pair) -> None:
    page = compared(here, two)
    assert strip(page) == []
    origin, branch = branched(page, two)
    assert [each["name"] for each in branch["labels"] if each["differs"]] == ["Visual quality"]
    assert "from turn 2, with frames 4, 9" in page["trace"]["notes"][0]
    places = {0: 0, 7: 0, -1: 0, "x": 0, None: 0, 1: 1}
    assert {place: show(page, place)["branches"]["shown"] for place in places} == places
    show(page, 0)
    assert page.session.shown.run.trace == RUN
    assert [run["name"] for run in strip(page)] == [origin["name"], branch["name"]]
    page.compare(two).result()
    assert strip(page) == [], "another run has no part in it"


def test_the_origin_and_the_run_a_branch_comes_from_stay(here: Inside, two: Pair) -> None:
    page = compared(here, two)
    for number in range(1, MAX_BRANCHES + 3):
        runs = branched(page, two, frames=str(number))
        assert (runs[0]["name"], runs[-1]["name"][-2:]) == ("First run", f"{number:2}")
        assert page["trace"]["branches"]["shown"] == len(runs) - 1 < MAX_BRANCHES
    show(page, 1)
    after = branched(page, two, frames="60")
    assert [run["name"] for run in after[:-1]] == [run["name"] for run in (*runs[:2], *runs[3:])]


@pytest.mark.parametrize(
    "wrong",
    [
        *[{"turn": turn} for turn in (None, True, 1.5, "²", 10**400, 0, 9)],
        *[{"frames": frames} for frames in ("4, x", "-4", "1," * 10_000, [4], "9" * 5000)],
        *[{"window": window} for window in ("often", [1])],
        *[{"judge": judge} for judge in ("none", {"a": 1})],
        {"prompt": "x" * (MAX_PROMPT + 1)},
    ],
    ids=lambda wrong: str(wrong)[:30],
)
def test_an_invented_branch_is_refused(here: Inside, two: Pair, wrong: dict[str, Any]) -> None:
    page = replaying(here, two).act(here.on.branch, *map(str, two), **{"turn": 2, **wrong})
    said = page["branches"]["refusal"]
    assert said[0].isupper()
    assert said.endswith(".")
    assert (page.session.shown.run.is_replay, here.queue.counts()) == (True, (0, 0))


# -- votes ---------------------------------------------------------------------------------------

LABELS = {"TA": 1, "MQ": 0, "VQ": None, "OA": 2}
FORM = {"labels": LABELS, "agrees": False, "slots": [60], "note": " A jump.\ud800 "}
FIRST = {"vote_first": "on"}  # the cookie of who votes first


def vote(page: OpenPage, given: object = FORM, act: str = "vote", run: str = "") -> Any:
    """What is kept of a vote on the shown run."""
    shown = page.session.shown
    page.act(page.here.on.vote, run=run or shown.name, act=act, vote=given)
    return shown.run.trace.vote


def test_a_vote_is_kept_downloaded_and_shared(here: Inside, two: Pair) -> None:
    page = compared(here, two)
    shown = page.session.shown

    def shared() -> Trace:
        return here.http.post(f"/runs/{shown.name}/link").json()["trace"]

    before = shared()
    forged = {"at": "2001-01-01T00:00:00Z", "blind": True}  # which no client decides
    given = vote(page, FORM | forged)
    labels = Verdict(TA=Preference.FIRST, MQ=Preference.TIE, OA=Preference.SECOND)
    assert (given.labels, given.agrees, given.slots) == (labels, False, (60,))
    assert (given.note, given.blind) == ("A jump.?", False)
    assert abs(datetime.now(UTC) - given.at) < timedelta(minutes=5)
    compared_with_judge = [row["compared"] for row in page["trace"]["vote"]["rows"]]
    assert compared_with_judge == ["differ", "agree", "", "agree"]
    assert here.history.open(shown.owner, shown.kept)[0].vote == given
    assert from_json(here.http.get(f"/runs/{shown.name}/trace.json").content).vote == given
    links = [here.history.linked(name)[0].vote for name in (before, shared())]
    assert links == [None, given], "a link shows what was shared"


def test_a_vote_on_a_shared_run_is_the_visitors_own(here: Inside) -> None:
    name = here.history.share("0" * 24, RUN)
    mine, other = OpenPage(here, "mine", "anna"), OpenPage(here, "other", "bert")
    for page in (mine, other):
        page.request.query_params = {"trace": name}
        page.act(here.on.open_linked)
    given, shown = vote(mine), mine.session.shown
    assert here.history.open(shown.owner, shown.kept)[0].vote == given
    assert (here.history.linked(name)[0].vote, other.session.shown.run.trace.vote) == (None, None)
    assert (shown.link, other.session.shown.link) == ("", name)
    mine.act(here.on.open_linked)
    assert vote(mine, run=shown.name) is None
    assert mine["status"] == words.NO_RUN, "that run is not shown any more"


def test_a_hidden_verdict_is_voted_on_blind_and_hidden_until_then(here: Inside, two: Pair) -> None:
    page = compared(here, two, **FIRST)
    page.act(here.on.branch, *map(str, two), turn=2)
    address = f"/runs/{page.session.shown.name}/turns/1/messages"
    assert (here.http.get(address).status_code, here.http.get(address).text) == (404, words.HIDDEN)
    blind = vote(page)
    origin, _ = strip(page)
    assert (origin["note"], origin["labels"]) == (words.HIDDEN, []), "it waits for a vote, too"
    assert (blind.blind, blind.agrees) == (True, None), "nobody agrees with what they did not see"
    assert page["trace"]["verdict"]
    ((told, *_),) = here.http.get(address).json()
    assert told[0].startswith(("Sent", "System prompt"))
    assert vote(page, FORM | {"note": "On second thought."}).blind
    assert not vote(page, FORM | {"labels": {"OA": 1}}).blind
    ballots = [show(page, place)["ballot"] for place in (0, 1)]
    assert [(each["hidden"], each["own"]) for each in ballots] == [(True, False), (False, True)]
    show(page, 0)
    vote(page, act="show")
    assert not vote(page).blind


def test_no_path_and_no_event_tells_a_hidden_verdict(here: Inside, two: Pair) -> None:
    """Every path of the page is asked, by each name of a run, and all that its events have sent."""
    page = compared(here, two, **FIRST)
    shown, tells = page.session.shown, ("What stood out", "is better", "reliable")
    names = shown.name, shown.kept, here.history.share(shown.kept, shown.run.trace)
    anna = here.client(VISITORS.signed("anna".ljust(43, "-")), **FIRST)
    paths = {
        re.sub(r"{turn[^}]*}", "1", route.path).replace("{name}", name)
        for route in here.routes.routes()
        for name in names
        if "GET" in (route.methods or ())
    }
    assert len(paths) > 15
    answers = [anna.get(path) for path in (*paths, *(f"/?trace={name}" for name in names))]
    assert not [each.url for each in answers for telling in tells if telling in each.text]
    link = anna.post(f"/runs/{shown.name}/link")
    assert (link.status_code, link.text) == (404, words.HIDDEN)
    pictures = [each for each in answers if "image" in each.headers["content-type"]]
    assert [each.url.path for each in pictures] == ["/previews/page.png"]
    assert not [telling for telling in tells if telling in str(dict(page.values))]
    vote(page, act="show")
    assert "is better" in str(dict(page.values))
    assert anna.get(f"/runs/{shown.name}/picture.png").headers["content-type"] == "image/png"


def test_a_vote_while_the_run_goes_on_outlives_its_end(busy: Inside, two: Pair) -> None:
    page = running(busy, two, **FIRST)
    given, shown = vote(page, FORM | {"slots": [16]}), page.session.shown
    page.stop()
    until(lambda: busy.history.open(shown.owner, shown.kept)[0].vote == given)
    both = handmade_runs.both_orders()
    later = replace(RUN.turns[0], frames=handmade_runs.pairs([17]))
    page = replaying(busy, trace=replace(both, swapped=replace(both.swapped, turns=(later,))))
    assert vote(page, {"slots": [17]}).slots == (17,), "a pair that only the second run showed"
    page = running(busy, two, "bert")
    assert vote(page) is None
    assert page["trace"]["ballot"]["refusal"] == words.TOO_EARLY, "they watch it being judged"


@pytest.mark.parametrize(
    "given",
    [
        *(None, "vote", [], {}, {"labels": {}, "note": "  "}, {"labels": {"TA": 7}}),
        *({"labels": "TA=1"}, {"note": "x" * 3000}, {"note": {"text": "x"}}, {"slots": [17]}),
        *({"slots": list(range(20))}, {"slots": [16, 16]}, {"agrees": "perhaps"}),
    ],
    ids=lambda given: str(given)[:30],
)
def test_a_vote_that_no_form_sends_is_refused_in_a_sentence(here: Inside, given: Any) -> None:
    page = replaying(here)
    assert vote(page, given) is None
    assert page["trace"]["ballot"]["refusal"].endswith(".")


# -- players -------------------------------------------------------------------------------------


def put(page: OpenPage, side: int, file: Path | None, prompt: str = "") -> str:
    """Upload a file into a player, or clear it; the status line afterwards."""
    player, parts = page.here.players[side - 1], page.here.parts
    page.values |= {parts.videos[side - 1]: file and str(file), parts.prompt: prompt}
    for event in (player.on_change, player.on_upload):
        page.act(event, page.values)
    return str(page["status"])


def test_a_run_whose_videos_were_replaced_says_what_it_judged(here: Inside, clips: Clips) -> None:
    told = zip(RUN.started.clips, clips, strict=True)
    one, other = (replace(clip, digest=file_digest(path)) for clip, path in told)
    page = replaying(here, trace=replace(RUN, started=replace(RUN.started, clips=(one, other))))
    for side, clip in enumerate(clips, 1):
        put(page, side, clip)
    assert page["trace"]["changed"] == "", "its own videos, put beside a run that was opened"
    page.act(here.on.swap_videos, page["first"], page["second"])
    assert (page["first"], page["status"]) == (str(clips[1]), words.SWAPPED)
    assert page["trace"]["changed"].endswith("judged these videos with the sides swapped.")
    page.act(here.on.swap_videos, page["first"], page["second"])
    assert put(page, 2, clips[0]) == words.CHANGED
    assert page["trace"]["changed"] == "This run judged another video 2: b.mp4."
    assert put(page, 1, None) == f"{words.REMOVED.format(1)} {words.ONE_VIDEO}"
    assert page["trace"]["emptied"] == {"first": words.EMPTIED}
    assert page["trace"]["changed"] == "This run judged other videos: a.mp4 and b.mp4."
    assert page["trace"]["verdict"], "it stays"
