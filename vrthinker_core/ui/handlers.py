"""The event handlers of the page, over its services; `connect` says which event calls which.

A handler returns, or yields, the components that change. An event that streams never sends the
videos: a player that is left out would hold the mark for that as its file.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import gradio as gr
from pydantic import ValidationError

from vrthinker_core.backends.judge_name import JudgeGroup
from vrthinker_core.branch_plan import MAX_FRAMES, Changes, plan_branch
from vrthinker_core.errors import (
    BadInput,
    NoCopy,
    TraceError,
    VideoUnavailable,
    VrThinkerError,
    type_adapter,
)
from vrthinker_core.protocols.base import check_prompt
from vrthinker_core.traces import load, storable
from vrthinker_core.types import Side, VideoPair, Vote
from vrthinker_core.types.events import Started, Trace, shown_slots
from vrthinker_core.types.settings import parse_settings, setting
from vrthinker_core.types.wording import DEMO_RUN
from vrthinker_core.ui import words
from vrthinker_core.ui.chooser import PUBLIC, JudgeChooser
from vrthinker_core.ui.history import Examples, History, SavedRun, votes_first
from vrthinker_core.ui.judges import JudgeLoader
from vrthinker_core.ui.layout import FormValues, PageComponents, Updates, form_values, no_updates
from vrthinker_core.ui.queue import CheckedBlocks, JudgeQueue, upload_place
from vrthinker_core.ui.run import FoundVideos
from vrthinker_core.ui.runs_tab import ListedRuns
from vrthinker_core.ui.sessions import Session, Sessions, ShownRun
from vrthinker_core.ui.uploads import Uploads
from vrthinker_core.ui.view import Json, RunView, hide_verdict
from vrthinker_core.ui.visitors import FOLLOWERS, Shares, Turns, Visitor, visitor_of
from vrthinker_core.video.files import file_digest
from vrthinker_core.video.measure import Measurement, measure
from vrthinker_core.words import encodable

POLL_SECONDS = 0.03  # between two looks
UPDATE_SECONDS = 0.12  # between two updates of the page, at least
CLOCK_SECONDS = 1.0  # between two updates, at most: the status line shows the seconds
PLACE_SECONDS = 0.25  # between two looks at the queue
PATIENCE_SECONDS = 1.0  # for an event to see that its page shows another run
READ_AT_ONCE = 2  # saved runs: strangers' are large
FOLLOWERS_A_RUN = 8
AGAIN_SECONDS = 5  # until a page asks again that may not follow its run


@dataclass(frozen=True, slots=True)
class Services:
    """The state of one server, shared by all handlers and routes of its page."""

    judges: JudgeLoader
    queue: JudgeQueue
    sessions: Sessions
    history: History
    examples: Examples
    uploads: Uploads
    runs: ListedRuns | None = None  # an evaluation, or traces, for every visitor
    offered: Collection[JudgeGroup] = PUBLIC  # which kinds of judges visitors may choose
    following: Shares = field(default_factory=lambda: Shares(FOLLOWERS))

    def stored_run(self, name: str) -> SavedRun:
        """Find the run of `?trace=NAME`. Raises TraceError without one."""
        if self.runs is not None and (row := self.runs.find(name)) is not None:
            return SavedRun(self.runs.trace(row), self.runs.videos(row), link=name)
        if example := self.examples.by_name.get(name):
            return SavedRun(example.trace, link=name)
        return SavedRun(*self.history.linked(name), link=name)


async def wait_while(holds: Callable[[], object], seconds: float) -> None:
    """Wait until that no longer holds, at most `seconds`."""
    for _ in range(round(seconds / POLL_SECONDS)):
        if not holds():
            return
        await asyncio.sleep(POLL_SECONDS)


class Handlers:
    """Handlers of the events of `parts`."""

    def __init__(self, parts: PageComponents, services: Services) -> None:
        self.parts, self.services = parts, services
        judges, sessions, offered = services.judges, services.sessions, services.offered
        self.chooser = JudgeChooser(parts, judges, sessions, offered)
        self._reading, self._measuring = Turns(READ_AT_ONCE, "read"), Turns(1, "measure")

    def session_of(self, request: gr.Request) -> Session:
        """Return the session of the open page; a reload begins a new one."""
        return self.services.sessions.get(str(request.session_hash))

    # -- judge and players -----------------------------------------------------------------------

    async def show_judge(self, request: gr.Request, judge: str = "") -> AsyncIterator[Updates]:
        """Show that the chosen judge is loading, then its name, or why it cannot be had.

        `judge`: "" when a page is opened. A shown run stays; its own judge is named as long as it
        is shown. The choice is read anew each time, so that only the newest is shown.
        """
        session, judges, parts = self.session_of(request), self.services.judges, self.parts
        kept = unquote(request.cookies.get("judge", ""))  # of an earlier visit
        with suppress(BadInput):  # of a judge that is not offered: the one before stays
            session.judge = self.chooser.name_of(session, judge or session.judge or kept)
        opens_trace = not judge and "trace" in request.query_params
        while not judges.is_loaded(session.judge):
            yield {parts.chooser: self.chooser.chip(session.judge), parts.judge: session.judge}
            await asyncio.sleep(0.25)
        told: Updates = {parts.chooser: self.chooser.chip(session.judge), **self.scope(session)}
        told[parts.judge] = session.judge
        told |= self._protocol_choice(session.judge, bool(judge))
        if not opens_trace and session.shown is None:  # the empty page (`page.js`)
            _, trouble = judges.look(session.judge)
            if trouble and len(judges.names) > 1 and "another judge" not in trouble:
                trouble = f"{trouble} Choose another judge beside Compare."
            told[parts.trace] = {"introduction": True, "turns": (), "ending": trouble}
        yield told

    def _protocol_choice(self, judge: str, chosen: bool) -> Updates:
        """Offer a protocol where the judge knows several, or names none."""
        found, _ = self.services.judges.look(judge)
        offered = found is not None and len(found.protocols) != 1
        # What was chosen for another judge would fail with this one
        value = gr.skip() if offered or not chosen else {"value": setting("protocol").default}
        return {self.parts.settings["protocol"]: {**gr.update(visible=offered), **value}}

    def swap_videos(self, first: str | None, second: str | None, request: gr.Request) -> Updates:
        """Swap the videos. A shown run stays, and says what it judged."""
        session = self.session_of(request)
        if session.is_busy:
            return no_updates()  # the videos that were sent stay those that are shown
        session.players.reverse()
        swapped: Updates = {self.parts.first: second, self.parts.second: first}
        if session.shown is None:
            return swapped
        line = words.SWAPPED if session.changed_sides() else self._status(session.shown)
        return {**swapped, **self.changed_run(session, line)}

    async def measure(self, first: str | None, second: str | None, request: gr.Request) -> Updates:
        """Return what is measured on both videos: curves of (seconds, difference), and facts.

        The value names the files: Gradio's page hears of no value that is equal to the last one.
        """
        session, uploads = self.session_of(request), self.services.uploads
        held = [player.digest for player in session.players]
        pool = self.services.judges.decoder_pool

        def changed() -> bool:
            return held != [player.digest for player in session.players]

        def work() -> Measurement:
            videos = (uploads.original_of(Path(path or "")) for path in (first, second))
            return measure(VideoPair("", *videos), cancelled=changed, decoder_pool=pool)

        try:
            found = await self._measuring.run(visitor_of(request), work)
        except VrThinkerError:
            return {self.parts.rail: {"of": [first, second]}}  # a comparison says why
        curves = [[*zip(each.times, each.differences, strict=True)] for each in found.videos]
        facts = [
            {"text": each.text, "side": each.sides[0], "at": each.start} for each in found.facts
        ]
        return {self.parts.rail: {"of": [first, second], "curves": curves, "facts": facts}}

    # -- runs ------------------------------------------------------------------------------------

    def compare(self, values: FormValues, request: gr.Request) -> Updates:
        """Let the two videos in the players be compared."""
        session, parts, services = self.session_of(request), self.parts, self.services
        if faults := self._faults(session, values):
            return self._refused(session, {parts.status: words.NOT_STARTED}, faults)
        try:
            originals = (services.uploads.original_of(Path(values[part])) for part in parts.videos)
            pair = VideoPair(values[parts.prompt], *originals)
            judge = self.chooser.name_of(session, values[parts.judge])
            settings = parse_settings({name: values[part] for name, part in parts.settings.items()})
            start = services.sessions.start_run
            shown = start(session, pair, settings, judge, visitor_of(request))
            shown.hidden = votes_first(request.cookies)
        except BadInput as bad:
            return self._refused(session, {parts.status: str(bad)})
        return self._begun(session)

    def _faults(self, session: Session, values: FormValues) -> dict[str, str]:
        """Say what is wrong with each field of the form, by its id."""
        parts, services, faults = self.parts, self.services, dict[str, str]()
        for side, part, player in zip(Side, parts.videos, session.players, strict=True):
            name, path = str(part.elem_id), values[part]
            if not path:
                faults[name] = words.MISSING_VIDEO.format(int(side))
            elif not services.uploads.original_of(Path(path)).is_file():
                faults[name] = words.GONE
            elif player.refusal:
                faults[name] = f"{player.refusal} {words.OTHER_VIDEO}"
        checks: dict[Any, Callable[[Any], object]] = {
            parts.prompt: lambda prompt: check_prompt(prompt or ""),
            parts.judge: lambda judge: self.chooser.name_of(session, judge),
            **{part: setting(name).parse for name, part in parts.settings.items()},
        }
        for part, check in checks.items():
            try:
                check(values[part])
            except BadInput as bad:
                faults[part.elem_id] = str(bad)
        return faults

    def check(
        self, prompt: str | None, first: str | None, second: str | None, request: gr.Request
    ) -> Updates:
        """Let the pair be judged again with the sides swapped."""
        session, parts = self.session_of(request), self.parts
        try:
            shown, trace = _ended(session, words.NOTHING_TO_CHECK)
            started = trace.started
            if trace.finished is None or trace.finished.verdict is None:
                raise BadInput(words.NOTHING_TO_CHECK)
            if started.is_taken_over(1):
                raise BadInput(words.CHECK_BRANCH)
            if encodable(prompt or "").strip() != started.prompt.strip():
                raise BadInput(words.OTHER_INPUTS)
            videos = self._compared(shown, started, first, second)
            judge = self._judge_of(session, shown, words.CHECK_NO_JUDGE)
            pair = VideoPair(started.prompt, *videos)
            check, visitor = self.services.sessions.check_order, visitor_of(request)
            check(session, shown, pair, started.settings, judge, visitor)
        except BadInput as bad:
            said: Updates = {parts.status: str(bad)}
            if former := session.shown:
                said = {parts.trace: {**self._view(session, former), "refusal": str(bad)}}
            return self._refused(session, said)
        return self._begun(session)

    def branch(
        self, first: str | None, second: str | None, event: gr.EventData, request: gr.Request
    ) -> Updates:
        """Let a branch of the shown run be judged, in its place."""
        session, branches = self.session_of(request), self.parts.branches
        try:
            turn, changes = read_branch(event)
            asked = getattr(event, "judge", None)
            judge = self.chooser.name_of(session, asked) if asked else ""
            shown, trace = _ended(session, words.BRANCH_NO_RUN)
            plan = plan_branch(trace, turn, changes)
            judge = judge or self._judge_of(session, shown, words.NO_JUDGE)
            videos = shown.files
            if len(videos) < 2:
                videos = self._compared(shown, trace.started, first, second)
            pair, visitor = VideoPair(plan.prompt, *videos), visitor_of(request)
            start = self.services.sessions.start_run
            begun = start(session, pair, plan.settings, judge, visitor, plan)
            begun.hidden = votes_first(request.cookies)
        except BadInput as bad:
            return self._refused(session, {branches: {"refusal": str(bad)}})
        return {branches: {"refusal": ""}, **self._begun(session)}

    def show_branch(self, prompt: str | None, event: gr.EventData, request: gr.Request) -> Updates:
        """Show the run that the strip names, unless one goes on."""
        session, place = self.session_of(request), getattr(event, "place", None)
        before = session.shown
        runs = session.branches if before in session.branches else ()
        kept = dict(enumerate(runs)).get(place) if isinstance(place, int) else None
        if before is None or kept is None or kept is before or session.is_busy:
            return no_updates()
        trace = kept.run.trace
        assert trace is not None, "only the shown run may never have begun"
        saved, start = SavedRun(storable(trace), (), kept.link, kept.kept), self.services.sessions
        after = start.start_replay(session, saved, before.run.videos, before.owner)
        after.hidden, after.voted = kept.hidden, kept.voted
        begun = (run for run in runs if run.run.trace)
        session.branches = [after if run is kept else run for run in begun]
        updates, judged = self._finished(session, after), before.run.trace
        if judged and (prompt or "").strip() == judged.started.prompt.strip():
            updates[self.parts.prompt] = trace.started.prompt
        return updates

    def stop(self, pressed: Json, prompt: str | None, request: gr.Request) -> Updates:
        """Stop the run whose Stop was `pressed`, and no later one.

        What the judge had seen and written stays.
        """
        session, idle = self.session_of(request), self.parts.buttons_of(pressed["number"])
        if pressed["number"] != session.number:
            return idle
        if session.waiting is not None:
            self.services.sessions.drop_waiting(session)
        elif session.shown is not None:
            session.shown.run.stop()
        if session.shown is None:
            first, second = (player.digest for player in session.players)
            return {self.parts.status: words.next_step(first, second, prompt), **idle}
        return {**self._updates(session, session.shown), **idle}

    def vote(self, event: gr.EventData, request: gr.Request) -> Updates:
        """Save a vote, or show what was hidden, for the event's run."""
        session = self.session_of(request)
        shown = session.shown
        if shown is None or shown.name != getattr(event, "run", None):
            return {self.parts.status: words.NO_RUN}
        refusal = ""
        if getattr(event, "act", None) == "show":
            shown.hidden = False
        else:
            try:
                vote = read_vote(getattr(event, "vote", None), shown.run.trace, shown.hidden)
                self.services.sessions.add_vote(session, shown, vote)
            except BadInput as bad:
                refusal = str(bad)
        return self._updates(session, shown, refusal)

    def _begun(self, session: Session) -> Updates:
        """Say that the page's run waits; the buttons follow it."""
        return {self.parts.status: words.WAITING, **self.parts.buttons_of(session.number, True)}

    def _refused(self, session: Session, said: Updates, faults: Mapping[str, str] = {}) -> Updates:
        """Say why no run was begun; one that goes on keeps its buttons. `faults`: by fields."""
        if session.is_busy:
            return said
        return {**said, **self.parts.buttons_of(session.next_number(), faults=faults)}

    async def follow(self, request: gr.Request) -> AsyncIterator[Updates]:
        """Show the place in the queue of the page's run, then the run as it goes.

        If nobody asks for more, the run is stopped or left: see `Sessions`. A page that may not
        follow it, because many do, asks again.
        """
        yield no_updates()  # an event that yields nothing empties what it may change
        session, sessions = self.session_of(request), self.services.sessions
        if (shown := session.waiting or session.shown) is None or session.drawn is shown:
            return
        number, following, visitor = session.number, object(), visitor_of(request)
        try:
            if visitor.counted and sessions.followers_of(shown) >= FOLLOWERS_A_RUN:
                raise BadInput(words.MANY_FOLLOW)
            self.services.following.take(following, visitor)
        except BadInput as many:
            session.unfollowed = None  # it is here, and asks again
            view = await asyncio.to_thread(self._updates, session, shown) if shown.run.begun else {}
            again = AGAIN_SECONDS * (not shown.run.over)
            told = {**view, self.parts.status: str(many)}
            yield {**told, **self.parts.buttons_of(number, not shown.run.over, again=again)}
            return
        session.followers += 1
        try:
            async for updates in self._progress(session, shown, number):
                yield updates
        except Exception:
            yield self.parts.buttons_of(number)
            raise
        finally:
            session.followers -= 1
            self.services.following.release(following)
            if session.waiting is shown:
                sessions.drop_waiting(session)
            elif not sessions.goes_on(shown):
                shown.run.request_stop()

    async def _progress(
        self, session: Session, shown: ShownRun, number: int
    ) -> AsyncIterator[Updates]:
        """Yield the run's place in the queue, then the run, until it is over or another is shown."""
        run, services, line, seen = shown.run, self.services, words.WAITING, -1

        def waits() -> bool:
            return session.waiting is shown and not run.begun and not run.over

        def is_same() -> bool:
            return run.changes == seen and not run.over and session.shown is shown

        while waits():
            place = words.place_in_queue(services.queue.before(run)) or words.WAITING
            now = place if services.judges.is_loaded(run.judge) else words.LOADING
            if now != line:
                yield {self.parts.status: now}
            line = now
            await wait_while(waits, PLACE_SECONDS)
        if session.waiting is shown and (prompt := services.sessions.show_begun(session, shown)):
            yield {self.parts.prompt: prompt}
        while session.shown is shown:
            over, seen = run.over, run.changes
            updates = await asyncio.to_thread(self._updates, session, shown)
            yield {**updates, **self.parts.buttons_of(number, not over)}
            if over:
                return
            await asyncio.sleep(UPDATE_SECONDS)
            await wait_while(is_same, CLOCK_SECONDS - UPDATE_SECONDS)

    def _compared(
        self, shown: ShownRun, started: Started, *players: str | None
    ) -> tuple[Path, ...]:
        """Return the uploaded files of the players.

        Raises BadInput if a player is empty, or the run did not compare these files, by their names
        or else their contents.
        """
        if not all(players):
            missing = 2 if players[0] else 1
            raise BadInput(words.NO_VIDEO.format(missing) if any(players) else words.NO_VIDEOS)
        files = tuple(self.services.uploads.original_of(Path(path)) for path in players if path)
        digests = [clip and clip.digest for clip in started.clips]
        if shown.files != files and digests != [file_digest(path) for path in files]:
            raise BadInput(words.OTHER_INPUTS)
        return files

    def _judge_of(self, session: Session, shown: ShownRun, unknown: str) -> str:
        """Return the name of a run's judge, or raise BadInput(unknown)."""
        name = shown.run.trace.started.judge if shown.run.trace else ""
        with suppress(BadInput):
            if judge := shown.run.judge or self.services.judges.find(name):
                return self.chooser.name_of(session, judge)
        raise BadInput(unknown.format(name[: words.MAX_NAME]))

    # -- saved runs ------------------------------------------------------------------------------

    async def open(self, form: FormValues, event: gr.EventData, request: gr.Request) -> Updates:
        """Show an own run, an example or a shared trace; without a name, the empty page."""
        session, parts, sessions = self.session_of(request), self.parts, self.services.sessions
        own, stored = getattr(event, "run", ""), getattr(event, "example", "")
        opened = await self._show_named(session, request, own, stored)
        if not opened:
            session.put()
            sessions.drop_waiting(session)
            sessions.show(session, None)
            line = words.NO_RUN if getattr(event, "lost", False) else words.READY
            opened = {parts.first: None, parts.second: None, parts.prompt: ""}
            opened |= {parts.status: line, parts.trace: {"turns": []}, **self.scope(session)}
            opened |= parts.buttons_of(session.next_number())
        return await self._with_form(session, opened, form)

    async def open_trace(self, values: FormValues, request: gr.Request) -> Updates:
        """Show the run in an uploaded trace; if unreadable, nothing changes."""
        session, form = self.session_of(request), dict(values)
        path, history = form.pop(self.parts.open_button), self.services.history
        if not path:
            return {self.parts.status: "That file did not arrive. Choose it again."}

        def read() -> SavedRun:
            trace, owner = load(Path(path)), visitor_of(request).owner
            videos = history.videos(owner, trace)
            return SavedRun(trace, videos, kept=history.keep(owner, trace, videos))

        return await self._with_form(session, await self._show_saved(session, request, read), form)

    async def open_linked(self, request: gr.Request) -> Updates:
        """Show the run that the page's address names."""
        session, query = self.session_of(request), request.query_params
        opened = await self._show_named(session, request, query.get("run"), query.get("trace"))
        chosen = self.parts.judge, *self.parts.settings.values()
        form = {part: part.value for part in chosen}  # as the page was built
        return await self._with_form(session, opened or no_updates(), form)

    async def _show_named(
        self, session: Session, request: gr.Request, own: object, stored: object
    ) -> Updates:
        """Show the visitor's own run of that name, live or saved, or a stored one; {} for none."""
        services, owner = self.services, visitor_of(request).owner
        for shown in services.sessions.runs_of(owner):
            if shown.kept == own and not shown.run.over:
                services.sessions.drop_waiting(session)
                services.sessions.show(session, shown)
                session.put()
                running = self.parts.buttons_of(session.next_number(), True)
                players = self._players(shown.run.videos, shown.run.prompt)
                return {**players, **self._updates(session, shown), **running}

        def read() -> SavedRun:
            if own:
                return SavedRun(*services.history.open(owner, str(own)), kept=str(own))
            return services.stored_run(str(stored))

        return await self._show_saved(session, request, read) if own or stored else {}

    async def _show_saved(
        self, session: Session, request: gr.Request, read: Callable[[], SavedRun]
    ) -> Updates:
        """Show a saved run; if unreadable, say why, and keep the old one."""

        def show() -> Updates:
            services, saved = self.services, read()
            known = [*services.examples.videos, *(session.shown.files if session.shown else ())]
            trace, visitor = saved.trace, visitor_of(request)
            videos = shown_videos(services.uploads, saved, known, visitor)
            shown = services.sessions.start_replay(session, saved, videos, visitor.owner)
            shown.voted = bool(saved.kept and trace.vote)
            shown.hidden = votes_first(request.cookies) and not shown.voted
            session.put(trace.started, videos)
            return {**self._players(videos, trace.started.prompt), **self._finished(session, shown)}

        try:
            return await self._reading.run(visitor_of(request), show)
        except TraceError as error:
            return self.refusal(session, error)

    def _players(self, videos: FoundVideos, prompt: str) -> Updates:
        """Show these videos, as browsers play them, and the prompt."""
        parts, playable = self.parts, self.services.uploads.playable_of
        first, second = (path and str(playable(path)) for path in videos)
        return {parts.first: first, parts.second: second, parts.prompt: prompt}

    async def _with_form(self, session: Session, opened: Updates, form: FormValues) -> Updates:
        """Add the form's changes to what opens a run or the empty page.

        An own run brings its settings, unless the visitor has changed some of them: then the form
        is theirs. Before, no event may go on that updates the page of the former run.
        """
        if self.parts.prompt not in opened:
            return opened  # nothing was: what was shown before stays
        await wait_while(lambda: session.followers, PATIENCE_SECONDS)
        (brought, before), session.brought = session.brought or (form, form), None
        wanted = chosen = before if form == brought else form
        if session.shown is not None and session.shown.kept:
            wanted = {**chosen, **self._form_of(session, session.shown)}
            session.brought = wanted, chosen
        return {**opened, **{part: value for part, value in wanted.items() if value != form[part]}}

    def _form_of(self, session: Session, shown: ShownRun) -> FormValues:
        """The settings of a run, and its judge if it is offered here."""
        started, judge = shown.run.trace and shown.run.trace.started, ""
        with suppress(BadInput):
            judge = self._judge_of(session, shown, "")
        found, _ = self.services.judges.look(judge) if judge else (None, "")
        trained = found.protocols if found else ()
        values = form_values(started.settings if started else shown.run.settings, trained)
        form = {part: values[name] for name, part in self.parts.settings.items()}
        return {**form, self.parts.judge: judge} if judge else form

    # -- what the page shows of a run ------------------------------------------------------------

    def refusal(self, session: Session, error: VrThinkerError, field: str = "opening") -> Updates:
        """Say why nothing came of it, at the field of that id until the visitor acts.

        The status of a run that goes on replaces the sentence in the status.
        """
        marked = self.parts.buttons_of(session.number, session.is_busy, {field: str(error)})
        return {self.parts.status: str(error), **marked}

    def scope(self, session: Session) -> Updates:
        """Say whether the chosen judge is the demo, and cannot judge the pair that waits."""
        judge, _ = self.services.judges.look(session.judge)
        demo = judge is not None and judge.scope == "drawn"
        shown = session.shown
        waits = shown is None or shown.run.is_replay or bool(session.changed_sides())
        outside = demo and waits and session.holds_real
        return {self.parts.scope: {"outside": outside, "demo": demo}}

    def changed_run(self, session: Session, line: str) -> Updates:
        """Return status and run after a player has changed: the run stays."""
        shown, parts = session.shown, self.parts
        if shown is not None and not shown.run.over:
            return {}  # its own updates will say so
        view = {parts.trace: self._view(session, shown)} if shown else {}
        return {parts.status: line, **view, **self.scope(session)}

    def _finished(self, session: Session, shown: ShownRun) -> Updates:
        """Return everything that shows a run that is over."""
        idle = self.parts.buttons_of(session.next_number())
        return {**self._updates(session, shown), **idle}

    def _updates(self, session: Session, shown: ShownRun, refusal: str = "") -> Updates:
        """Return status and trace of a run; `refusal`: of a vote."""
        view = self._view(session, shown, refusal)
        if shown.run.over:
            session.drawn = shown
        told = {self.parts.status: self._status(shown), self.parts.trace: view}
        return {**told, **self.scope(session)}

    def _view(self, session: Session, shown: ShownRun, refusal: str = "") -> Json:
        """Return `RunView.page` with what only an open page knows.

        run and kept (names), over, address (`?trace=`), changed (the players hold other videos),
        emptied (players without one), stills (sides whose videos are not at hand), branches, ballot.
        """
        clips = shown.run.trace.started.clips if shown.run.trace else (None, None)
        names = [clip.name if clip else "" for clip in clips]
        changed = words.changed_videos(session.changed_sides(), session.is_swapped(), names)
        emptied = (self.parts.videos[side - 1].elem_id for side in session.removed_sides())
        view: Json = {
            "run": shown.name,
            "kept": shown.kept,
            "address": shown.link,
            "changed": changed,
            "emptied": dict.fromkeys(emptied, words.EMPTIED),
            "over": shown.run.over,
            **shown.page(),
            "branches": strip_json(session.branches, shown),
        }
        if shown.run.is_replay:
            if not (view["verdict"] or {}).get("says"):
                view["notes"] = [view["judge"], *view["notes"]]
            view["recorded"] = True  # the page can play it
            videos = zip(Side, shown.run.videos, strict=True)
            view["stills"] = [int(side) for side, path in videos if path is None]
        ballot = {"hidden": shown.hidden, "own": shown.voted, "refusal": refusal}
        return {**(hide_verdict(view) if shown.hidden else view), "ballot": ballot}

    def _status(self, shown: ShownRun) -> str:
        return RunView.of(shown.run).status_of(shown.run)


