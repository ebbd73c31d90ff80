"""Events that follow a run which another event has started, and what may be shown only once they have left it."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

from vrthinker_core.ui.page.layout import Updates

PATIENCE_SECONDS = 1.0  # for a follower to see that its page shows another run
POLL_SECONDS = 0.03


class Followers:
    """How many events of each page follow a run. Gradio cannot cancel them: it knows only the latest of several of a kind."""

    def __init__(self) -> None:
        self._following = Counter[str]()  # by session id

    async def follow(self, session_id: str, progress: AsyncIterator[Updates]) -> AsyncIterator[Updates]:
        """The progress of the run; it ends when the page shows another one."""
        self._following[session_id] += 1
        try:
            async for updates in progress:
                yield updates
        finally:
            self._following[session_id] -= 1
            self._following += Counter()  # drops the pages that follow nothing

    async def left(self, session_id: str) -> None:
        """Until no event of the page follows a run, `PATIENCE_SECONDS` at most.

        An event that is asked to go on has sent what it gave before: nothing of that can come after what is shown next.
        """
        for _ in range(round(PATIENCE_SECONDS / POLL_SECONDS)):
            if not self._following[session_id]:
                return
            await asyncio.sleep(POLL_SECONDS)
