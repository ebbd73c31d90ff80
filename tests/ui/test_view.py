"""What may be shown of a run: text stays text, nothing is invented, what is hidden is not sent."""

import json
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import given, strategies as st

from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S
from tests.ui.support import handmade_runs as runs
from tests.ui.support.handmade_runs import WHOLE, both_orders, pairs, started, three_turns
from tests.ui.support.saved_examples import ask
from vrthinker_core import types
from vrthinker_core.backends import ScriptedBackend
from vrthinker_core.protocols import make_protocol
from vrthinker_core.runner import judge
from vrthinker_core.types import Preference, Reply, Side, StopReason, Trace, wording
from vrthinker_core.types.events import (
    Branch,
    Finished,
    FramesShown,
    Origin,
    Swapped,
    TextArrived,
    add_event,
)
from vrthinker_core.types.messages import Completion
from vrthinker_core.types.order import swap_verdict
from vrthinker_core.ui import run, view, words
from vrthinker_core.ui.api import run_json
from vrthinker_core.ui.handlers import Services, strip_json
from vrthinker_core.ui.history import Examples, History, RunRecord
from vrthinker_core.ui.queue import JudgeQueue
from vrthinker_core.ui.routes import Routes, render_report
from vrthinker_core.ui.sessions import ShownRun
from vrthinker_core.ui.view import RunView
from vrthinker_core.ui.visitors import UNKNOWN

FLIP, STABLE = both_orders(WHOLE), both_orders(swap_verdict(WHOLE))
OUTSIDE = replace(three_turns(), finished=Finished(StopReason.ANSWERED, outside_scope=True))
THOUGHT = "I wonder about the ball. "
TOLD = both_orders(trace=runs.telling_probabilities(THOUGHT))
OPENING, ANSWERED = three_turns().turns[0], Finished(StopReason.ANSWERED, WHOLE)
ORIGIN, NOTHING = Origin("A ball pans.", "by hand", types.Settings()), Any
BOTH = ["#16", "#48"]


def image_of(frame: types.Thumbnail) -> view.Picture:
    return view.Picture(f"frames/{frame.ref.side}-{frame.ref.slot}.jpg", 1.0)


def page_of(told: Trace | None, **how: Any) -> Any:
    return RunView(told, **how).page(image_of)


def item_of(trace: Trace) -> Any:
    return run_json(RunView(trace))


def turn_of(**changes: Any) -> Any:
    """One turn as the page is given it."""
    return page_of(Trace(started(), (replace(OPENING, **changes),)))["turns"][0]


@given(st.integers(0, 50), st.sampled_from(["paired", "concat", "klingon"]))
def test_every_moment_of_a_run_can_be_shown(moment: int, protocol: str) -> None:
    events = list(both_orders(trace=three_turns(dialect=protocol)).events())[:moment]
    shown = RunView(reduce(add_event, events, None))
    json.dumps([shown.page(image_of), shown.messages(), run_json(shown)], allow_nan=False)
    assert shown.status(1.5)


def test_a_turn_is_shown_while_the_judge_writes_it_and_once_after_its_end() -> None:
    """In its parts, or, when nothing can be read, as it comes."""
    read = [["Snapshot", "A ball."], ["Think", "It"]]
    half = "<Snapshot>A ball.</Snapshot><Think>It"
    for text, parts in (("", []), ("noted 1", [["Writing", "noted 1"]]), (half, read)):
        events = started(), FramesShown(1, "told", pairs([16, 48])), TextArrived(1, text)
        (turn,) = page_of(reduce(add_event, events, None))["turns"]
        assert [tile["label"] for tile in turn["tiles"]] == ["#16", "#48"]
        assert (turn["parts"], turn["live"]) == (parts, True)
    cut = turn_of(completion=Completion(half, "cancelled"), reply=Reply(half, "A ball.", "It"))
    unread = turn_of(completion=Completion("noted"), reply=Reply("noted"))
    assert (cut["parts"], unread["parts"]) == (read, [["Reply as it came", "noted"]])


CALL = '<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>'
CUT = ["", "<Think>it ro", "<Think>x</Think><Answer>TA=1, MQ", "<Snapshot>a</Snapshot>"]


