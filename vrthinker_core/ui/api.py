"""The API: `compare` and `health`, over Gradio's protocol, plain HTTP, and MCP if installed.

A call waits in the page's own queue, and its run is kept like a visitor's until the call is over.
"""

# No `from __future__ import annotations`: Gradio derives the endpoints' schemas from annotations.

import asyncio
import base64
import json
import logging
import secrets
from collections.abc import AsyncIterator, Set
from contextlib import AsyncExitStack, suppress
from dataclasses import asdict, dataclass
from functools import partial
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, Literal, TypedDict, cast
from urllib.parse import unquote

import gradio as gr
from gradio.components.api_component import Api
from gradio.events import api as endpoint
from gradio.utils import get_upload_folder
from gradio_client.utils import python_type_to_json_schema  # type: ignore[import-untyped]
from packaging.requirements import Requirement
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.__about__ import __version__
from vrthinker_core.errors import BadInput
from vrthinker_core.protocols.parser import label_probabilities
from vrthinker_core.types import Dimension, Settings, Verdict, VideoPair, Vote
from vrthinker_core.types.events import Turn
from vrthinker_core.types.settings import PAGE_SETTINGS, parse_settings
from vrthinker_core.types.wording import order_unchecked
from vrthinker_core.ui import words
from vrthinker_core.ui.handlers import Services
from vrthinker_core.ui.queue import UPLOAD_FIRST, CheckedBlocks
from vrthinker_core.ui.sessions import ShownRun
from vrthinker_core.ui.uploads import Uploads
from vrthinker_core.ui.view import Probabilities, RunView
from vrthinker_core.ui.visitors import Visitor, visitor_of


class LabelsJson(TypedDict):
    """0 tie, 1 video 1, 2 video 2, None not said."""

    TA: int | None
    MQ: int | None
    VQ: int | None
    OA: int | None


class ProbabilitiesJson(TypedDict):
    """How likely the judge was to write 0, 1 and 2, adding up to at most 1; None if not known."""

    TA: list[float] | None
    MQ: list[float] | None
    VQ: list[float] | None
    OA: list[float] | None


class FrameJson(TypedDict):
    """A frame that the judge was shown, from `seconds` to before `until`."""

    video: int  # 1 or 2
    number: str  # what the judge calls it
    index: int  # of the frame in the file, counted from 0
    seconds: float
    until: float


class TurnJson(TypedDict):
    """One turn; what is read from the reply stays empty until `over`."""

    number: int
    frames: list[FrameJson]
    snapshot: str
    think: str
    requested: list[int]  # frame numbers that the reply asks for
    labels: LabelsJson | None
    probabilities: ProbabilitiesJson | None  # of these labels
    confidence: int | None
    remarks: list[str]  # repairs, refusals and cuts, one sentence each
    text: str  # the reply as it came, as far as it has come
    reasoning: str  # what a server told beside the reply; never sent back to the judge
    over: bool


class OrderLabelsJson(TypedDict):
    """What the order does to each label: "stable", "flips", "turns into a tie", …"""

    TA: str
    MQ: str
    VQ: str
    OA: str


class SecondRunJson(TypedDict):
    """The same pair judged with its sides swapped; labels and frames are given in the sides of the first run."""

    stop: str | None
    labels: LabelsJson | None
    probabilities: ProbabilitiesJson | None
    order: OrderLabelsJson | None  # None until both runs have a verdict
    unchecked: str  # why there is no `order`, once the second run is over; "" else
    turns: list[TurnJson]


class VoteJson(TypedDict):
    """What a person said of the pair."""

    at: str  # when, in ISO 8601
    labels: LabelsJson
    agrees: bool | None  # with the judge's verdict
    slots: list[int]  # of the pairs that decided it
    note: str
    blind: bool  # given before the verdict was seen


