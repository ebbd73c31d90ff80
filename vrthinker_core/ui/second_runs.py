"""What all handlers share that judge the pair of the run that is shown once more: its session, its videos, its judge, the queue."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import gradio as gr

from vrthinker_core.errors import BadInput
from vrthinker_core.types.events import Started
from vrthinker_core.ui.background_run import BackgroundRun
from vrthinker_core.ui.layout import PageComponents, Updates, no_updates
from vrthinker_core.ui.page_sessions import Session
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.services import Services, session_id_of
from vrthinker_core.video.files import file_digest

Players = tuple[str | None, str | None]  # the file in each player


@dataclass(frozen=True, slots=True)
class SecondRuns:
    """The run that is shown, live or saved, and the way to another run of its pair."""

    parts: PageComponents
    services: Services
    handlers: Handlers

    async def join(self, check: Callable[[], object], request: gr.Request) -> Updates:
        """Take a place in the waiting room. Raises a silent gr.Error where `check` raises BadInput, or the room is full."""
        try:
            await asyncio.to_thread(check)
        except BadInput as bad:
            self.handlers.refuse(request, str(bad))
        return self.handlers.take_place(request)

    async def run(
        self,
        prepare: Callable[[], Callable[[], Session]],
        refused: Callable[[str], Updates],
        request: gr.Request,
    ) -> AsyncIterator[Updates]:
        """Start the run and show it as it goes. `prepare`, in a thread, checks all that it needs and gives what starts it.

        Where one of them raises BadInput, what `refused` makes of the sentence is shown.
        """
        session_id = session_id_of(request)
        room = self.services.waiting_room
        with room.active(session_id) as number:
            place = room.number(session_id)
            try:
                start = await asyncio.to_thread(prepare)
                if room.number(session_id) != place:
                    yield no_updates()  # Stop was pressed meanwhile
                    return
                session = start()
            except BadInput as bad:
                yield {**refused(str(bad)), **self.parts.idle_buttons(number)}
                return
            async for updates in self.handlers.show_run(session_id, session, number):
                yield updates

    def is_busy(self, session: Session | None, request: gr.Request) -> bool:
        """A run of the visitor waits or goes on."""
        waits = self.services.waiting_room.waits(session_id_of(request))
        return waits or (session is not None and not session.run.over)

    def original(self, path: str | None, missing: str) -> Path:
        """The file that was uploaded where a player holds a copy. Raises BadInput(missing) where it holds none."""
        if not path:
            raise BadInput(missing)
        return self.services.uploads.original_of(Path(path))

    @staticmethod
    def were_compared(session: Session, started: Started, videos: tuple[Path, Path]) -> bool:
        """Whether these are the files that the run compared, by their names or else by their contents."""
        if session.files == videos:
            return True
        digests = [clip and clip.digest for clip in started.clips]
        return all(digests) and digests == [file_digest(path) for path in videos]

    def judge_of(self, session: Session, unknown: str) -> str:
        """The name under which the judge of a run is offered here. Raises BadInput with the sentence `unknown` where it is not."""
        if isinstance(session.run, BackgroundRun):
            return session.judge
        started = session.run.state.started
        judge = self.services.judges.find(started.judge) if started else None
        if judge is None:
            raise BadInput(unknown.format(started.judge[:80] if started else ""))
        return judge
