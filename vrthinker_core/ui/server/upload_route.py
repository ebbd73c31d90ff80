"""The upload route, in place of Gradio's: what arrives is bounded in bytes and in time, and nothing is left of what breaks off."""

import asyncio
import ipaddress
import shutil
import time
from pathlib import Path

from starlette.formparsers import MultiPartException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Message

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.fetch.disk_budget import FULL
from vrthinker_core.ui.fetch.uploads import Uploads
from vrthinker_core.ui.server.gradio_blocks import receive_files

PAUSE_SECONDS = 20.0  # the longest pause in an upload; also what it may take beyond its bytes at the lowest speed
LOWEST_SPEED = 32_768.0  # bytes a second

TOO_SLOW = "The upload stopped on its way, or was too slow. Try again."
NO_UPLOAD = "This is no upload: send the file as multipart/form-data, in the field files."


class UploadRoute:
    """Takes uploads for `uploads`."""

    def __init__(self, uploads: Uploads) -> None:
        self._uploads = uploads

    def routes(self) -> list[Route]:
        """The path that page and clients upload to; it must come before Gradio's own."""
        return [Route("/gradio_api/upload", self.upload, methods=["POST"])]

    async def upload(self, request: Request) -> Response:
        """The paths of the files that have arrived, as JSON; otherwise one sentence."""
        visitor, folder = client_address(request), None
        try:
            folder = self._uploads.open_arrivals()
            arriving = self._bounded(request, visitor, folder)
            files = await receive_files(arriving, folder)
            self._uploads.budget.release(folder)
            return JSONResponse([str(self._uploads.keep(file, visitor)) for file in files])
        except MultiPartException as error:
            return PlainTextResponse(
                error.message, 413 if "maximum allowed size" in error.message else 400
            )
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
        """The same request; it raises BadInput when there is no room for what comes, TimeoutError when it comes too slowly."""
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
    """The visitor's network address; behind a proxy in our own network, the one that it names."""
    host = request.client.host if request.client else ""
    forwarded = request.headers.get("x-forwarded-for", "").rpartition(",")[2].strip()
    try:
        return forwarded if forwarded and ipaddress.ip_address(host).is_private else host
    except ValueError:
        return host