class RunJson(TypedDict):
    """A run so far."""

    status: str
    stop: str | None  # why the run ended, a `StopReason`; None while it is going on
    labels: LabelsJson | None
    probabilities: ProbabilitiesJson | None  # of these labels; None where none is known
    outside_scope: bool  # the judge cannot judge such a pair: no label counts, and none is given
    provisional: bool
    forced: bool
    error: str  # one sentence, "" where nothing failed
    notes: list[str]
    judge: str
    protocol: str
    prompt: str
    turns: list[TurnJson]
    branch: str  # where it leaves the run that it is a branch of, in words; "" for a run of its own
    swapped: SecondRunJson | None  # with the setting `swap`, once the first run has a verdict
    vote: VoteJson | None  # None where nobody has voted


class OfferedJudgeJson(TypedDict):
    """A judge that can be asked for by name."""

    name: str
    status: str
    error: str


class SettingJson(TypedDict):
    """A setting that a run can be given."""

    name: str
    label: str
    help: str
    range: str  # what it may be, in words
    default: str | int | float | None  # None is the protocol's own value


class HealthJson(TypedDict):
    """The state of the server, and of its first judge."""

    status: str  # ready, loading or no judge
    judge: str
    protocol: str
    notes: list[str]
    error: str
    judges: list[OfferedJudgeJson]
    judging: int  # runs that are being judged
    waiting: int  # runs that wait in the queue
    version: str  # of this package
    settings: list[SettingJson]


def run_json(view: RunView, status: str = "") -> RunJson:
    """Return the run so far, with its status line."""
    finished, started = view.finished, view.started
    notes = [*started.notes, *words.clip_notes(started.clips)] if started else []
    notes += finished.notes if finished else ()
    notes += [f"{view.headline}."] if view.outside_scope else []
    return {
        "status": status,
        "stop": str(finished.stop) if finished else None,
        "labels": _labels(view.verdict),
        "probabilities": _probabilities(view.probabilities),
        "outside_scope": view.outside_scope,
        "provisional": bool(finished and finished.provisional),
        "forced": bool(finished and finished.forced),
        "error": finished.error if finished else "",
        "notes": notes,
        "judge": started.judge if started else "",
        "protocol": started.dialect if started else "",
        "prompt": started.prompt if started else "",
        "turns": [_turn(view, each) for each in view.turns],
        "branch": view.name,
        "swapped": _second_run(view),
        "vote": _vote(view.vote),
    }


def _second_run(view: RunView) -> SecondRunJson | None:
    if (second := view.second) is None:
        return None
    end, check = second.finished, view.order
    return {
        "stop": str(end.stop) if end else None,
        "labels": _labels(second.verdict),
        "probabilities": _probabilities(second.probabilities),
        "order": cast(OrderLabelsJson, check.effects) if check else None,
        "unchecked": order_unchecked(end) if end and check is None else "",
        "turns": [_turn(second, each) for each in second.turns],
    }


def refused_json(sentence: str) -> RunJson:
    """Return a run that never began, because of what was asked for."""
    return {**run_json(RunView(None), "Refused"), "stop": "failed", "error": sentence}


def _vote(vote: Vote | None) -> VoteJson | None:
    if vote is None:
        return None
    told = {**asdict(vote), "at": vote.at.isoformat(), "slots": list(vote.slots)}
    return cast(VoteJson, told)


def _labels(verdict: Verdict | None) -> LabelsJson | None:
    return cast(LabelsJson, asdict(verdict)) if verdict else None


def _probabilities(known: Probabilities) -> ProbabilitiesJson | None:
    shares = {each.value: list(known[each]) if each in known else None for each in Dimension}
    return cast(ProbabilitiesJson, shares) if known else None


def _turn(view: RunView, turn: Turn) -> TurnJson:
    reply, completion = turn.reply, turn.completion
    verdict = None if view.outside_scope else reply.verdict
    frames = [
        FrameJson(
            video=int(frame.ref.side),
            number=frame.number,
            index=frame.index,
            seconds=frame.seconds,
            until=frame.until,
        )
        for frame in turn.frames
    ]
    return {
        "number": turn.number,
        "frames": frames,
        "snapshot": reply.snapshot,
        "think": reply.think,
        "requested": list(reply.wants.indices) if reply.wants else [],
        "labels": _labels(verdict),
        "probabilities": _probabilities(label_probabilities(completion, verdict)),
        "confidence": reply.confidence,
        "remarks": view.remarks(turn),
        "text": completion.text,
        "reasoning": completion.reasoning,
        "over": not view.is_open(turn),
    }


