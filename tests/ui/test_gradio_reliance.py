"""What we rely on in Gradio, one test for each internal, and what our Blocks make of it.

A failure here after an update of Gradio says which name in `vrthinker_core.ui` has to follow.
"""

import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import gradio as gr
import pytest
from gradio.blocks import BlockFunction
from gradio.processing_utils import save_file_to_cache
from gradio.queueing import Queue
from gradio.route_utils import BUILD_PATH_LIB
from gradio.routes import App
from gradio.state_holder import SessionState
from gradio.utils import get_upload_folder
from hypothesis import given, settings, strategies as st

from tests.support.threads import run_in_thread
from vrthinker_core.ui.page import early_files, no_hls_player
from vrthinker_core.ui.queue import (
    NOT_UPLOADED,
    CheckedBlocks,
    Fetch,
    QuickState,
    QuickStates,
    upload_place,
)
from vrthinker_core.ui.security import BLOCKED_PATHS, HEARTBEAT_PATH
from vrthinker_core.ui.visitors import Visitor

Patch = pytest.MonkeyPatch
VALUES = ("a word", [], "more words")


async def nothing_fetched(url: str) -> Path:
    raise AssertionError(f"{url} was fetched")


def on_page(
    act: Callable[[CheckedBlocks, BlockFunction], Awaitable[Any]], fetch: Fetch = nothing_fetched
) -> Any:
    """The result of `act` with a page of three components and its one event."""

    async def build() -> Any:  # Gradio builds pages only inside an event loop
        with CheckedBlocks(fetch, "A page") as blocks:
            components = [gr.Textbox("as it was"), gr.Gallery(), gr.HTML()]
            components[0].change(lambda *_: VALUES, components, components)
        return await act(blocks, next(iter(blocks.fns.values())))

    return run_in_thread(build())


def outputs(predictions: Callable[[BlockFunction], Any]) -> tuple[Any, Any]:
    """What ours sends when the event returns `predictions`, and what Gradio does for all values."""

    async def act(blocks: CheckedBlocks, event: BlockFunction) -> tuple[Any, Any]:
        ours = await blocks.postprocess_data(event, predictions(event), SessionState(blocks))
        state = SessionState(blocks)
        return ours, await gr.Blocks.postprocess_data(blocks, event, list(VALUES), state)

    return on_page(act)


def inputs(*values: Any, fetch: Fetch = nothing_fetched, visibility: str = "public") -> Any:
    """What the event's function is given when the browser sends `values`."""

    async def act(blocks: CheckedBlocks, event: BlockFunction) -> Any:
        event.api_visibility = visibility
        return await blocks.preprocess_data(event, list(values), SessionState(blocks))

    return on_page(act, fetch)


@settings(max_examples=8)
@given(st.tuples(st.booleans(), st.booleans(), st.booleans()), st.booleans())
def test_a_skipped_output_changes_no_other(skipped: tuple[bool, bool, bool], by_name: bool) -> None:
    def without(values: Sequence[Any]) -> list[Any]:
        return [gr.skip() if skip else value for skip, value in zip(skipped, values, strict=True)]

    def predictions(event: BlockFunction) -> Any:
        if not by_name:
            return tuple(without(VALUES))
        told = zip(event.outputs, without(VALUES), strict=True)
        return {part: value for part, value in told if value != gr.skip()} or gr.skip()

    ours, theirs = outputs(predictions)
    assert ours == without(theirs)


def test_a_dictionary_for_the_only_output_is_its_value() -> None:
    async def act(blocks: CheckedBlocks, event: BlockFunction) -> None:
        event.outputs = [gallery := event.outputs[1]]
        state = SessionState(blocks)
        pictures = await gr.Blocks.postprocess_data(blocks, event, {gallery: []}, state)
        assert await blocks.postprocess_data(event, {gallery: []}, state) == pictures
        assert await blocks.postprocess_data(event, {gallery: gr.skip()}, state) == [gr.skip()]

    on_page(act)