class PlayerHandlers:
    """Handlers for the video of one side: uploaded, fetched, removed. A shown run stays."""

    def __init__(self, handlers: Handlers, side: Side) -> None:
        self._handlers, self._parts, self._place = handlers, handlers.parts, side - 1
        self._uploads = handlers.services.uploads
        self.player = self._parts.videos[self._place]
        self.address = self._parts.addresses[self._place]

    def on_change(self, values: FormValues, request: gr.Request) -> Updates:
        """Note a file that was uploaded, before a copy of it is made, or that it was removed."""
        path, session = values[self.player], self._handlers.session_of(request)
        session.players[self._place].put(Path(path) if path else None)
        return self._handlers.changed_run(session, self._line(session, values)) or no_updates()

    async def on_upload(self, values: FormValues, request: gr.Request) -> Updates:
        """Show a copy of a file that browsers cannot play, after `on_change`.

        The answers of `on_change` to two uploads may overtake each other: this scope comes last.
        """
        if not values[self.player]:
            return no_updates()
        session = self._handlers.session_of(request)
        copied = await self._copied(session, values, visitor_of(request))
        return {**copied, **self._handlers.scope(session)}

    async def _copied(self, session: Session, values: FormValues, visitor: Visitor) -> Updates:
        """Return the copy, or why there is none; {} if browsers play the file itself."""
        path = Path(values[self.player])
        shown: Path | VrThinkerError
        try:
            shown = await self._uploads.make_playable_beside(path, visitor)
            session.players[self._place].held.extend((path, shown))
        except VrThinkerError as error:
            shown = error
        player = session.players[self._place]
        if player.digest != file_digest(path) or shown == path:
            return {}  # another file has come meanwhile, or browsers play this one
        status, line = self._parts.status, self._line(session, values)
        if isinstance(shown, Path):
            return {self.player: str(shown), status: f"{words.COPY_SHOWN} {line}"}
        if isinstance(shown, NoCopy):
            player.held.append(path)
            return {status: f"{shown} {words.NO_COPY} {line}"}
        if isinstance(shown, VideoUnavailable):  # it can be compared later
            return {status: f"{shown} {line}"}
        player.refusal = str(shown)
        fault = {str(self.player.elem_id): f"{shown} {words.OTHER_VIDEO}"}
        marked = self._parts.buttons_of(session.number, session.is_busy, fault)
        return {status: self._line(session, values), **marked}

    async def on_address(self, values: FormValues, request: gr.Request) -> Updates:
        """Replace the video by the file at a web address."""
        address, status = (values[self.address] or "").strip(), self._parts.status
        session = self._handlers.session_of(request)
        before = session.shown
        try:
            if not address:
                raise BadInput(words.NO_ADDRESS)
            path = await self._uploads.fetch_beside(address, visitor_of(request))
            playable = await self._uploads.make_playable_beside(path, visitor_of(request))
        except VrThinkerError as error:
            return self._handlers.refusal(session, error, str(self.address.elem_id))
        player, shown = session.players[self._place], session.shown
        player.held.extend((path, playable))
        if shown is not None and shown.run.is_replay and shown is not before:
            return no_updates()  # a saved run with its own videos was opened meanwhile
        player.put(path)
        line = self._line(session, values)
        line = line if playable == path else f"{words.COPY_SHOWN} {line}"
        changed = self._handlers.changed_run(session, line)
        return {**changed, self.player: str(playable), status: line}

    def _line(self, session: Session, values: FormValues) -> str:
        """Say that the shown run judged other videos, or else the next step."""
        refusals = [player.refusal for player in session.players]
        removed = [words.REMOVED.format(int(side)) for side in session.removed_sides()]
        if session.changed_sides() and not any(refusals) and not removed:
            return words.CHANGED
        # The browser's values are older than what is known of this player.
        paths = [None if part is self.player else values[part] for part in self._parts.videos]
        first, second = (
            bool(path or player.digest) and not player.refusal
            for path, player in zip(paths, session.players, strict=True)
        )
        step = words.next_step(first, second, values[self._parts.prompt])
        return " ".join([*removed, step])