MCP_PATH = "/gradio_api/mcp"
MCP_REQUIREMENT = "mcp>=1.24,<2"  # what Gradio supports, and what works with the newest pydantic
_REMEDY = f'Run pip install --upgrade "{MCP_REQUIREMENT}" and start again.'
NOT_INSTALLED = f"MCP is off: it needs one more package. {_REMEDY}"
WRONG_VERSION = f"MCP is off: mcp {{}} is installed, and Gradio cannot speak to it. {_REMEDY}"
NO_SSE = f"The older transport is not offered. Connect to {MCP_PATH}/ by streamable HTTP."


def why_no_mcp() -> str:
    """Say why there is no MCP, and what to do; else ""."""
    try:
        version = metadata.version("mcp")
    except metadata.PackageNotFoundError:
        return NOT_INSTALLED
    with suppress(ImportError):
        if Requirement(MCP_REQUIREMENT).specifier.contains(version):
            import_module("mcp.server.streamable_http_manager")
            return ""
    return WRONG_VERSION.format(version)


def mcp_routes() -> list[BaseRoute]:
    """Return routes before Gradio's: 404 for the older transport, or for all without MCP.

    Over the older one (SSE) an answer does not come on the connection of its call, so a client that
    disconnects would go unnoticed.
    """
    sentence = why_no_mcp()
    path = MCP_PATH + ("{rest:path}" if sentence else "/sse")
    refused = PlainTextResponse(sentence or NO_SSE, 404)
    return [Route(path, refused, methods=["GET", "POST", "DELETE"])]


CALL_HEADER = "x-vr-thinker-tool-call"


class McpCallMiddleware:
    """ASGI middleware: gives MCP requests a token, kept in `tokens` until the client leaves."""

    def __init__(self, app: ASGIApp, tokens: set[str]) -> None:
        self._app, self._tokens = app, tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, those to the MCP server with a token."""
        if scope["type"] != "http" or MCP_PATH not in scope["path"]:
            await self._app(scope, receive, send)
            return
        token = MutableHeaders(scope=scope)[CALL_HEADER] = secrets.token_hex(12)
        self._tokens.add(token)

        async def watched_receive() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._tokens.discard(token)
            return message

        try:
            await self._app(scope, watched_receive, send)
        finally:
            self._tokens.discard(token)


NOT_BASE64 = (
    "{} cannot be read: after data:video/mp4;base64, only the file itself in Base64 is understood."
)
TOO_LARGE = (
    "{} has more than {:g} MB, which is too much for a call itself. "
    "Upload it first, and name it by what the upload gave."
)

UPLOAD_ADDRESS = "/gradio_api/file="  # before the path in an upload's address on this server
MAX_DATA_URL_BYTES = 3_500_000  # of one video: two in Base64 fit a request (`request_limits`)


class FileMarker(TypedDict):
    """How Gradio marks a value as a file."""

    _type: Literal["gradio.FileData"]


class UploadedFile(TypedDict, total=False):
    """An uploaded file as Gradio's clients give it."""

    path: str
    meta: FileMarker


async def resolve_video(
    given: object, label: str, uploads: Uploads, visitor: Visitor, cleanup: AsyncExitStack
) -> Path:
    """Return the file of a video; `cleanup` deletes it if it came as a data URL.

    `given` is an `UploadedFile`, an upload's path or address, a web address, or a data URL. Raises
    BadInput for all else, such as other files of this machine; `label` names the video in it.
    """
    text = given if isinstance(given, str) else ""
    if text.startswith("data:"):
        folder = cleanup.enter_context(uploads.arrivals())
        return await asyncio.to_thread(_write_data_url, text, label, folder / "video")
    if text.startswith(("http://", "https://")) and UPLOAD_ADDRESS not in text:
        return await uploads.fetch_beside(text, visitor)
    named = given.get("path") if isinstance(given, dict) else given
    if isinstance(named, str):
        named = unquote(named.partition(UPLOAD_ADDRESS)[2]) if "://" in named else named
        with suppress(OSError, RuntimeError, ValueError):
            path = Path(named).resolve(strict=True)
            if path.is_relative_to(Path(get_upload_folder()).resolve()) and path.is_file():
                return path
    raise BadInput(f"{label} is no uploaded file. {UPLOAD_FIRST}")


