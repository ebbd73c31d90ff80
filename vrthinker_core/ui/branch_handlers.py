"""Event handlers of "What if": a branch of the run that is shown, and which run of a page that has branches is shown."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import gradio as gr

from vrthinker_core.branch_plan import BranchPlan, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.types import VideoPair
from vrthinker_core.types.events import Started
from vrthinker_core.ui import words
from vrthinker_core.ui.branch_sets import BranchRequest, read_request
from vrthinker_core.ui.hidden_view import votes_first
from vrthinker_core.ui.layout import Updates, no_updates
from vrthinker_core.ui.order_handlers import Players, SecondRuns
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.replay import trace_of
from vrthinker_core.ui.run_store import owner_of
from vrthinker_core.ui.services import session_id_of


@dataclass(frozen=True, slots=True)
class BranchHandlers:
    """A branch takes the place of the run that is shown, which is kept beside it."""

    runs: SecondRuns

    async def join_queue(
        self, first: str | None, second: str | None, event: gr.EventData, request: gr.Request
    ) -> Updates:
        """Take a place in the waiting room for the branch that the form asks for; raises a silent gr.Error, `refused` says why."""

        def check() -> None:
            services = self.runs.services
            wanted = read_request(partial(_sent, event), services.judges.names)
            self._planned(wanted, (first, second), request)
            services.branch_sets.put_request(session_id_of(request), wanted)

        return {**await self.runs.join(check, request), self.runs.parts.branches: _said("")}

    def refused(self, request: gr.Request) -> Updates:
        """Say in the form why it was refused."""
        return {self.runs.parts.branches: _said(self.runs.handlers.refusal(request))}

    async def start(
        self, first: str | None, second: str | None, request: gr.Request
    ) -> AsyncIterator[Updates]:
        """Judge the branch, and show that run as it goes."""
        services, parts, session_id = self.runs.services, self.runs.parts, session_id_of(request)
        wanted = services.branch_sets.request(session_id)
        if wanted is not None and wanted.changes.prompt is not None:
            yield {parts.prompt: wanted.changes.prompt}

        def prepare() -> Callable[[], Session]:
            if wanted is None:
                raise BadInput(words.BRANCH_NO_RUN)
            before, plan, pair, judge = self._planned(wanted, (first, second), request)

            def start() -> Session:
                after = services.sessions.start_run(
                    session_id, pair, plan.settings, judge, owner_of(request.cookies), plan
                )
                after.disclosure.begin(votes_first(request.cookies))
                services.branch_sets.begin(session_id, before, after)
                return after

            return start

        async for updates in self.runs.run(
            prepare, lambda sentence: {parts.branches: _said(sentence)}, request
        ):
            yield updates

    def show(self, prompt: str | None, event: gr.EventData, request: gr.Request) -> Updates:
        """Show another run of the set, that at the place which the strip sent. A run that goes on stays."""
        services, session_id, place = (
            self.runs.services,
            session_id_of(request),
            _sent(event, "place"),
        )
        before = services.session_of(request)
        branches = services.branch_sets.get(session_id, before) if before else None
        if (
            before is None
            or branches is None
            or self.runs.is_busy(before, request)
            or place == branches.shown
        ):
            return no_updates()
        if (
            not isinstance(place, int)
            or not 0 <= place < len(branches.runs)
            or (kept := branches.runs[place]) is None
        ):
            return no_updates()
        services.branch_sets.keep(session_id, before)
        after = services.sessions.start_replay(
            session_id, kept.trace, kept.link, before.videos, before.owner, kept.name
        )
        after.disclosure.begin(kept.disclosure.hidden, kept.disclosure.voted)
        services.branch_sets.show(session_id, after, place)
        judged = before.run.state.started
        follows = judged is not None and (prompt or "").strip() == judged.prompt.strip()
        shown = self.runs.handlers.finished_run(after, request)
        return {**shown, self.runs.parts.prompt: kept.trace.started.prompt} if follows else shown

    def _planned(
        self, wanted: BranchRequest, players: Players, request: gr.Request
    ) -> tuple[Session, BranchPlan, VideoPair, str]:
        """The run that is shown, the branch of it, its pair and its judge. Raises BadInput where that cannot be, or not now."""
        session = self.runs.services.session_of(request)
        trace = trace_of(session.run.state) if session else None
        if self.runs.is_busy(session, request):
            raise BadInput(words.LATER)
        if session is None or trace is None:
            raise BadInput(words.BRANCH_NO_RUN)
        plan = plan_branch(trace, wanted.turn, wanted.changes)
        judge = wanted.judge or self.runs.judge_of(session, words.NO_JUDGE)
        return (
            session,
            plan,
            VideoPair(plan.prompt, *self._videos(session, trace.started, players)),
            judge,
        )

    def _videos(self, session: Session, started: Started, players: Players) -> tuple[Path, Path]:
        """The videos of the run, those that the session keeps, or those in the players, where they are the same."""
        if len(session.files) == len(players):
            return session.files[0], session.files[1]
        first, second = (self.runs.original(path, words.NO_VIDEOS) for path in players)
        if not self.runs.were_compared(session, started, (first, second)):
            raise BadInput(words.BRANCH_CHANGED)
        return first, second


def _sent(event: gr.EventData, name: str) -> object:
    """A value that the browser sent with an event; None where it did not."""
    return getattr(event, name, None)


def _said(sentence: str) -> dict[str, str]:
    return {"refusal": sentence}
