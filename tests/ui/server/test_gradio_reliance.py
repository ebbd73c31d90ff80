"""What we rely on in Gradio, one test for each internal, and what our Blocks make of it.

A failure here after an update of Gradio says which name in `vrthinker_core` has to follow.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from gradio.blocks import BlockFunction
from gradio.data_classes import PredictBodyInternal
from gradio.processing_utils import save_file_to_cache
from gradio.queueing import Event, Queue
from gradio.routes import App
from gradio.state_holder import SessionState, StateHolder
from gradio.utils import get_upload_folder
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.threads import run_in_thread
from vrthinker_core.ui.gradio_blocks import NOT_UPLOADED, CheckedBlocks, Fetch, upload_place
from vrthinker_core.ui.open_pages import HEARTBEAT_PATH
from vrthinker_core.ui.request_limits import BLOCKED_PATHS

VALUES = ("a word", [], "more words")


def picture(path: str) -> dict[str, Any]:
    """A gallery's picture as a browser sends it."""
    return {"image": {"path": path, "meta": {"_type": "gradio.FileData"}}, "caption": None}


def on_page(kind: type[Any], act: Callable[[Any, BlockFunction], Awaitable[Any]]) -> Any:
    """The result of `act` with a page of three components and its one event; Gradio builds pages only inside an event loop."""

    async def build() -> Any:
        with kind(analytics_enabled=False) as blocks:
            components = [gr.Textbox("as it was"), gr.Gallery(), gr.HTML()]
            components[0].change(lambda *_: VALUES, components, components, concurrency_id="judge")
        return await act(blocks, next(iter(blocks.fns.values())))

    return run_in_thread(build())


def outputs(kind: type[Any], predictions: Callable[[BlockFunction], Any]) -> Any:
    """What the browser is sent when the event returns `predictions`."""
    return on_page(
        kind,
        lambda blocks, event: blocks.postprocess_data(
            event, predictions(event), SessionState(blocks)
        ),
    )


async def nothing_fetched(url: str) -> Path:
    raise AssertionError(f"{url} was fetched")


def inputs(*values: Any, fetch: Fetch = nothing_fetched, visibility: str = "public") -> Any:
    """What the event's function is given when the browser sends `values`."""

    async def act(blocks: CheckedBlocks, event: BlockFunction) -> Any:
        blocks.fetch = fetch
        event.api_visibility = visibility
        return await blocks.preprocess_data(event, list(values), SessionState(blocks))

    return on_page(CheckedBlocks, act)


