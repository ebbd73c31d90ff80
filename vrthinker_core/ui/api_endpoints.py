"""The API: `compare` and `health`, over Gradio's protocol, plain HTTP, and MCP if installed.

A call waits in the page's own queue, and its run is kept like a visitor's until the call is over.
"""

# No `from __future__ import annotations`: Gradio derives the endpoints' schemas from annotations.

import asyncio
import base64
import contextlib
import json
import logging
import secrets
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Set
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypedDict, TypeVar
from urllib.parse import unquote

import gradio as gr
from gradio.components.api_component import Api
from gradio.events import api as endpoint
from gradio.utils import get_upload_folder
from gradio_client.utils import python_type_to_json_schema  # type: ignore[import-untyped]

from vrthinker_core.__about__ import __version__
from vrthinker_core.errors import BadInput, VrThinkerError
from vrthinker_core.types import Settings, VideoPair
from vrthinker_core.types.settings import SETTINGS, parse_settings
from vrthinker_core.ui import mcp, settings_form
from vrthinker_core.ui.api_json import (
    HealthJson,
    JudgeHealthJson,
    RunJson,
    refused_json,
    run_json,
    settings_json,
)
from vrthinker_core.ui.download import FULL
from vrthinker_core.ui.gradio_blocks import CheckedBlocks, Fetch
from vrthinker_core.ui.judge_loader import JudgeLoader
from vrthinker_core.ui.mcp import call_token
from vrthinker_core.ui.page_sessions import Session, Sessions

NOT_UPLOADED = (
    "{} is no uploaded file. Upload it first, and name it by the path that the upload gave."
)
NOT_BASE64 = (
    "{} cannot be read: after data:video/mp4;base64, only the file itself in Base64 is understood."
)
TOO_LARGE = (
    "{} has more than {:g} MB, which is too much for a call itself. "
    "Upload it first, and name it by what the upload gave."
)

MAX_DATA_URL_BYTES = 3_500_000  # of one video: two in Base64 fit a request (`request_limits`)


class FileMarker(TypedDict):
    """How Gradio marks a value as a file."""

    _type: Literal["gradio.FileData"]


class UploadedFile(TypedDict, total=False):
    """An uploaded file as Gradio's clients give it."""

    path: str
    meta: FileMarker


@contextlib.asynccontextmanager
async def resolve_video(given: object, label: str, fetch: Fetch) -> AsyncIterator[Path]:
    """Give the file of a video; the file of a data URL is deleted afterwards.

    `given` is an `UploadedFile`, or a string: the path or the address that an upload returned, a
    web address, a data URL. Raises BadInput for everything else, other files of this machine
    included; `label` is the video's name in the sentence.
    """
    text = given.get("path") if isinstance(given, dict) else given
    if not isinstance(text, str):
        raise BadInput(NOT_UPLOADED.format(label))
    prefix = "/gradio_api/file="  # before the path in an uploaded file's address on this server
    is_web = isinstance(given, str) and text.startswith(("http://", "https://"))
    if isinstance(given, str) and text.startswith("data:"):
        uploads = Path(get_upload_folder())
        uploads.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=uploads, ignore_cleanup_errors=True) as folder:
            yield await asyncio.to_thread(_write_data_url, text, label, Path(folder) / "video")
    elif is_web and prefix not in text:
        yield await fetch(text)
    else:
        named = unquote(text.partition(prefix)[2]) if "://" in text else text
        yield _uploaded_path(named, label)


def _uploaded_path(text: str, label: str) -> Path:
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        path = Path(text).resolve(strict=True)
        if path.is_relative_to(Path(get_upload_folder()).resolve()) and path.is_file():
            return path
    raise BadInput(NOT_UPLOADED.format(label))


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
        raise BadInput(FULL) from None
    return path


NOT_AN_OBJECT = 'The settings must be a JSON object, as in {"max_turns": 3}.'


def resolve_settings(given: object) -> Settings:
    """Return the given settings; defaults for None and "". Raises BadInput."""
    if given is None or given == "":
        return Settings()
    try:
        settings = json.loads(given) if isinstance(given, str) else given
    except (ValueError, RecursionError):
        raise BadInput(NOT_AN_OBJECT) from None
    if not isinstance(settings, dict):
        raise BadInput(NOT_AN_OBJECT)
    return parse_settings(settings)


def settings_schema() -> dict[str, Any]:
    """Return the parameter's JSON schema: each of `SETTINGS` with its label, help and range.

    An unknown name fits the schema, so that it is answered with the names there are. Its value may
    be no object: Gradio's MCP server would upload every file of this machine that an object names.
    Any number fits, too: `parse_settings` refuses it with a sentence that names the setting.
    """
    properties = {}
    for row in SETTINGS:
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

Item = TypeVar("Item", RunJson, HealthJson)


