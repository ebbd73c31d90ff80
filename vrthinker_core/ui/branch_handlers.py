"""Event handlers of "What if": start a branch, show another run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import gradio as gr

from vrthinker_core.branch_plan import BranchPlan, plan_branch
from vrthinker_core.errors import BadInput
from vrthinker_core.types import VideoPair
from vrthinker_core.ui import words
from vrthinker_core.ui.branch_sets import BranchRequest, read_request
from vrthinker_core.ui.layout import Updates, no_updates
from vrthinker_core.ui.order_handlers import Players, QueuedRuns
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.replay import trace_of
from vrthinker_core.ui.services import session_id_of


class BranchHandlers(QueuedRuns):
    """Puts a branch in place of the shown run, which is kept."""

    async def join_queue(
        self, first: str | None, second: str | None, event: gr.EventData, request: gr.Request
    ) -> Updates:
        """Take a place, or raise a silent gr.Error; `refused` says why."""

        def check() -> None:
            services = self.services
            wanted = read_request(lambda name: getattr(event, name, None), services.judges.names)
            self._planned(wanted, (first, second), request)
            services.branch_sets.put_request(session_id_of(request), wanted)

        return {**await self.join(asyncio.to_thread(check), request), **self.say("", request)}

    def say(self, sentence: str, request: gr.Request) -> Updates:  # noqa: ARG002 - as the base
        """Say in the form why a branch was refused."""
        return {self.parts.branches: {"refusal": sentence}}

    async def start(
        self, first: str | None, second: str | None, request: gr.Request
    ) -> AsyncIterator[Updates]:
        """Judge the branch, and show that run as it goes."""
        services, parts, session_id = self.services, self.parts, session_id_of(request)
        wanted = services.branch_sets.request(session_id)
        if wanted is not None and wanted.changes.prompt is not None:
            yield {parts.prompt: wanted.changes.prompt}

        def prepare() -> Callable[[], Session]:
            if wanted is None:
                raise BadInput(words.BRANCH_NO_RUN)
            before, plan, pair, judge = self._planned(wanted, (first, second), request)

            def start() -> Session:
                after = self.start_run(request, pair, plan.settings, judge, plan)
                services.branch_sets.begin(session_id, before, after)
                return after

            return start

        async for updates in self.run(partial(asyncio.to_thread, prepare), request):
            yield updates

    def show(self, prompt: str | None, event: gr.EventData, request: gr.Request) -> Updates:
        """Show the run that the strip names, unless one goes on."""
        services, session_id = self.services, session_id_of(request)
        before, place = services.session_of(request), getattr(event, "place", None)
        branches = services.branch_sets.get(session_id, before) if before else None
        if before is None or branches is None or self.is_busy(before, request):
            return no_updates()
        if not isinstance(place, int) or place not in range(len(branches.runs)):
            return no_updates()
        kept = branches.runs[place]
        if kept is None or place == branches.shown:
            return no_updates()
        services.branch_sets.keep(session_id, before)
        after = services.sessions.start_replay(
            session_id, kept.trace, kept.link, before.videos, before.owner, kept.name
        )
        after.disclosure.begin(kept.disclosure.hidden, kept.disclosure.voted)
        services.branch_sets.show(session_id, after, place)
        judged = before.run.state.started
        follows = judged is not None and (prompt or "").strip() == judged.prompt.strip()
        shown = self.handlers.finished_run(after, request)
        return {**shown, self.parts.prompt: kept.trace.started.prompt} if follows else shown

    def _planned(
        self, wanted: BranchRequest, players: Players, request: gr.Request
    ) -> tuple[Session, BranchPlan, VideoPair, str]:
        """Return the shown run, its branch, the pair and the judge, or raise BadInput."""
        session = self.services.session_of(request)
        trace = trace_of(session.run.state) if session else None
        if self.is_busy(session, request):
            raise BadInput(words.LATER)
        if session is None or trace is None:
            raise BadInput(words.BRANCH_NO_RUN)
        plan = plan_branch(trace, wanted.turn, wanted.changes)
        judge = wanted.judge or self.judge_of(session, words.NO_JUDGE)
        if len(session.files) == len(players):
            first, second = session.files
        else:
            first, second = self.compared_videos(
                session, trace.started, players, words.NO_VIDEOS, words.BRANCH_CHANGED
            )
        return session, plan, VideoPair(plan.prompt, first, second), judge