def read_vote(given: object, trace: Trace | None, hidden: bool) -> Vote:
    """Read the vote in `given` on a run.

    Raises BadInput if it cannot be kept with that run. `hidden`: the person has seen nothing of
    what the judge said. A blind vote stays blind as long as its labels stay.
    """
    if trace is None or not (hidden or trace.finished is not None):
        raise BadInput(words.TOO_EARLY)
    # What the person says; all else the server knows. With what nobody has seen nobody agrees.
    fields = ("labels", "slots", "note", *([] if hidden else ["agrees"]))
    sent = given if isinstance(given, dict) else {}
    said = {name: sent[name] for name in fields if name in sent}
    said["at"] = datetime.now(UTC).replace(microsecond=0)
    if isinstance(said.get("note"), str):
        said["note"] = encodable(said["note"]).strip()
    try:
        vote = type_adapter(Vote).validate_python(said)
    except ValidationError:
        raise BadInput("This vote could not be read. Reload the page and vote again.") from None
    if vote.empty:
        raise BadInput("Choose a label, mark a pair or write a note before you save.")
    if not shown_slots(trace.runs).issuperset(vote.slots):
        raise BadInput("A marked pair is not in this run. Mark it again.")
    before = trace.vote
    was_blind = before is not None and before.blind and before.labels == vote.labels
    return replace(vote, blind=hidden or was_blind)