@pytest.mark.parametrize("text", [*CUT, f"<Think>x</Think>{CALL} and"])
def test_a_turn_that_was_stopped_is_not_blamed_for_it(text: str, tmp_path: Path) -> None:
    """A whole reply of this kind is; one that had asked for frames says so."""
    pair = types.VideoPair("p", tmp_path / "a.mp4", tmp_path / "b.mp4")
    events = started(), FramesShown(1, "told", pairs([16])), TextArrived(1, text)
    job = run.RunJob(pair, types.Settings(), tmp_path / "trace.json", tmp_path / "stop")
    stopped = run.BackgroundRun(job, lambda _: (event for event in events), JudgeQueue())
    stopped.start()
    assert stopped.join(PATIENCE_S)
    (turn,) = page_of(stopped.trace)["turns"]
    said = "asked for 2 more" if CALL in text else "stopped"
    assert (turn["state"], turn["remarks"]) == (f"1 pair to begin with · {said}", [])
    reply = make_protocol(types.Settings(), "paired").parse(text)
    whole = turn_of(completion=Completion(text), reply=reply)
    assert CALL in text or (whole["remarks"] and "answer" in whole["state"])


LABELS = ["Video 1", "Video 1", "Video 2", "No difference"]
SAID = ["Not said", "Video 1", "No difference", "Not said"]
PARTIAL = types.Verdict(TA=Preference.FIRST, VQ=Preference.TIE)
ENDS = [
    (ANSWERED, "Video 1 is better", LABELS, 0),
    (Finished(StopReason.TURN_LIMIT, WHOLE, True, True), "Video 1 is better", LABELS, 2),
    (Finished(StopReason.NO_ANSWER, PARTIAL), "No overall verdict", SAID, 1),
    *((Finished(stop, error="Why. What to do."), "No verdict", [], 0) for stop in StopReason),
    (Finished(StopReason.FAILED, error="Sound only.", fault="VideoError"), "No verdict", [], 0),
]


@pytest.mark.parametrize(("finished", "headline", "labels", "caveats"), ENDS)
def test_no_label_is_invented(finished: Finished, headline: str, labels: Any, caveats: int) -> None:
    """What the judge left open is not filled in, and what ended the run keeps its turns."""
    trace = replace(three_turns(), finished=finished)
    shown, item = page_of(trace), item_of(trace)
    assert shown["verdict"]["headline"].startswith(headline)
    assert [chip["label"] for chip in shown["verdict"]["chips"]] == labels
    assert len(shown["verdict"]["caveats"]) == caveats
    assert [turn["live"] for turn in shown["turns"]] == [False] * 3
    given = finished.verdict and {each.value: label for each, label in finished.verdict}
    told = given, finished.stop, finished.error, finished.provisional, finished.forced
    names = "labels", "stop", "error", "provisional", "forced"
    assert tuple(item[name] for name in names) == told
    wanted = [turn["requested"] for turn in item["turns"]]
    assert wanted == [[10, 30, 60, 90], [56, 58, 60, 62, 64, 66], []]
    if finished.stop is StopReason.FAILED:
        advice = f"{finished.error} {words.OTHER_VIDEO}" if finished.fault else finished.error
        assert page_of(None, ended=finished)["ending"] == shown["ending"] == advice


def test_frames_that_do_not_come_again_are_a_remark_of_the_turn_that_would_show_them() -> None:
    opening, late = pairs([16, 48]), pairs([10])
    in_view = runs.refs((*opening, *late))
    asking = runs.asking(1, opening, [16, 10, 48]), runs.asking(2, late, [10, 16], in_view)
    trace = Trace(started(), (*asking, runs.answering(3, (), view=in_view)), ANSWERED)
    again = [[], ["Already shown: 16, 48."], ["Already shown: 10, 16."]]
    for turns in (page_of(trace)["turns"], item_of(trace)["turns"]):
        assert [turn["remarks"] for turn in turns] == again
    branch = page_of(replace(trace, started=started(branch=Branch(ORIGIN, 3, frames=(48,)))))
    assert branch["turns"][2]["remarks"] == ["Already shown: 48."]
    assert branch["no_check"], "one that took turns over is never checked"
    assert not page_of(replace(trace, started=started(branch=Branch(ORIGIN, 1))))["no_check"]