def register_endpoints(
    blocks: CheckedBlocks,
    judges: JudgeLoader,
    sessions: Sessions,
    at_once: int,
    concurrency_id: str,
    mcp_tokens: Set[str],
) -> None:
    """Add the endpoints to `blocks`, inside whose `with` statement this is called.

    With the page's own `concurrency_id`, page and API wait in one queue; `at_once` runs of it go on
    at the same time. `mcp_tokens` are those of the MCP calls whose client is still connected.
    """
    api = Endpoints(blocks, judges, sessions, mcp_tokens)
    compare = endpoint(
        api.compare, api_name="compare", concurrency_limit=at_once, concurrency_id=concurrency_id
    )
    health = endpoint(api.health, api_name="health", queue=False)
    _set_schema(blocks, compare["inputs"][-1], settings_schema())
    _set_schema(blocks, compare["outputs"][0], python_type_to_json_schema(RunJson))
    _set_schema(blocks, health["outputs"][0], python_type_to_json_schema(HealthJson))
    if mcp.installed_version() and (sentence := mcp.why_unavailable()):
        logging.getLogger(__name__).warning(sentence)


def _set_schema(blocks: CheckedBlocks, component: int, schema: dict[str, Any]) -> None:
    """Set the JSON schema of a parameter or a return value.

    Gradio derives none from an iterator, and none with descriptions.
    """
    value = blocks.blocks[component]
    assert isinstance(value, Api)
    derived = value.api_info()  # not a copy: the schema that Gradio shows
    derived.clear()
    derived.update(schema)


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The functions behind the endpoints. Clients show their docstrings as descriptions."""

    blocks: CheckedBlocks
    judges: JudgeLoader
    sessions: Sessions
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

        Every item is the whole run so far; the last one has `stop`, and `labels` for text alignment (TA), motion quality (MQ),
        visual quality (VQ) and overall (OA): 0 tie, 1 video 1, 2 video 2, null not said. `error` is one sentence when it failed.
        With the setting `swap` the same pair is then judged with its sides swapped: `swapped` has those labels, mapped back, and in
        `order` a word for each ("stable", "flips", "turns into a tie", …). A tool's answer is the last item, as JSON. One run can
        take minutes, and others may wait before you: `health` says how many.

        Args:
            video1: The first video: the path or address that an upload here gave, or its web address.
            video2: The second video, named in the same way.
            prompt: The text both videos were made from.
            judge: Which judge is to compare, by its name in `health`; the first one there when nothing is said.
            settings: How the run goes, by name, as in {"max_turns": 3}; defaults for those left out. `health` lists all of them.
        """
        token = call_token(request)
        async with AsyncExitStack() as cleanup:
            try:
                name = settings_form.parse_judge(judge, self.judges.names)
                chosen, enter = resolve_settings(settings), cleanup.enter_async_context
                first = await enter(resolve_video(video1, "Video 1", self.blocks.fetch))
                second = await enter(resolve_video(video2, "Video 2", self.blocks.fetch))
                if not isinstance(prompt, str):
                    raise BadInput("The prompt must be a text.")
                session_id = f"program {secrets.token_hex(12)}"
                pair = VideoPair(prompt, first, second)
                session = self.sessions.start_run(session_id, pair, chosen, name)
                cleanup.callback(self.sessions.end, session_id)
            except BadInput as error:
                yield _response(refused_json(str(error)), token)
                return
            progress = self.blocks.limited_queue.release_until(
                lambda: self.judges.is_loaded(name), _progress(session)
            )
            async for item in progress:
                yield _response(item, token)
                if token and token not in self.mcp_tokens:
                    return

    def health(self, request: gr.Request) -> HealthJson | str:
        """Whether a judge is there, which one, how many wait for it, and what `compare` can be given.

        `judges` are those that can be asked for by name; `status` (ready, loading or no judge) and what stands beside it is about
        the first of them. `settings` are what a run can be given, each with its range and its default, null for the protocol's own.
        """
        judges = {name: self._judge_health(name) for name in self.judges.names}
        judging, waiting = self.blocks.limited_queue.counts()
        health: HealthJson = {
            **judges[self.judges.names[0]],
            "judges": [
                {"name": name, "status": judge["status"], "error": judge["error"]}
                for name, judge in judges.items()
            ],
            "judging": judging,
            "waiting": waiting,
            "version": __version__,
            "settings": settings_json(),
        }
        return _response(health, call_token(request))

    def _judge_health(self, name: str) -> JudgeHealthJson:
        health: JudgeHealthJson = {
            "status": "loading",
            "judge": "",
            "protocol": "",
            "notes": [],
            "error": "",
        }
        if not self.judges.is_loaded(name):
            return health
        try:
            backend = self.judges.get(name)
        except VrThinkerError as error:
            return {**health, "status": "no judge", "error": str(error)}
        return {
            **health,
            "status": "ready",
            "judge": backend.name,
            "protocol": next(iter(backend.protocols), "paired"),
            "notes": list(backend.notes),
        }


async def _progress(session: Session) -> AsyncGenerator[RunJson, None]:
    """The run so far, at each change, every `HEARTBEAT_SECONDS`, and at the end."""
    before: object = None
    polls, run = 0, session.run
    while not run.over:
        state = run.state
        stage = [
            (each.started is not None, len(each.turns), bool(each.turns and each.turns[-1].turn))
            for each in state.runs
        ]
        if stage != before or polls * POLL_SECONDS >= HEARTBEAT_SECONDS:
            yield run_json(state, run.seconds, run.pace)
            before, polls = stage, 0
        polls += 1
        await asyncio.sleep(POLL_SECONDS)
    yield run_json(run.state, run.seconds, run.pace)


def _response(item: Item, token: str) -> Item | str:
    """The item; as JSON text for an MCP call, which has a token."""
    return json.dumps(item, ensure_ascii=False) if token else item