def _ended(session: Session, nothing: str) -> tuple[ShownRun, Trace]:
    """Return the shown run, which is over. Raises BadInput if one goes on, or with `nothing`."""
    if session.is_busy:
        raise BadInput("A run is going on. Wait until it has ended, or stop it.")
    trace = session.shown.run.trace if session.shown else None
    if session.shown is None or trace is None:
        raise BadInput(nothing)
    return session.shown, storable(trace)


def read_branch(event: gr.EventData) -> tuple[int, Changes]:
    """Read turn and changes of a branch, None for what was not sent. Raises BadInput."""
    names = "window", "turn", "prompt", "frames", "no_tool"
    window, turn, prompt, sent, no_tool = (getattr(event, name, None) for name in names)
    window, turn, sent = setting("window").parse(window), _whole(turn), sent or ""
    listed = isinstance(sent, str) and len(sent) <= 8 * MAX_FRAMES
    frames = [_whole(part) for part in sent.replace(",", " ").split()] if listed else [None]
    if None in frames:
        raise BadInput("Frames are whole numbers with commas between, as in 4, 9.")
    text = encodable(prompt) if isinstance(prompt, str) else None
    if text is not None:
        check_prompt(text)
    if turn is None:
        raise BadInput("The turn must be a whole number.")
    changes = Changes(tuple(frames), no_tool is True, window, text)  # type: ignore[arg-type]
    return turn, changes


