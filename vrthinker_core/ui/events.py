"""Which event of which component calls which handler: in a queue, or at once."""

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
from vrthinker_core.ui.order_handlers import OrderHandlers, VoteHandlers
from vrthinker_core.ui.run_handlers import Handlers
from vrthinker_core.ui.services import Services, session_id_of
from vrthinker_core.ui.upload_handlers import UploadHandlers

JUDGE_QUEUE = "judge"  # the concurrency id of the queue for the runs of page and API
QUIET: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden"}
UNQUEUED: dict[str, Any] = {"queue": False, **QUIET}
MULTIPLE: dict[str, Any] = {"trigger_mode": "multiple", **QUIET}
# Outside the judge's queue, any number at once
BESIDE: dict[str, Any] = {"concurrency_limit": None, **QUIET}
# A status that names the next step follows the prompt as it is written; any other stays.
FOLLOW_PROMPT = f"""(prompt, line) => {{
    const [write, compare] = {json.dumps([words.TWO_VIDEOS, words.READY_TO_COMPARE])};
    const followed = prompt.trim() ? line.replace(write, compare) : line.replace(compare, write);
    return followed === line ? {json.dumps(gr.skip())} : followed;
}}"""


def connect_events(
    blocks: CheckedBlocks, parts: PageComponents, services: Services, at_once: int, waiting: int
) -> None:
    """Connect all events, inside the `with` statement of `blocks`.

    `at_once` runs go on at a time, `waiting` more may wait.
    """
    handlers, banner = Handlers(blocks, parts, services), JudgeBanner(parts, services)
    cancels, status = _connect_runs(parts, services, handlers, at_once), parts.status
    # Not the players: their values would be waited for as long as a video is uploaded.
    pressed, outputs = [parts.buttons, parts.prompt], [*parts.run_outputs, parts.buttons]
    sent = "(_, prompt) => [VRThinker.buttons.shown(), prompt]"
    stop = parts.stop_button.click
    stop(handlers.stop, pressed, outputs, js=sent, cancels=cancels, **UNQUEUED)
    _connect_uploads(parts, services, handlers)
    _connect_saved(blocks, parts, HistoryHandlers(parts, services, handlers), cancels)
    vote = VoteHandlers(parts, services, handlers).on_submit
    parts.trace.submit(vote, None, parts.run_outputs, **UNQUEUED)
    swapped = [*parts.videos, *parts.run_outputs]
    parts.rail.click(handlers.swap_videos, parts.videos, swapped, **UNQUEUED)
    announce = "(line) => VRThinker.announcer.status(line)"
    status.change(None, status, None, js=announce, **MULTIPLE)
    head = [parts.head, parts.trace]
    blocks.load(banner.on_load, None, head, **QUIET)
    parts.judge.change(banner.on_choose, parts.judge, head, **MULTIPLE)

    def end_session(session_id: str) -> None:
        handlers.end_session(session_id)
        banner.end_session(session_id)
        blocks.forget_session(session_id)

    def on_unload(request: gr.Request) -> None:
        end_session(session_id_of(request))

    blocks.unload(on_unload)
    blocks.limit_queue(JUDGE_QUEUE, waiting, services.waiting_room.note_queued, end_session)


def _connect_runs(
    parts: PageComponents, services: Services, handlers: Handlers, at_once: int
) -> list[Any]:
    """Connect what waits in the judge's queue; return the events that others cancel."""
    compare = CompareHandlers(parts, services, handlers)
    order = OrderHandlers(parts, services, handlers)
    branches = BranchHandlers(parts, services, handlers)
    status, place = parts.status, [parts.buttons, parts.status]
    cancels = []

    def connect(
        ask: Any, asked: Any, run: Any, inputs: Any, placed: Any, refused: Any, shown: Any
    ) -> None:
        joined = ask(asked.join_queue, inputs, placed, **UNQUEUED)
        joined.failure(asked.refused, None, refused, **UNQUEUED)
        # Compare can be pressed again a moment before the last run has ended in the browser.
        judged = {"concurrency_limit": at_once, "concurrency_id": JUDGE_QUEUE, **MULTIPLE}
        cancels.append(joined.success(run, inputs, shown, **judged))
        if asked is compare:
            for answered in (joined.success, joined.failure):
                answered(None, None, None, js="() => VRThinker.buttons.answered()", **QUIET)
            uploading = f"() => {json.dumps(words.UPLOADING)}"
            parts.buttons.click(None, None, status, js=uploading, **QUIET)
        line, many = [status, parts.buttons], {"trigger_mode": "multiple", **BESIDE}
        cancels.append(joined.success(handlers.show_place, None, line, **many))

    # A set: the handlers get values by component.
    form = {*parts.videos, parts.prompt, parts.judge, *parts.settings.values()}
    outputs = [*parts.run_outputs, parts.buttons]
    click = parts.compare_button.click
    connect(click, compare, compare.compare, form, place, status, outputs)
    pair, refused = [parts.prompt, *parts.videos], [status, parts.trace]
    connect(parts.trace.click, order, order.check, pair, place, refused, outputs)
    submit, shown = parts.branches.submit, [parts.prompt, *outputs]
    placed, started = [*place, parts.branches], [parts.branches, *shown]
    connect(submit, branches, branches.start, parts.videos, placed, parts.branches, started)
    parts.branches.select(branches.show, parts.prompt, shown, **UNQUEUED)
    return cancels


def _connect_uploads(parts: PageComponents, services: Services, runs: Handlers) -> None:
    inputs, outputs = [parts.prompt, *parts.videos], parts.run_outputs
    line, follow = [parts.prompt, parts.status], {"js": FOLLOW_PROMPT, **MULTIPLE}
    parts.prompt.change(None, line, parts.status, **follow)
    for side, player, address in zip(Side, parts.videos, parts.addresses, strict=True):
        handlers = UploadHandlers(parts, services, side, runs.changed_run)
        changed, limits = [player, *outputs], {"concurrency_limit": 2, **QUIET}
        arrived = player.upload(handlers.on_arrival, inputs, outputs, queue=False, **MULTIPLE)
        copied = arrived.then(
            handlers.on_upload, inputs, changed, concurrency_id="copies", **limits
        )
        player.clear(handlers.on_clear, inputs, outputs, **UNQUEUED)
        entered = address.submit(lambda: words.FETCHING, None, parts.status, **UNQUEUED)
        fetched = entered.then(
            handlers.on_address, [address, *inputs], changed, concurrency_id="fetched", **limits
        )
        for written in (copied.then, fetched.then):  # the prompt may have been written meanwhile
            written(None, line, parts.status, **follow)


def _connect_saved(
    blocks: CheckedBlocks, parts: PageComponents, saved: HistoryHandlers, cancels: list[Any]
) -> None:
    """Connect saved runs; any number of pages may follow a live one."""
    form: list[Any] = [parts.judge, *parts.settings.values()]
    own, outputs = [*parts.shown_run, *form], [*parts.run_outputs, parts.buttons]
    multiple: dict[str, Any] = {"trigger_mode": "multiple", **BESIDE}
    # Sets: the handlers get values by component.
    traced = {parts.open_button, *form}
    parts.open_button.upload(saved.open_trace, traced, own, cancels=cancels, **BESIDE)
    chosen = parts.examples.click(saved.open, {*form}, own, cancels=cancels, **multiple)
    for asked in (chosen, blocks.load(saved.on_load, None, own, **BESIDE)):
        asked.success(saved.follow, None, outputs, **multiple)
        for ended in (asked.success, asked.failure):
            ended(None, None, None, js="() => VRThinker.address.ended()", **QUIET)