def _write_data_url(url: str, label: str, path: Path) -> Path:
    head, _, body = url.partition(",")
    if not head.endswith(";base64"):
        raise BadInput(NOT_BASE64.format(label))
    if len(body) * 3 // 4 > MAX_DATA_URL_BYTES:
        raise BadInput(TOO_LARGE.format(label, MAX_DATA_URL_BYTES / 1e6))
    try:
        path.write_bytes(base64.b64decode(body, validate=True))
    except ValueError:
        raise BadInput(NOT_BASE64.format(label)) from None
    except OSError:
        raise BadInput(words.NO_ROOM_NOW) from None
    return path


NOT_AN_OBJECT = 'The settings must be a JSON object, as in {"max_turns": 3}.'


def resolve_settings(given: object) -> Settings:
    """Return the given settings; defaults for None and "". Raises BadInput."""
    if given in (None, ""):
        return Settings()
    with suppress(ValueError, RecursionError):
        given = json.loads(given) if isinstance(given, str) else given
    if not isinstance(given, dict):
        raise BadInput(NOT_AN_OBJECT)
    return parse_settings(given)


def settings_schema() -> dict[str, Any]:
    """Return the parameter's JSON schema: each of `PAGE_SETTINGS` with its label, help and range.

    An unknown name fits the schema, so that it is answered with the names there are. Its value may
    be no object: Gradio's MCP server would upload every file of this machine that an object names.
    Any number fits, too: `parse_settings` refuses it with a sentence that names the setting.
    """
    properties = {}
    for row in PAGE_SETTINGS:
        kind = ["number"] if row.number is not None else ["boolean"] if row.is_switch else []
        description = f"{row.label}. {row.help} Range: {row.range}."
        schema = {**_any_of(*kind, "string", "null"), "description": description}
        properties[row.name] = schema if row.default is None else {**schema, "default": row.default}
    by_name = {
        "type": "object",
        "properties": properties,
        "additionalProperties": _any_of("string", "number", "null"),
    }
    return {"anyOf": [by_name, {"type": "string"}, {"type": "null"}]}


def _any_of(*kinds: str) -> dict[str, Any]:
    return {"anyOf": [{"type": kind} for kind in kinds]}


POLL_SECONDS = 0.05
HEARTBEAT_SECONDS = 0.5  # at most between items: only there does Gradio notice that a client left

as_text = partial(json.dumps, ensure_ascii=False)  # for an MCP call, which has a token