def _whole(value: object) -> int | None:
    return int(str(value)) if re.fullmatch(r"-?[0-9]{1,6}", str(value)) else None


def compared_videos(saved: SavedRun, known: Iterable[Path]) -> FoundVideos:
    """Return the videos that a run compared, by their content, from its own and `known` ones."""
    by_digest = {file_digest(path): path for path in (*saved.videos, *known) if path.is_file()}
    clips = saved.trace.started.clips
    first, second = (by_digest.get(clip.digest) if clip else None for clip in clips)
    return first, second


def shown_videos(
    uploads: Uploads, saved: SavedRun, known: Iterable[Path], visitor: Visitor
) -> FoundVideos:
    """Find the compared videos among `known` and kept files; kept ones become uploads, too.

    A file counts by its content alone, so a damaged one is not shown.
    """
    found: list[Path | None] = []
    for clip, path in zip(saved.trace.started.clips, compared_videos(saved, known), strict=True):
        if clip and path and path in saved.videos:
            name = Path(clip.name).stem[:80] + path.suffix
            kept, path = path, None  # if there is no room for it
            with suppress(OSError, VrThinkerError):
                file = uploads.link(kept, upload_place(kept, name), visitor)
                uploads.make_playable(file, visitor)
                path = file
        found.append(path)
    return found[0], found[1]


