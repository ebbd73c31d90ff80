"""What follows a run has said its last before the page shows another one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.support.threads import run_in_thread
from vrthinker_core.ui.page.handlers.run_handlers import PATIENCE_SECONDS, Followers
from vrthinker_core.ui.page.layout import Updates


async def progress(shown: list[str]) -> AsyncIterator[Updates]:
    while shown:
        yield {}


def test_what_comes_next_waits_until_the_last_update_has_been_sent() -> None:
    async def scenario() -> None:
        followers, shown = Followers(), ["a run"]
        following = followers.follow("page", progress(shown))
        await anext(following)  # is being sent: Gradio asks for more when it has been
        shown.clear()  # the page shows another run
        left = asyncio.create_task(followers.left("page"))
        await asyncio.sleep(0.2)
        assert not left.done()
        await followers.left("another page")
        with pytest.raises(StopAsyncIteration):
            await anext(following)
        await asyncio.wait_for(left, 0.2)

    run_in_thread(scenario())


def test_all_followers_of_a_page_are_waited_for_but_not_for_ever() -> None:
    async def scenario() -> None:
        followers = Followers()
        following = [followers.follow("page", progress(["a run"])) for _ in range(2)]
        for each in following:
            await anext(each)
        await following[0].aclose()  # type: ignore[attr-defined]  # as when its page is closed
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(followers.left("page"), PATIENCE_SECONDS / 2)
        await asyncio.wait_for(followers.left("page"), 3 * PATIENCE_SECONDS)
        await following[1].aclose()  # type: ignore[attr-defined]
        await asyncio.wait_for(followers.left("page"), PATIENCE_SECONDS / 2)

    run_in_thread(scenario())
