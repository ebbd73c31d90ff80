"""Which event of which component calls which handler, and how: in the judge's queue, in one of its own, or at once."""

import json
from typing import Any

import gradio as gr

from vrthinker_core.types import Side
from vrthinker_core.ui import words
from vrthinker_core.ui.branch_handlers import BranchHandlers
from vrthinker_core.ui.compare_handlers import CompareHandlers, JudgeBanner
from vrthinker_core.ui.gradio_blocks import CheckedBlocks
from vrthinker_core.ui.history_handlers import HistoryHandlers
from vrthinker_core.ui.layout import PageComponents
from vrthinker_core.ui.order_handlers import OrderHandlers, SecondRuns, VoteHandlers
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.services import Services, session_id_of
from vrthinker_core.ui.upload_handlers import UploadHandlers

JUDGE_QUEUE = (
    "judge"  # the concurrency id of the one queue in which the page's runs and the API's wait
)
QUIET_EVENT: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
# A status that names the next step follows the prompt as it is written; any other is left alone, which may be about to change.
FOLLOW_PROMPT = f"""(prompt, line) => {{
    const [write, compare] = {json.dumps([words.TWO_VIDEOS, words.READY_TO_COMPARE])};
    const followed = prompt.trim() ? line.replace(write, compare) : line.replace(compare, write);
    return followed === line ? {json.dumps(gr.skip())} : followed;
}}"""


def connect_events(
    blocks: CheckedBlocks, parts: PageComponents, services: Services, at_once: int, waiting: int
) -> None:
    """Connect all events, inside the `with` statement of `blocks`. `at_once` runs go on at a time, `waiting` more may wait."""
    handlers, banner = Handlers(blocks, parts, services), JudgeBanner(parts, services)
    second = SecondRuns(parts, services, handlers)
    order, branches = OrderHandlers(second), BranchHandlers(second)
    connected = (
        _connect_compare(parts, CompareHandlers(parts, services, handlers), at_once),
        _connect_check(parts, order, at_once),
        _connect_branches(parts, branches, at_once),
    )
    runs, places = zip(*connected, strict=True)
    cancels, outputs = [*runs, *places], [*parts.run_outputs, parts.buttons]
    pressed: dict[str, Any] = {
        "js": "(_, prompt) => [VRThinker.buttons.shown(), prompt]",
        "queue": False,
        "cancels": cancels,
        **QUIET_EVENT,
    }
    # Not the players: their values would be waited for as long as a video is uploaded.
    parts.stop_button.click(handlers.stop, [parts.buttons, parts.prompt], outputs, **pressed)
    _connect_uploads(parts, services, handlers)
    _connect_saved(blocks, parts, HistoryHandlers(parts, services, handlers), cancels)
    parts.trace.submit(
        VoteHandlers(parts, services, handlers).on_submit,
        None,
        parts.run_outputs,
        queue=False,
        **QUIET_EVENT,
    )
    parts.rail.click(
        handlers.swap_videos,
        parts.videos,
        [*parts.videos, *parts.run_outputs],
        queue=False,
        **QUIET_EVENT,
    )
    read_out = {
        "js": "(line) => VRThinker.announcer.status(line)",
        "trigger_mode": "multiple",
        **QUIET_EVENT,
    }
    parts.status.change(None, parts.status, None, **read_out)
    announced = [parts.head, parts.trace]
    blocks.load(banner.on_load, None, announced, **QUIET_EVENT)
    parts.judge.change(
        banner.on_choose, parts.judge, announced, trigger_mode="multiple", **QUIET_EVENT
    )

    def end_session(session_id: str) -> None:
        handlers.end_session(session_id)
        banner.end_session(session_id)
        blocks.forget_session(session_id)

    def on_unload(request: gr.Request) -> None:
        end_session(session_id_of(request))

    blocks.unload(on_unload)
    blocks.limit_queue(JUDGE_QUEUE, waiting, services.waiting_room.note_queued, end_session)


def _connect_compare(
    parts: PageComponents, handlers: CompareHandlers, at_once: int
) -> tuple[Any, Any]:
    """Compare; returns the event of the run itself and that of its place in the queue, which others cancel."""
    line_and_buttons = [parts.buttons, parts.status]
    # A set: the handlers get values by component.
    inputs: set[Any] = {*parts.videos, parts.prompt, parts.judge, *parts.settings.values()}
    joined = parts.compare_button.click(
        handlers.join_queue, inputs, line_and_buttons, queue=False, **QUIET_EVENT
    )
    joined.failure(handlers.refused, None, parts.status, queue=False, **QUIET_EVENT)
    run = joined.success(
        handlers.compare, inputs, [*parts.run_outputs, parts.buttons], **_in_judge_queue(at_once)
    )
    for answered in (joined.success, joined.failure):
        answered(None, None, None, js="() => VRThinker.buttons.answered()", **QUIET_EVENT)
    parts.buttons.click(
        None, None, parts.status, js=f"() => {json.dumps(words.UPLOADING)}", **QUIET_EVENT
    )
    return run, _connect_place(joined, parts, handlers.handlers)