def strip_json(runs: Sequence[ShownRun], shown: ShownRun) -> Json | None:
    """Return an origin and its branches side by side; None if `shown` is none of them.

    `note`: why a run has no labels, "" if it has. `differs`: from the origin's label.
    """
    if shown not in runs:
        return None
    rows = []
    origin: dict[str, int | None] = {}  # labels
    for place, run in enumerate(runs):
        view = RunView.of(run.run)
        labels = view.labels
        note = "" if labels else "no verdict" if view.finished else "going on"
        note = DEMO_RUN if view.outside_scope else note
        if labels and run.hidden and run is not shown:  # its visitor wants to vote before they see
            note, labels = words.HIDDEN, []
        if place == 0:
            origin = {label["name"]: label["value"] for label in labels}
            first = view.order
        # A swap test tells more than one order
        alike = bool(origin) and (first is None) == (view.order is None)
        name = view.name or ("begins" if view.started is None else "")
        name = "First run" if place == 0 else name[:1].upper() + name[1:]
        judge = words.judge_name(view.started.judge) if view.started else ""
        if name == f"Judge {judge}":
            name, judge = judge, ""
        if labels:
            checked = words.ORDER_LINES[view.order.overall if view.order else None]
            judge = " · ".join(filter(None, [judge, checked]))
        for label in labels:
            label["differs"] = alike and origin.get(label["name"]) != label["value"]
        rows.append({"name": name, "judge": judge, "note": note, "labels": labels})
    return {"shown": runs.index(shown), "runs": rows}


