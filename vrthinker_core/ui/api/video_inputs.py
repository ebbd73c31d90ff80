"""A video as a program names it: by what an upload gave, by a web address, or within the call itself."""

# No `from __future__ import annotations`: Gradio makes the documentation of the endpoints from the types themselves.

import asyncio
import base64
import binascii
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal, TypedDict
from urllib.parse import unquote

from gradio.utils import get_upload_folder

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.server.gradio_blocks import Fetch

NOT_UPLOADED = "{} is no uploaded file. Upload it first, and name it by the path that the upload gave."
NOT_BASE64 = "{} cannot be read: after data:video/mp4;base64, only the file itself in Base64 is understood."
TOO_LARGE = "{} has more than {:g} MB, which is too much for a call itself. Upload it first, and name it by what the upload gave."

MAX_DATA_URL_BYTES = 20_000_000
"""Bytes of a video that stands in a call itself: two of them fit through the server's doors in Base64."""

FILE_URL_PREFIX = "/gradio_api/file="
"""What stands before an uploaded file's path in its address on this server."""


class FileMarker(TypedDict):
    """Gradio's sign that a value is a file."""

    _type: Literal["gradio.FileData"]


class UploadedFile(TypedDict, total=False):
    """An uploaded file as Gradio's clients name it."""

    path: str
    meta: FileMarker


@asynccontextmanager
async def resolve_video(named: object, what: str, fetch: Fetch) -> AsyncIterator[Path]:
    """The file of a video; what came within the call is cleared away afterwards.

    `named` is a `File`, or a text: the path or the address that an upload gave, a web address, a data URL. `what` is what a
    person calls the video. Raises BadInput, for every other file of this machine too.
    """
    text = named.get("path") if isinstance(named, dict) else named
    if not isinstance(text, str):
        raise BadInput(NOT_UPLOADED.format(what))
    if isinstance(named, str) and text.startswith("data:"):
        with tempfile.TemporaryDirectory(dir=_folder(), ignore_cleanup_errors=True) as folder:
            yield await asyncio.to_thread(_write_data_url, text, what, Path(folder) / "video")
    elif isinstance(named, str) and text.startswith(("http://", "https://")) and FILE_URL_PREFIX not in text:
        yield await asyncio.to_thread(fetch, text)
    else:
        yield _uploaded_path(unquote(text.partition(FILE_URL_PREFIX)[2]) if "://" in text else text, what)


def _uploaded_path(text: str, what: str) -> Path:
    """The path of an uploaded file."""
    if not text or "\0" in text:
        raise BadInput(NOT_UPLOADED.format(what))
    try:
        path, folder = Path(text).resolve(strict=True), _folder().resolve()
    except (OSError, RuntimeError):
        raise BadInput(NOT_UPLOADED.format(what)) from None
    if not path.is_relative_to(folder) or not path.is_file():
        raise BadInput(NOT_UPLOADED.format(what))
    return path


def _write_data_url(url: str, what: str, path: Path) -> Path:
    """The file that a data URL holds."""
    head, _, body = url.partition(",")
    if not head.endswith(";base64"):
        raise BadInput(NOT_BASE64.format(what))
    if len(body) * 3 // 4 > MAX_DATA_URL_BYTES:
        raise BadInput(TOO_LARGE.format(what, MAX_DATA_URL_BYTES / 1e6))
    try:
        path.write_bytes(base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError):
        raise BadInput(NOT_BASE64.format(what)) from None
    return path


def _folder() -> Path:
    folder = Path(get_upload_folder())
    folder.mkdir(parents=True, exist_ok=True)
    return folder