@pytest.mark.parametrize(("protocol", "window"), [("paired", 1), ("paired", "all"), ("concat", 2)])
def test_what_the_judge_asks_for_has_its_place_before_it_comes(
    protocol: types.ProtocolName, window: int | Literal["all"], pair: types.VideoPair
) -> None:
    """The places are those of the very frames that come next, and no others."""
    asked = (10, 30, 60), (30, 40), (10, 50, 200), (10, 50), (10, 30)
    replies = [*(ask(*indices) for indices in asked), runs.ANSWER]
    settings = types.Settings(window=window, max_turns=6, swap="on")
    trace, places = None, list[list[Any]]()
    for event in judge(pair, ScriptedBackend(replies, protocol=protocol), settings):
        before, after = page_of(trace), page_of(trace := add_event(trace, event))
        if isinstance(event, Swapped):
            event, before = event.event, before["order"] and before["order"]["run"]
            after = after["order"]["run"]
        if isinstance(event, FramesShown) and event.turn > 1:
            coming = before["coming"] or {"tiles": [], "state": "no new frames"}
            turn = after["turns"][-1]
            places.append([drawn_at(tile) for tile in coming["tiles"]])
            assert places[-1] == [drawn_at(tile) for tile in turn["tiles"]]
            assert turn["state"] == coming["state"]
            again = turn["remarks"][0] if turn["remarks"] and places[-1] else ""
            assert again in before["turns"][-1]["wants"]
    assert len(places) == 10
    assert any(places)
    assert page_of(trace)["coming"] is None


def test_a_long_run_is_told_in_few_bytes() -> None:
    """Six turns of twelve pairs: the page opens a saved one in less than a second."""
    shown = [pairs(range(turn, 128, 11)) for turn in range(6)]
    turns = [runs.asking(turn, each, range(turn, 128, 11)) for turn, each in enumerate(shown, 1)]
    told = json.dumps(page_of(Trace(started(), tuple(turns), ANSWERED)))
    assert told.count(".jpg") == 2 * sum(len(range(turn, 128, 11)) for turn in range(6))
    assert len(told) < 100_000


def drawn_at(tile: Any) -> list[Any]:
    """What is known of a tile before its frames come."""
    halves = [half and (half["place"], half["ratio"]) for half in tile["halves"]]
    return [tile["label"], tile["slot"], *halves]


def test_a_request_is_told_while_it_is_written(pair: types.VideoPair) -> None:
    trace, told = None, list[Any]()
    for event in judge(pair, ScriptedBackend([ask(10, 16, 30), runs.ANSWER], protocol="paired")):
        trace = add_event(trace, event)
        if isinstance(event, TextArrived) and event.turn == 1:
            page = page_of(trace)
            tiles = page["coming"]["tiles"] if page["coming"] else []
            told.append((page["turns"][0]["wants"], [tile["label"] for tile in tiles]))
    one = "It wants 1 more pair: #10 …"
    both = "It wants 2 more pairs: #10 #30 … Already shown: 16.", ["#10", "#30"]
    known = [each for n, each in enumerate(told) if n == 0 or each != told[n - 1]]
    assert known[0] == ("", [])
    assert known[-1] == both
    between = (one, ["#10"]), (f"{one} Already shown: 16.", ["#10"])
    assert all(each in between for each in known[1:-1])
    assert len(known) > 2


@given(st.lists(st.tuples(st.integers(0, 127), st.sampled_from(Side)), unique=True, max_size=40))
def test_every_frame_is_on_one_tile_and_on_its_own_side(places: list[tuple[int, Side]]) -> None:
    tiles = view.group_tiles([runs.thumbnail(*place) for place in places])
    halves = [(half.ref, side) for tile in tiles for side, half in tile.halves.items()]
    assert sorted((ref.slot, side) for ref, side in halves) == sorted(places)
    assert all(ref.side is side for ref, side in halves)


def test_a_tile_names_what_the_judge_saw_and_marks_what_it_sees_no_more() -> None:
    one, other = (runs.thumbnail(12, side, str(48 * side)) for side in Side)
    assert [tile.label for tile in view.group_tiles([one, other])] == ["#48 · #96"]
    (alone,) = view.group_tiles([other])
    first, second = alone.to_json((None, None), frozenset(), image_of)["halves"]
    assert (alone.label, first, second["gone"]) == ("#96", None, True)
    tiles = [turn["tiles"] for turn in page_of(three_turns())["turns"]]
    gone = [[tile["label"] for tile in each if "gone" in tile["halves"][0]] for each in tiles]
    assert gone == [[], ["#10", "#30", "#90"], []], "60 came back in the third turn"


