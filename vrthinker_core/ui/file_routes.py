"""The routes of uploads, downloads and the visitor's list of runs."""

import asyncio
import ipaddress
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from vrthinker_core.errors import BadInput
from vrthinker_core.traces import to_json
from vrthinker_core.types.events import Trace
from vrthinker_core.ui import words
from vrthinker_core.ui.download import FULL
from vrthinker_core.ui.exact_frames import ExactFrames, turns_of
from vrthinker_core.ui.gradio_blocks import receive_files
from vrthinker_core.ui.hidden_view import votes_first
from vrthinker_core.ui.html_report import render_report
from vrthinker_core.ui.page_sessions import Session, Sessions
from vrthinker_core.ui.replay import trace_of
from vrthinker_core.ui.run_store import owner_of
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.ui.uploads import Uploads
from vrthinker_core.ui.visitor_history import History


@dataclass(frozen=True, slots=True)
class DownloadRoutes:
    """Serves runs by their random names, which only their visitors know."""

    sessions: Sessions
    shared: SharedTraces
    exact: ExactFrames

    def routes(self) -> list[Route]:
        """Return the paths that the page's links use."""
        return [
            Route("/runs/{name}/trace.json", self.trace),
            Route("/runs/{name}/report.html", self.report),
            Route("/runs/{name}/link", self.link, methods=["POST"]),
            Route("/runs/{name}/turns/{turn}/frames", self.frames),
        ]

    def trace(self, request: Request) -> Response:
        """Return the trace as JSON."""
        return self._download(request, to_json, "trace.json", "application/json")

    def report(self, request: Request) -> Response:
        """Return the report as one HTML file."""
        return self._download(request, render_report, "report.html", "text/html")

    def link(self, request: Request) -> Response:
        """Keep the trace for `?trace=`, and return the name it is kept under."""
        if (found := self._find(request)) is None:
            return PlainTextResponse(words.NO_RUN, 404)
        session, trace = found
        run, owner = session.kept or session.name, owner_of(request.cookies)
        try:
            link = session.link or self.shared.add(run, trace, owner, session.files)
            return JSONResponse({"trace": link})
        except OSError:
            return PlainTextResponse(words.NO_ROOM, 507)

    async def frames(self, request: Request) -> Response:
        """Return the places of a turn's frames, also of a live run.

        `order=swapped`: of the second run.
        """
        session = self.sessions.find_run(str(request.path_params["name"]))
        swapped = request.query_params.get("order") == "swapped"
        numbers = {str(turn.number) for turn in turns_of(session, swapped)} if session else set()
        if session is None or (turn := str(request.path_params["turn"])) not in numbers:
            return PlainTextResponse(words.NO_RUN, 404)
        found = self.exact.request(session, int(turn), swapped)
        if found is None:
            return PlainTextResponse(words.MANY_LOOK_CLOSER, 503)
        return JSONResponse(await asyncio.shield(asyncio.wrap_future(found)))

    def _download(
        self, request: Request, render: Callable[[Trace], str | bytes], name: str, kind: str
    ) -> Response:
        if (found := self._find(request)) is None:
            return PlainTextResponse(words.NO_RUN, 404)
        headers = {"Content-Disposition": f'attachment; filename="vr-thinker-{name}"'}
        return Response(render(found[1]), media_type=kind, headers=headers)

    def _find(self, request: Request) -> tuple[Session, Trace] | None:
        session = self.sessions.find_run(str(request.path_params["name"]))
        trace = trace_of(session.run.state) if session is not None and session.run.over else None
        return None if session is None or trace is None else (session, trace)


# The longest pause in an upload; also what it may take beyond its bytes at the lowest speed
PAUSE_SECONDS = 20.0
LOWEST_SPEED = 32_768.0  # bytes a second

TOO_SLOW = "The upload stopped on its way, or was too slow. Try again."
NO_UPLOAD = "This is no upload: send the file as multipart/form-data, in the field files."


class UploadRoute:
    """Takes uploads for `uploads`."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads

    def routes(self) -> list[Route]:
        """Return the path of uploads; it must come before Gradio's own."""
        return [Route("/gradio_api/upload", self.upload, methods=["POST"])]

    async def upload(self, request: Request) -> Response:
        """Return the paths of the files that have arrived, as JSON; otherwise one sentence."""
        visitor, folder = client_address(request), None
        try:
            folder = self._uploads.open_arrivals()
            files = await receive_files(self._bounded(request, visitor, folder), folder)
            self._uploads.budget.release(folder)
            return JSONResponse([str(self._uploads.keep(file, visitor)) for file in files])
        except MultiPartException as error:
            too_large = "maximum allowed size" in error.message
            return PlainTextResponse(error.message, 413 if too_large else 400)
        except ClientDisconnect:
            return Response(status_code=400)
        except TimeoutError:
            return PlainTextResponse(TOO_SLOW, 408)
        except BadInput as error:
            return PlainTextResponse(str(error), 507)
        except OSError:
            return PlainTextResponse(FULL, 507)
        except (TypeError, ValueError):
            return PlainTextResponse(NO_UPLOAD, 400)
        finally:
            if folder is not None:
                self._uploads.budget.release(folder)
                shutil.rmtree(folder, ignore_errors=True)

    def _bounded(self, request: Request, visitor: str, folder: Path) -> Request:
        """Return the request; reading raises BadInput without room, TimeoutError if too slow."""
        came, began = 0, time.monotonic()

        async def receive() -> Message:
            nonlocal came
            left = began + PAUSE_SECONDS + came / LOWEST_SPEED - time.monotonic()
            message = await asyncio.wait_for(request.receive(), min(left, PAUSE_SECONDS))
            came += len(message.get("body", b""))
            self._uploads.budget.take(folder, visitor, came)
            return message

        return Request(request.scope, receive)


def client_address(request: Request) -> str:
    """Return the visitor's network address; a proxy in our own network names it."""
    host = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    try:
        return forwarded if forwarded and ipaddress.ip_address(host).is_private else host
    except ValueError:
        return host


class HistoryRoutes:
    """Serves the page's list of the visitor's own runs."""

    def __init__(self, history: History) -> None:
        self._history = history

    def routes(self) -> list[Route]:
        """Return the paths that the list uses."""
        return [
            Route("/history", self.list_runs, methods=["GET"]),
            Route("/history", self.delete, methods=["DELETE"]),
            Route("/history/{name}", self.delete, methods=["DELETE"]),
        ]

    def list_runs(self, request: Request) -> Response:
        """Return the visitor's runs, the latest first, and for how long they are kept."""
        runs = self._history.rows(owner_of(request.cookies), votes_first(request.cookies))
        listed = {"runs": runs, "help": self._history.help}
        return JSONResponse(listed, headers={"Cache-Control": "no-store"})

    def delete(self, request: Request) -> Response:
        """Delete the run of that name, or all runs of the visitor.

        Nothing happens for another visitor's run, or one that does not exist.
        """
        name = request.path_params.get("name")
        self._history.delete(owner_of(request.cookies), name and [name])
        return self.list_runs(request)
