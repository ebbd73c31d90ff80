"""Events that follow a run which another event has started, and what may be shown only once they have left it."""

from collections import Counter
from collections.abc import AsyncIterator

from vrthinker_core.ui.page.layout import Updates
from vrthinker_core.ui.page.polling import wait_while

PATIENCE_SECONDS = 1.0  # for a follower to see that its page shows another run


class Followers:
    """How many events of each page follow a run. Gradio cannot cancel them: it knows only the latest of several of a kind."""

    def __init__(self) -> None:
        self._following = Counter[str]()  # by session id

    async def follow(
        self, session_id: str, progress: AsyncIterator[Updates]
    ) -> AsyncIterator[Updates]:
        """The progress of the run; it ends when the page shows another one."""
        self._following[session_id] += 1
        try:
            async for updates in progress:
                yield updates
        finally:
            self._following[session_id] -= 1
            if not self._following[session_id]:
                del self._following[session_id]

    async def left(self, session_id: str) -> None:
        """Until no event of the page follows a run, `PATIENCE_SECONDS` at most.

        An event that is asked to go on has sent what it gave before: nothing of that can come after what is shown next.
        """
        await wait_while(lambda: self._following[session_id], PATIENCE_SECONDS)