def test_the_rail_counts_as_the_protocol_does() -> None:
    grids = [page_of(three_turns(dialect=each))["grid"] for each in ("paired", "concat", "klingon")]
    counts = [grid and (grid["slots"], *grid["first"], grid["last"]) for grid in grids]
    assert counts == [(128, 0, 0, "127"), (48, 1, 49, "96"), None]


@given(st.integers(), st.floats(), st.floats())
def test_times_and_places_are_finite(index: int, seconds: float, until: float) -> None:
    frame = runs.thumbnail(16, Side.FIRST)
    assert frame.seconds < view.seek_time(frame) < frame.until
    odd = replace(frame, index=index, seconds=seconds, until=until)
    assert abs(view.seek_time(odd)) < float("inf")
    assert 0 <= view.timeline_position(odd, runs.clip("a")) <= 1


def test_a_flip_has_no_winner_and_every_tile_stands_on_the_persons_sides() -> None:
    shown = RunView(FLIP).page(view.inline_image)
    order, tie = shown["order"], "No difference"
    assert "chose the side shown first both times" in shown["verdict"]["headline"]
    assert (order["line"], page_of(STABLE)["order"]["line"]) == ("", ""), "it is told once"
    chips = [(each["label"], each["value"], each["order"]) for each in shown["verdict"]["chips"]]
    flips = "Flips", None, "As given: Video 1. Sides swapped: Video 2."
    other = "Flips", None, "As given: Video 2. Sides swapped: Video 1."
    assert chips == [flips, flips, other, (tie, Preference.TIE, "")]
    assert item_of(FLIP)["labels"]["OA"] == Preference.FIRST
    shown_run = ShownRun("a", run.Replay(FLIP), NOTHING)
    strip = strip_json([shown_run, shown_run], shown_run)
    assert [each["label"] for each in strip["runs"][0]["labels"]] == [*["Flips"] * 3, tie]
    for first, second in zip(shown["turns"], order["run"]["turns"], strict=True):
        for both in zip(first["tiles"], second["tiles"], strict=True):
            one, two = ([half["src"] for half in tile["halves"]] for tile in both)
            assert one == two[::-1]


BROKEN = Finished(StopReason.FAILED, error="It broke.")


