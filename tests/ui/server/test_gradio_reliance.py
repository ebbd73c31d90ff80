"""The page's blocks answer as Gradio's do, at a lower price, and forget who has left."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import gradio as gr
from gradio.blocks import BlockFunction
from gradio.state_holder import SessionState, StateHolder
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks.tools.metrics import played
from vrthinker_core.ui.server.gradio_blocks import LeanBlocks

VALUES = ("a word", [], "more words")


def on(kind: type[Any], act: Callable[[Any, BlockFunction], Awaitable[Any]]) -> Any:
    """What `act` comes to on a page of three parts; Gradio makes a page only where an event loop runs."""

    async def made() -> Any:
        with kind(analytics_enabled=False) as blocks:
            parts = [gr.Textbox(), gr.Gallery(), gr.HTML()]
            parts[0].change(lambda: VALUES, None, parts)
        return await act(blocks, next(iter(blocks.fns.values())))

    return played(made())


def answer(kind: type[Any], predictions: Any) -> Any:
    return on(kind, lambda blocks, function: blocks.postprocess_data(function, predictions, SessionState(blocks)))


@settings(deadline=None, max_examples=8)
@given(st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_what_is_skipped_changes_nothing_else(skipped: tuple[bool, bool, bool]) -> None:
    predictions = tuple(gr.skip() if skip else value for skip, value in zip(skipped, VALUES, strict=True))
    for skip, ours, theirs in zip(skipped, answer(LeanBlocks, predictions), answer(gr.Blocks, predictions), strict=True):
        assert ours == (gr.skip() if skip else theirs)


def test_one_skip_stands_for_all_parts() -> None:
    assert answer(LeanBlocks, gr.skip()) == [gr.skip()] * 3


def test_what_is_skipped_is_not_made_anew() -> None:
    async def act(blocks: LeanBlocks, function: BlockFunction) -> None:
        state, parts = SessionState(blocks), list(function.outputs)
        before = dict(state.blocks_config.blocks)
        await blocks.postprocess_data(function, (gr.skip(), gr.skip(), "more words"), state)
        assert state.blocks_config.blocks == before
        assert function.outputs == parts

    on(LeanBlocks, act)


def test_who_has_left_is_forgotten() -> None:
    async def act(blocks: LeanBlocks, function: BlockFunction) -> None:
        holder = StateHolder()
        holder.set_blocks(blocks)
        assert holder["anna"] is not holder["bert"]
        blocks.forget_session("anna")
        blocks.forget_session("anna")
        assert "anna" not in holder
        assert "bert" in holder
        assert set(holder.time_last_used) == {"bert"}

    on(LeanBlocks, act)