def register_endpoints(blocks: CheckedBlocks, services: Services, tokens: Set[str]) -> None:
    """Add the endpoints inside `blocks`; `tokens`: of MCP calls whose client is connected."""
    api = Endpoints(services, tokens)
    compare = endpoint(api.compare, api_name="compare", concurrency_limit=None)
    health = endpoint(api.health, api_name="health", queue=False)
    # Gradio derives no schema from an iterator, and none with descriptions
    schemas = {
        compare["inputs"][-1]: settings_schema(),
        compare["outputs"][0]: python_type_to_json_schema(RunJson),
        health["outputs"][0]: python_type_to_json_schema(HealthJson),
    }
    for component, schema in schemas.items():
        value = blocks.blocks[component]
        assert isinstance(value, Api)
        value._api_info = schema
    if (sentence := why_no_mcp()) not in ("", NOT_INSTALLED):
        logging.getLogger(__name__).warning(sentence)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The functions behind the endpoints. Clients show their docstrings as descriptions."""

    services: Services
    mcp_tokens: Set[str]

    async def compare(
        self,
        video1: str | UploadedFile,
        video2: str | UploadedFile,
        prompt: str,
        request: gr.Request,
        judge: str = "",
        settings: dict[str, str | int | float | None] | str | None = None,
    ) -> AsyncIterator[RunJson | str]:
        """Which of two videos, made from the same prompt, follows it better, and why: the judge's turns.

        Every item is the whole run so far; the last one has `stop`, and `labels` for text alignment
        (TA), motion quality (MQ), visual quality (VQ) and overall (OA): 0 tie, 1 video 1, 2 video 2,
        null not said. `error` is one sentence when it failed. With the setting `swap` the same pair
        is then judged with its sides swapped: `swapped` has those labels, mapped back, and in
        `order` a word for each ("stable", "flips", "turns into a tie", …). A tool's answer is the
        last item, as JSON. One run can take minutes, and others may wait before you: `health` says
        how many.

        Args:
            video1: The first video: the path or address that an upload here gave, or its web address.
            video2: The second video, named in the same way.
            prompt: The text both videos were made from.
            judge: Which judge is to compare, by its name in `health`; the first one there when nothing is said.
            settings: How the run goes, by name, as in {"max_turns": 3}; defaults for those left out. `health` lists all of them.
        """
        token, services = request.headers.get(CALL_HEADER, ""), self.services
        async with AsyncExitStack() as cleanup:
            try:
                name = services.judges.choose(judge)
                visitor = visitor_of(request)
                services.queue.check(name, visitor)
                chosen, uploads = resolve_settings(settings), services.uploads
                first = await resolve_video(video1, "Video 1", uploads, visitor, cleanup)
                second = await resolve_video(video2, "Video 2", uploads, visitor, cleanup)
                if not isinstance(prompt, str):
                    raise BadInput("The prompt must be a text.")
                session = services.sessions.get(f"program {secrets.token_hex(12)}")
                session.followers = 1
                cleanup.callback(services.sessions.end, session.id)
                pair = VideoPair(prompt, first, second)
                shown = services.sessions.start_run(session, pair, chosen, name, visitor)
            except BadInput as error:
                refused = refused_json(str(error))
                yield as_text(refused) if token else refused
                return
            finally:
                services.queue.arrived()
            async for item in _progress(shown):
                yield as_text(item) if token else item
                if token and token not in self.mcp_tokens:
                    return

    def health(self, request: gr.Request) -> HealthJson | str:
        """Whether a judge is there, which one, how many wait for it, and what `compare` can be given.

        `judges` are those that can be asked for by name; `status` (ready, loading or no judge) and
        what stands beside it is about the first of them. `settings` are what a run can be given,
        each with its range and its default, null for the protocol's own.
        """
        judges, offered = self.services.judges, list[OfferedJudgeJson]()
        for name in judges.names:
            judge, error = judges.look(name)
            status = "ready" if judge else "no judge" if error else "loading"
            offered.append({"name": name, "status": status, "error": error})
        first, error = judges.look()
        judging, waiting = self.services.queue.counts()
        health: HealthJson = {
            "status": offered[0]["status"],
            "judge": first.name if first else "",
            "protocol": next(iter(first.protocols), "paired") if first else "",
            "notes": list(first.notes) if first else [],
            "error": error,
            "judges": offered,
            "judging": judging,
            "waiting": waiting,
            "version": __version__,
            "settings": [
                cast(SettingJson, {key: getattr(row, key) for key in SettingJson.__annotations__})
                for row in PAGE_SETTINGS
            ],
        }
        return as_text(health) if request.headers.get(CALL_HEADER) else health


async def _progress(shown: ShownRun) -> AsyncIterator[RunJson]:
    """The run so far, at each change, every `HEARTBEAT_SECONDS`, and at the end."""
    run, polls, before = shown.run, 0, None
    while not run.over:
        view = RunView.of(run)
        runs = [(each.started is None, len(each.turns), len(each.ended)) for each in view.runs]
        stage = run.begun, runs
        if stage != before or polls * POLL_SECONDS >= HEARTBEAT_SECONDS:
            yield run_json(view, view.status_of(run) if run.begun else words.WAITING)
            before, polls = stage, 0
        polls += 1
        await asyncio.sleep(POLL_SECONDS)
    view = RunView.of(run)
    yield run_json(view, view.status_of(run))