def _connect_check(parts: PageComponents, handlers: OrderHandlers, at_once: int) -> tuple[Any, Any]:
    """Check the order, in the same queue; what is refused says so beside the button, and leaves everything as it is."""
    inputs, line_and_buttons = [parts.prompt, *parts.videos], [parts.buttons, parts.status]
    joined = parts.trace.click(
        handlers.join_queue, inputs, line_and_buttons, queue=False, **QUIET_EVENT
    )
    joined.failure(handlers.refused, None, [parts.status, parts.trace], queue=False, **QUIET_EVENT)
    run = joined.success(
        handlers.check, inputs, [*parts.run_outputs, parts.buttons], **_in_judge_queue(at_once)
    )
    return run, _connect_place(joined, parts, handlers.runs.handlers)


def _connect_branches(
    parts: PageComponents, handlers: BranchHandlers, at_once: int
) -> tuple[Any, Any]:
    """A branch, in the same queue; what is refused says so in the form. And which run of origin and branches is shown."""
    inputs, outputs = parts.videos, [parts.prompt, *parts.run_outputs, parts.buttons]
    joined_outputs = [parts.buttons, parts.status, parts.branches]
    joined = parts.branches.submit(
        handlers.join_queue, inputs, joined_outputs, queue=False, **QUIET_EVENT
    )
    joined.failure(handlers.refused, None, parts.branches, queue=False, **QUIET_EVENT)
    run = joined.success(
        handlers.start, inputs, [parts.branches, *outputs], **_in_judge_queue(at_once)
    )
    parts.branches.select(handlers.show, parts.prompt, outputs, queue=False, **QUIET_EVENT)
    return run, _connect_place(joined, parts, handlers.runs.handlers)


def _connect_place(joined: Any, parts: PageComponents, handlers: Handlers) -> Any:
    """The place in the queue, beside the event that waits there."""
    outputs, many = (
        [parts.status, parts.buttons],
        {"trigger_mode": "multiple", "concurrency_limit": None},
    )
    return joined.success(handlers.show_place, None, outputs, **many, **QUIET_EVENT)


def _in_judge_queue(at_once: int) -> dict[str, Any]:
    """As often as it is triggered: Compare can be pressed again a moment before the run before has quite ended in the browser."""
    return {
        "concurrency_limit": at_once,
        "concurrency_id": JUDGE_QUEUE,
        "trigger_mode": "multiple",
        **QUIET_EVENT,
    }


def _connect_uploads(parts: PageComponents, services: Services, runs: Handlers) -> None:
    limits: dict[str, Any] = {"concurrency_limit": 2, **QUIET_EVENT}
    inputs, run_outputs = [parts.prompt, *parts.videos], parts.run_outputs
    line, next_step = (
        [parts.prompt, parts.status],
        {"js": FOLLOW_PROMPT, "trigger_mode": "multiple", **QUIET_EVENT},
    )
    parts.prompt.change(None, line, parts.status, **next_step)
    for side, player, address in zip(Side, parts.videos, parts.addresses, strict=True):
        handlers, changed = (
            UploadHandlers(parts, services, side, runs.changed_run),
            [player, *parts.run_outputs],
        )
        arrived = player.upload(
            handlers.on_arrival,
            inputs,
            run_outputs,
            queue=False,
            trigger_mode="multiple",
            **QUIET_EVENT,
        )
        copied = arrived.then(
            handlers.on_upload, inputs, changed, concurrency_id="copies", **limits
        )
        player.clear(handlers.on_clear, inputs, parts.run_outputs, queue=False, **QUIET_EVENT)
        entered = address.submit(
            lambda: words.FETCHING, None, parts.status, queue=False, **QUIET_EVENT
        )
        fetched = entered.then(
            handlers.on_address, [address, *inputs], changed, concurrency_id="fetched", **limits
        )
        for written in (copied.then, fetched.then):  # the prompt may have been written meanwhile
            written(None, line, parts.status, **next_step)


def _connect_saved(
    blocks: CheckedBlocks, parts: PageComponents, saved: HistoryHandlers, cancels: list[Any]
) -> None:
    """Beside the judge's queue: a run that goes on may be followed for as long as it takes, by any number of pages."""
    shown, beside = parts.shown_run, {"concurrency_limit": None, **QUIET_EVENT}
    form: list[Any] = [parts.judge, *parts.settings.values()]
    own = [*shown, *form]
    # Sets: the handlers get values by component.
    parts.open_button.upload(
        saved.open_trace, {parts.open_button, *form}, own, cancels=cancels, **beside
    )
    chosen = parts.examples.click(
        saved.open, {*form}, own, trigger_mode="multiple", cancels=cancels, **beside
    )
    opened = blocks.load(saved.on_load, None, own, **beside)
    for asked in (chosen, opened):
        asked.success(
            saved.follow,
            None,
            [*parts.run_outputs, parts.buttons],
            trigger_mode="multiple",
            **beside,
        )
        for ended in (asked.success, asked.failure):
            ended(None, None, None, js="() => VRThinker.address.ended()", **QUIET_EVENT)