# -- outputs -------------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=8)
@given(st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_a_skipped_output_changes_nothing_in_the_others(skipped: tuple[bool, bool, bool]) -> None:
    predictions = tuple(
        gr.skip() if skip else value for skip, value in zip(skipped, VALUES, strict=True)
    )
    ours, theirs = (outputs(kind, lambda _: predictions) for kind in (CheckedBlocks, gr.Blocks))
    for skip, our, their in zip(skipped, ours, theirs, strict=True):
        assert our == (gr.skip() if skip else their)


def test_outputs_that_a_dictionary_leaves_out_are_skipped() -> None:
    def only_html(event: BlockFunction) -> dict[Any, str]:
        return {event.outputs[2]: VALUES[2]}

    def html_and_textbox(event: BlockFunction) -> dict[Any, str]:
        return {event.outputs[2]: VALUES[2], event.outputs[0]: VALUES[0]}

    text, _, html = outputs(gr.Blocks, lambda _: VALUES)
    assert outputs(CheckedBlocks, lambda _: gr.skip()) == [gr.skip()] * 3
    assert outputs(CheckedBlocks, only_html) == [gr.skip(), gr.skip(), html]
    assert outputs(CheckedBlocks, html_and_textbox) == [text, gr.skip(), html]


def test_a_dictionary_for_the_only_output_is_its_value() -> None:
    async def act(blocks: CheckedBlocks, event: BlockFunction) -> None:
        event.outputs = [gallery := event.outputs[1]]
        state = SessionState(blocks)
        pictures = await gr.Blocks.postprocess_data(blocks, event, {gallery: []}, state)
        assert await blocks.postprocess_data(event, {gallery: []}, state) == pictures
        assert await blocks.postprocess_data(event, {gallery: gr.skip()}, state) == [gr.skip()]

    on_page(CheckedBlocks, act)


def test_no_copy_of_what_was_shown_stays() -> None:
    """Gradio keeps the values of 256 sessions; a stranger's trace may have megabytes of text."""

    async def act(blocks: CheckedBlocks, event: BlockFunction) -> tuple[Any, Any]:
        ours, theirs = SessionState(blocks), SessionState(blocks)
        await blocks.postprocess_data(event, list(VALUES), ours)
        await gr.Blocks.postprocess_data(blocks, event, list(VALUES), theirs)
        return ours.config_values, theirs.config_values

    ours, theirs = on_page(CheckedBlocks, act)
    assert ours == {}
    assert VALUES[2] in str(theirs), (
        "Gradio keeps no values any more: CheckedBlocks need not drop them"
    )


def test_a_skipped_component_is_not_built_anew() -> None:
    async def act(blocks: CheckedBlocks, event: BlockFunction) -> None:
        state, components = SessionState(blocks), list(event.outputs)
        before = dict(state.blocks_config.blocks)
        await blocks.postprocess_data(event, (gr.skip(), gr.skip(), "more words"), state)
        await blocks.postprocess_data(event, {event.outputs[2]: "more words"}, state)
        assert state.blocks_config.blocks == before
        assert event.outputs == components

    on_page(CheckedBlocks, act)


# -- inputs --------------------------------------------------------------------------------------------------------------


def test_an_input_that_is_left_out_is_what_the_component_says() -> None:
    assert inputs() == ["as it was", None, None]


def test_a_web_address_is_fetched_by_us(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    asked: list[str] = []

    async def fetch(url: str) -> Path:
        asked.append(url)
        (tmp_path / "fetched.png").write_bytes(b"")
        return tmp_path / "fetched.png"

    found = inputs("", [picture("http://film.example/a.png")], "", fetch=fetch)
    assert asked == ["http://film.example/a.png"], (
        "Gradio names files in another way: see gradio_blocks._is_url_file"
    )
    assert "fetched.png" in str(found)
    assert "film.example" not in str(found)


def test_an_event_of_the_page_itself_fetches_nothing() -> None:
    with pytest.raises(gr.Error) as refused:
        inputs("", [picture("http://film.example/a.png")], "", visibility="private")
    assert refused.value.message == NOT_UPLOADED


def test_a_kept_file_lies_where_gradio_would_copy_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    assert get_upload_folder() == str(tmp_path / "uploads")
    kept = tmp_path / "a film - 1,2.mp4"
    kept.write_bytes(b"film")
    place = upload_place(kept, kept.name)
    place.parent.mkdir(parents=True)
    kept.rename(place)
    assert save_file_to_cache(place, get_upload_folder()) == str(place)
    assert upload_place(place, "../..").name == "video"


def test_the_files_of_waiting_events_are_known() -> None:
    async def act(blocks: CheckedBlocks, event: BlockFunction) -> None:
        blocks._queue.create_event_queue_for_fn(event)
        named = [
            {"path": "/up/one.mp4"},
            "/up/two.mp4",
            "http://host/gradio_api/file=/up/a%20b.mp4",
            None,
            3,
        ]
        waiting = Event(None, event, gr.Request(), None)
        waiting.data = PredictBodyInternal(data=named)
        blocks._queue.event_queue_per_concurrency_id["judge"].queue.append(waiting)
        assert blocks.waiting_files() >= {
            Path("/up/one.mp4"),
            Path("/up/two.mp4"),
            Path("/up/a b.mp4"),
        }

    on_page(CheckedBlocks, act)


# -- sessions, queues, addresses -----------------------------------------------------------------------------------------


def test_a_session_that_has_left_is_forgotten() -> None:
    async def act(blocks: CheckedBlocks, _event: BlockFunction) -> None:
        holder = StateHolder()
        holder.set_blocks(blocks)
        assert holder["anna"] is not holder["bert"]
        blocks.forget_session("anna")
        blocks.forget_session("anna")
        assert "anna" not in holder
        assert "bert" in holder
        assert set(holder.time_last_used) == {"bert"}, (
            "Gradio keeps sessions elsewhere: see CheckedBlocks.forget_session"
        )

    on_page(CheckedBlocks, act)


def test_the_queue_has_the_names_that_ours_uses() -> None:
    async def act(blocks: CheckedBlocks, _event: BlockFunction) -> None:
        theirs = Queue(True, 1, 1, None, blocks)
        for name in (
            "sleep_when_free",
            "progress_update_sleep_when_free",
            "ANALYTICS_MAX_EVENTS",
            "active_jobs",
            "stopped",
        ):
            assert hasattr(theirs, name), (
                f"Gradio's queue has no {name} any more: LimitedQueue sets it"
            )
        for name in (
            "pending_messages_per_session",
            "pending_event_ids_session",
            "event_ids_to_events",
        ):
            assert getattr(theirs, name) == {}, (
                f"Gradio keeps {name} in another way: see LimitedQueue"
            )
        assert theirs.pending_messages_per_session.max_size > 0

    on_page(CheckedBlocks, act)
    for name, parameters in {
        "push": ["self", "body", "request", "username"],
        "clean_events": ["self", "session_hash", "event_id"],
    }.items():
        assert list(inspect.signature(getattr(Queue, name)).parameters) == parameters, (
            f"LimitedQueue uses Queue.{name}"
        )


def test_the_addresses_that_we_block_are_gradios() -> None:
    async def act(blocks: gr.Blocks, _event: BlockFunction) -> list[str]:
        return list(App.create_app(blocks).openapi()["paths"])

    paths = on_page(gr.Blocks, act)
    assert HEARTBEAT_PATH + "{session_hash}" in paths, (
        "Gradio's pages hold another stream: see open_pages"
    )
    for blocked in BLOCKED_PATHS:
        name = blocked.removesuffix("http")
        assert any(path.startswith(name) for path in paths), (
            f"Gradio has no {name} any more: see request_limits.BLOCKED_PATHS"
        )