def test_no_copy_of_what_was_shown_stays_and_a_skipped_component_is_not_built_anew() -> None:
    """Gradio keeps the values of 256 sessions; a stranger's trace may have megabytes of text."""

    async def act(blocks: CheckedBlocks, event: BlockFunction) -> None:
        ours, theirs = QuickState(blocks), SessionState(blocks)
        before, components = dict(ours.blocks_config.blocks), list(event.outputs)
        await blocks.postprocess_data(event, (gr.skip(), gr.skip(), VALUES[2]), ours)
        await blocks.postprocess_data(event, {event.outputs[2]: VALUES[2]}, ours)
        assert ours.blocks_config.blocks == before
        assert event.outputs == components
        await blocks.postprocess_data(event, list(VALUES), ours)
        await gr.Blocks.postprocess_data(blocks, event, list(VALUES), theirs)
        assert ours.config_values == {}
        assert VALUES[2] in str(theirs.config_values), "Gradio keeps none: no need to drop them"

    on_page(act)


def picture(path: str) -> dict[str, Any]:
    """A gallery's picture as a browser sends it."""
    return {"image": {"path": path, "meta": {"_type": "gradio.FileData"}}, "caption": None}


def test_an_input_that_is_left_out_is_what_the_component_says() -> None:
    assert inputs() == ["as it was", None, None]


def test_an_address_is_fetched_for_programs_alone(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    asked, sent = list[str](), ("", [picture("http://film.example/a.png")], "")

    async def fetch(url: str, _: Visitor) -> Path:
        asked.append(url)
        (tmp_path / "fetched.png").write_bytes(b"")
        return tmp_path / "fetched.png"

    found = str(inputs(*sent, fetch=fetch))
    assert asked == ["http://film.example/a.png"], "Gradio names files in another way"
    assert "fetched.png" in found
    assert "film.example" not in found
    with pytest.raises(gr.Error) as refused:
        inputs(*sent, visibility="private")
    assert refused.value.message == NOT_UPLOADED


def test_a_kept_file_lies_where_gradio_copies_it(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "uploads"))
    assert get_upload_folder() == str(tmp_path / "uploads")
    kept = tmp_path / "a film - 1,2.mp4"
    kept.write_bytes(b"film")
    place = upload_place(kept, kept.name)
    place.parent.mkdir(parents=True)
    kept.rename(place)
    assert save_file_to_cache(place, get_upload_folder()) == str(place)
    assert upload_place(place, "../..").name == "video"


def test_a_session_that_has_left_is_forgotten() -> None:
    async def act(blocks: CheckedBlocks, _event: BlockFunction) -> None:
        holder = QuickStates()
        holder.set_blocks(blocks)
        assert isinstance(holder["anna"], QuickState)
        assert holder["anna"] is not holder["bert"]
        blocks.forget_session("anna")
        blocks.forget_session("anna")
        assert ("anna" in holder, "bert" in holder) == (False, True)
        assert set(holder.time_last_used) == {"bert"}, "Gradio keeps sessions elsewhere"

    on_page(act)


def test_the_queue_and_the_blocks_have_the_names_that_ours_use() -> None:
    async def act(blocks: CheckedBlocks, _event: BlockFunction) -> None:
        theirs = Queue(True, 1, 1, None, blocks)
        for name in ("sleep_when_free", "progress_update_sleep_when_free", "ANALYTICS_MAX_EVENTS"):
            assert hasattr(theirs, name), f"Gradio's queue has no {name} any more"
        pending = "pending_messages_per_session", "pending_event_ids_session"
        assert [getattr(theirs, name) for name in pending] == [{}, {}]
        assert theirs.pending_messages_per_session.max_size < sys.maxsize
        assert blocks.delete_cache is None, "Gradio deletes no file by its age: it knows no pages"

    on_page(act)
    asked = list(inspect.signature(Queue.clean_events).parameters)
    assert asked == ["self", "session_hash", "event_id"]


def test_the_addresses_that_we_block_are_gradios() -> None:
    async def act(blocks: CheckedBlocks, _event: BlockFunction) -> list[str]:
        return list(App.create_app(blocks).openapi()["paths"])

    paths = on_page(act)
    assert HEARTBEAT_PATH + "{session_hash}" in paths, "Gradio's pages hold another stream"
    for blocked in BLOCKED_PATHS:
        name = blocked.removesuffix("http")
        assert any(path.startswith(name) for path in paths), f"Gradio has no {name} any more"


def test_gradio_names_the_files_of_its_page_as_we_read_them() -> None:
    files = re.findall(r'href="\./assets/([^"]+)"', early_files(["html", "video"]))
    assert all((Path(BUILD_PATH_LIB) / name).is_file() for name in files)
    assert {"Blocks", "HTML", "VideoPreview"} <= {name.partition("-")[0] for name in files}
    assert next(no_hls_player()).path.removeprefix("/assets/") in files