QUIET: Json = {"api_visibility": "private", "show_progress": "hidden"}
UNQUEUED: Json = {"queue": False, **QUIET}
# Compare can be pressed again a moment before the last run has ended in the browser.
MULTIPLE: Json = {"trigger_mode": "multiple", **QUIET}
# A status that names the next step follows the prompt and the scope; any other stays.
FOLLOW_PROMPT = f"""(prompt, line) => {{
    const steps = {json.dumps([words.TWO_VIDEOS, words.READY_TO_COMPARE, "Needs another judge."])};
    const step = steps[!prompt.trim() ? 0 : VRThinker.outside ? 2 : 1];
    const isMended = !document.querySelector("#bench .vrt-fault");
    const said = isMended ? [...steps, {json.dumps(words.NOT_STARTED)}] : steps;
    const told = said.find((each) => line.includes(each)) ?? step;
    return told === step ? {json.dumps(gr.skip())} : line.replace(told, step);
}}"""


def connect(blocks: CheckedBlocks, parts: PageComponents, services: Services) -> None:
    """Connect all events, inside the `with` statement of `blocks`."""
    handlers, status, videos = Handlers(parts, services), parts.status, [*parts.videos]
    settings: list[Any] = [parts.judge, *parts.settings.values()]
    begun, shown = [status, parts.buttons], [*parts.run_outputs, parts.buttons]
    # Sets: the handlers get values by component.
    form, pair = {*videos, parts.prompt, *settings}, [parts.prompt, *videos]
    failed = f"() => {{ VRThinker.buttons.asked = -Infinity; return {json.dumps(words.GONE)}; }}"
    for asked in (
        parts.compare_button.click(handlers.compare, form, begun, **UNQUEUED),
        parts.trace.click(handlers.check, pair, [*begun, parts.trace], **UNQUEUED),
        parts.branches.submit(handlers.branch, videos, [*begun, parts.branches], **UNQUEUED),
    ):
        asked.failure(None, None, status, js=failed, **QUIET)
    parts.branches.select(handlers.show_branch, parts.prompt, [parts.prompt, *shown], **UNQUEUED)
    # The buttons follow each run that they are told of (`page.js`).
    parts.buttons.submit(handlers.follow, None, [parts.prompt, *shown], **MULTIPLE)
    uploading = f"() => {json.dumps(words.UPLOADING)}"
    parts.buttons.click(None, None, status, js=uploading, **QUIET)
    # Not the players: their values would be waited for as long as a video is uploaded.
    number = [parts.buttons, parts.prompt]
    asked_now = "(_, prompt) => [VRThinker.buttons.shown(), prompt]"
    parts.stop_button.click(handlers.stop, number, shown, js=asked_now, **UNQUEUED)
    parts.trace.submit(handlers.vote, None, parts.run_outputs, **UNQUEUED)
    parts.rail.click(handlers.swap_videos, videos, [*videos, *parts.run_outputs], **UNQUEUED)
    parts.rail.submit(handlers.measure, videos, parts.rail, **MULTIPLE)
    announce = "(line) => VRThinker.announcer.status(line)"
    status.change(None, status, None, js=announce, **MULTIPLE)
    chooser, protocol = handlers.chooser, parts.settings["protocol"]
    judged = [parts.chooser, parts.judge, parts.trace, protocol, parts.scope]
    blocks.load(handlers.show_judge, None, judged, **QUIET)
    parts.judge.select(handlers.show_judge, parts.judge, judged, **MULTIPLE)
    opened = parts.chooser.click(chooser.open, None, parts.chooser, queue=False, **MULTIPLE)
    dialog = [parts.judge, parts.chooser]
    pressed = parts.chooser.submit(chooser.act, None, dialog, queue=False, **MULTIPLE)
    unanswered = "() => VRThinker.chooser.say(VRThinker.UNREACHABLE)"
    for asked in (opened, pressed):
        asked.failure(None, None, None, js=unanswered, **QUIET)
    _connect_players(parts, handlers)

    own = [*parts.shown_run, *settings]
    parts.open_button.upload(handlers.open_trace, {parts.open_button, *settings}, own, **QUIET)
    chosen = parts.examples.click(handlers.open, {*settings}, own, **MULTIPLE)
    for asked in (chosen, blocks.load(handlers.open_linked, None, own, **QUIET)):
        for ended in (asked.success, asked.failure):
            ended(None, None, None, js="() => VRThinker.address.ended()", **QUIET)

    def on_unload(request: gr.Request) -> None:
        services.sessions.end(str(request.session_hash))
        blocks.forget_session(str(request.session_hash))

    blocks.unload(on_unload)


def _connect_players(parts: PageComponents, handlers: Handlers) -> None:
    inputs: set[Any] = {parts.prompt, *parts.videos}
    outputs = parts.run_outputs
    line, follow = [parts.prompt, parts.status], {"js": FOLLOW_PROMPT, **MULTIPLE}
    for changes in (parts.prompt.change, parts.scope.select):
        changes(None, line, parts.status, **follow)
    for own in (PlayerHandlers(handlers, side) for side in Side):
        player, address = own.player, own.address
        changed = [player, *outputs]
        arrived = player.upload(own.on_change, inputs, outputs, queue=False, **MULTIPLE)
        told = [*changed, parts.buttons]
        copied = arrived.then(own.on_upload, inputs, told, **QUIET)
        player.clear(own.on_change, inputs, outputs, **UNQUEUED)
        entered = address.submit(lambda: "Fetching the video.", None, parts.status, **UNQUEUED)
        fetched = entered.then(own.on_address, {address, *inputs}, told, **QUIET)
        for written in (copied.then, fetched.then):  # the prompt may have been written meanwhile
            written(None, line, parts.status, **follow)