@pytest.mark.parametrize(
    ("finished", "why"), [(None, ""), (BROKEN, "Order not checked: It broke.")]
)
def test_without_a_second_verdict_the_first_one_stands(finished: Finished | None, why: str) -> None:
    trace = replace(FLIP, swapped=replace(FLIP.swapped, finished=finished))
    shown, item = page_of(trace), item_of(trace)
    assert shown["verdict"] == page_of(three_turns())["verdict"]
    told = tuple(shown["order"][name] for name in ("line", "checked", "live"))
    assert told == (why or words.CHECKING, False, not why)
    second = tuple(item["swapped"][name] for name in ("stop", "labels", "order", "unchecked"))
    assert second == (finished and finished.stop, None, None, why)
    assert item["labels"] == {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
    assert RunView(trace).status(3).startswith("Sides swapped: ") == (not why)


def test_a_doubtful_label_says_how_likely_it_was_and_programs_are_told_all_numbers() -> None:
    told, untold = page_of(TOLD), page_of(three_turns())
    for shown, likely in ((told, [False, False, False, True]), (untold, [False] * 4)):
        assert ["likely" in chip["help"] for chip in shown["verdict"]["chips"]] == likely
        labels = shown["turns"][-1]["labels"]
        assert [bool(label["probability"]) for label in labels] == likely
    item, shares = item_of(TOLD), {name: list(each) for name, each in runs.SHARES.items()}
    assert item["probabilities"] == item["turns"][-1]["probabilities"] == shares
    back = {name: [tie, second, first] for name, (tie, first, second) in shares.items()}
    assert item["swapped"]["probabilities"] == back
    assert [turn["reasoning"] for turn in item["turns"]] == ["", "", THOUGHT]
    assert item_of(three_turns())["probabilities"] is None
    *before, last = TOLD.turns
    partial = replace(last, reply=replace(last.reply, verdict=replace(WHOLE, VQ=None)))
    ended = Finished(StopReason.TURN_LIMIT, replace(WHOLE, VQ=None))
    item = item_of(Trace(TOLD.started, (*before, partial), ended))
    assert item["probabilities"] == {**shares, "VQ": None}, "a label that was never said"


def test_a_judge_that_says_nothing_is_told_in_place_of_an_estimate() -> None:
    goes_on = RunView(replace(three_turns(), finished=None))
    for now, told in ((69, "at most "), (71, "no word for 21 s")):
        pace = types.events.Pace((0.0, 10.0, 20.0), latest=50.0)
        assert told in goes_on.status(now, pace), goes_on.status(now, pace)
    busy = pace.after(types.messages.Retrying(3, 6, True), 60.0)
    assert goes_on.status(71, busy).endswith(" · the server is busy, try 3 of 6")
    assert "busy" not in goes_on.status(71, busy.after(types.events.TextArrived(3, "W"), 61.0))


CLAIMS = [
    (three_turns(), "Video 1 is better", "asked in one order only"),
    (STABLE, "Video 1 is better", "✓ the same in both orders"),
    (FLIP, "No reliable winner: it chose the side shown first both times", "asked in both orders"),
    (OUTSIDE, "No verdict: this judge cannot judge real videos", ""),
]


@pytest.mark.parametrize(("trace", "headline", "note"), CLAIMS)
def test_all_say_the_same(trace: Trace, headline: str, note: str, tmp_path: Path) -> None:
    """Page, list and the preview of a link."""
    verdict = page_of(trace)["verdict"]
    assert (verdict["headline"], verdict["note"]) == (headline, note)
    in_list = "Demo run, no verdict" if trace is OUTSIDE else headline
    row = RunRecord.of("", trace, 0.0, 0.0).row("name")
    assert (row["outcome"], row["unchecked"]) == (in_list, note)
    history = History(tmp_path)
    services: Any = *[NOTHING] * 3, history, Examples(tmp_path), NOTHING
    routes, name = Routes(Services(*services), NOTHING), history.share("0" * 24, trace)
    preview = run_in_thread(routes.preview(name, UNKNOWN))
    assert preview.title.startswith(in_list.rstrip("."))
    assert ("Video 1" in preview.description) == headline.startswith("Video 1")
    assert headline in render_report(trace)


def test_outside_its_scope_no_label_reaches_anybody() -> None:
    shown, item = page_of(OUTSIDE), item_of(OUTSIDE)
    assert OUTSIDE.turns[-1].reply.verdict is not None
    assert (item["outside_scope"], item["stop"]) == (True, "answered")
    for told in (item, *item["turns"]):
        assert told["labels"] is told["probabilities"] is None
    assert not any((shown["verdict"]["chips"], *(turn["labels"] for turn in shown["turns"])))
    assert shown["ending"] == ""
    outside = shown["verdict"]["outside"]
    assert "looked at 4 pairs, asked for 10 more, and stopped" in outside["told"]
    wrote, turns = json.dumps(outside["wrote"]), json.dumps(shown["turns"])
    assert ("What stood out in turn 3." in wrote, runs.THINK in wrote) == (True, True)
    assert ("What stood out" in turns, runs.THINK in turns) == (False, False), "noise is put away"
    origin, branch = (ShownRun(name, run.Replay(OUTSIDE), NOTHING) for name in "ab")
    strip = strip_json([origin, branch], branch)
    said = [(each["note"], each["labels"]) for each in strip["runs"]]
    assert said == [("Demo run, no verdict", [])] * 2


def test_a_script_wins_nothing() -> None:
    shown = page_of(replace(three_turns(), finished=replace(ANSWERED, scripted=True)))
    assert shown["verdict"]["headline"] == wording.SCRIPTED
    assert (shown["verdict"]["note"], shown["verdict"]["says"]) == (wording.SCRIPTED_HELP, "")


COUNTED = "TA (#16, #48): video 1 has {} wrong, video 2 has {} wrong, so neither is better.\n"
NEITHER = "OA: " + "".join(f"neither leads on the {each}, " for each in view.OVERALL_TOPICS)
ASKED = {"Count": "one", "Colour": "red", "Shape": "cube", "Direction": "left"}


def facts(**wrong: str) -> str:
    """What nano notes of a scene, with what video 2 gets wrong."""
    told = []
    for kind, asked in ASKED.items():
        noted = f"{wrong[kind]}, not as asked" if kind in wrong else f"{asked}, as asked"
        told.append(f"{kind} {asked}: video 1 {asked}, as asked; video 2 {noted}.\n")
    return "".join(told) + COUNTED.format("no fact", "one fact" if wrong else "no fact")


MISSING = "".join(
    f"Second thing's {kind} {it}: video 1 {it}, as asked; video 2 none.\n"
    for kind, it in (("count", "two"), ("colour", "blue"), ("shape", "ring"))
)
OTHER = "ideo 2 gets the colour wrong, so video 1 is better."
FIRST, SECOND, TIE = Preference.FIRST, Preference.SECOND, Preference.TIE
QUOTED = [
    (facts(Colour="black"), FIRST, "Video 2's cube is black; the prompt says red.", ["#16"]),
    (facts(Count="three"), FIRST, "Video 2 shows three cubes; the prompt says one.", ["#16"]),
    (facts(Shape="ball"), FIRST, "Video 2 shows one ball; the prompt says cube.", ["#16"]),
    (facts(Direction="right"), FIRST, "Video 2's cube moves right; the prompt says left.", BOTH),
    *((facts(Colour="black"), label, "", BOTH) for label in (SECOND, TIE)),
    (COUNTED.format("no fact", "one fact"), FIRST, "", BOTH),
    (facts(), TIE, "Both videos show what the prompt says.", BOTH),
    (MISSING + facts(), FIRST, "Video 2 shows no blue rings.", ["#16"]),
    (f"{facts()}TA: v{OTHER}\n", FIRST, f"V{OTHER}", []),
]


@pytest.mark.parametrize(("think", "label", "said", "frames"), QUOTED)
def test_the_deciding_fact_is_quoted(think: str, label: Preference, said: str, frames: Any) -> None:
    """Nothing is, where its facts do not say so, or it did not write which decided."""
    verdict = replace(WHOLE, TA=label)
    last = runs.answering(1, pairs([16, 48]), verdict)
    turn = replace(last, reply=replace(last.reply, think=think + NEITHER))
    shown = page_of(Trace(started(), (turn,), Finished(StopReason.ANSWERED, verdict)))
    chips = {chip["name"]: (chip["reason"], chip["frames"]) for chip in shown["verdict"]["chips"]}
    assert chips["Text alignment"] == (said, frames)
    assert chips["Overall"][0] == "It found no difference in prompt, picture or motion."


def test_a_tile_says_how_it_came_and_whether_the_reasoning_names_it() -> None:
    """The whole thought of the answer counts; a part of a branch may be a person's choice."""
    first, second, last = three_turns().turns
    thought = "At 16 all is well. #99 is none. VQ: frame 30 jumps in 2 s, so video 1 is better."
    last = replace(last, reply=replace(last.reply, think=thought))
    whole = replace(three_turns(), turns=(first, second, last))
    branch = started(branch=Branch(ORIGIN, 3, frames=(56, 58)))
    other = replace(first, reply=replace(first.reply, wants=None))
    branched = replace(whole, turns=(other, second, last), started=branch)

    def came(trace: Trace, *numbers: int) -> list[str]:
        tiles = [tile for turn in page_of(trace)["turns"] for tile in turn["tiles"]]
        marks = {tile["label"]: " ".join(tile["marks"]) for tile in tiles}
        return [marks[f"#{number}"] for number in numbers]

    named = ["given named", "given", "requested named", "requested", "requested"]
    assert came(whole, 16, 48, 30, 90, 62) == named
    assert came(branched, 16, 90, 62) == ["given named", "chosen", "requested"]
    cut = replace(whole, finished=Finished(StopReason.CANCELLED))
    assert came(cut, 16) == came(OUTSIDE, 16) == ["given"], "no verdict, no reasoning for it"
    assert "named" not in json.dumps(view.hide_verdict(page_of(whole)))


def test_of_a_hidden_run_nothing_is_sent_that_tells_its_verdict() -> None:
    shown = page_of(replace(TOLD, turns=(replace(OPENING, forced=True), *TOLD.turns[1:])))
    hidden = view.hide_verdict(shown)
    for telling in (THOUGHT, "%", "reliable", "What stood out", "sharp", "asked for 4", "answer"):
        assert telling in json.dumps(shown)
        assert telling not in json.dumps(hidden)
    assert [turn["tiles"] for turn in hidden["turns"]] == [turn["tiles"] for turn in shown["turns"]]
