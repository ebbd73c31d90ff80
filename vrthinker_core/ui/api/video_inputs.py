"""A video as a program gives it in a call: what an upload returned, a web address, or a data URL."""

# No `from __future__ import annotations`: Gradio derives the endpoints' schemas from the annotations themselves.

import asyncio
import base64
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal, TypedDict
from urllib.parse import unquote

from gradio.utils import get_upload_folder

from vrthinker_core.errors import BadInput
from vrthinker_core.ui.fetch.disk_budget import FULL
from vrthinker_core.ui.server.gradio_blocks import Fetch

NOT_UPLOADED = (
    "{} is no uploaded file. Upload it first, and name it by the path that the upload gave."
)
NOT_BASE64 = (
    "{} cannot be read: after data:video/mp4;base64, only the file itself in Base64 is understood."
)
TOO_LARGE = "{} has more than {:g} MB, which is too much for a call itself. Upload it first, and name it by what the upload gave."

MAX_DATA_URL_BYTES = 3_500_000  # of one video: two of them in Base64 are within the limit of a request (`request_limits`)
FILE_URL_PREFIX = (
    "/gradio_api/file="  # stands before the path in an uploaded file's address on this server
)


class FileMarker(TypedDict):
    """How Gradio marks a value as a file."""

    _type: Literal["gradio.FileData"]


class UploadedFile(TypedDict, total=False):
    """An uploaded file as Gradio's clients give it."""

    path: str
    meta: FileMarker


@contextlib.asynccontextmanager
async def resolve_video(given: object, label: str, fetch: Fetch) -> AsyncIterator[Path]:
    """The file of a video; the file of a data URL is deleted afterwards.

    `given` is an `UploadedFile`, or a string: the path or the address that an upload returned, a web address, a data URL. Raises
    BadInput for everything else, other files of this machine included; `label` is the video's name in the sentence.
    """
    text = given.get("path") if isinstance(given, dict) else given
    if not isinstance(text, str):
        raise BadInput(NOT_UPLOADED.format(label))
    if isinstance(given, str) and text.startswith("data:"):
        with tempfile.TemporaryDirectory(
            dir=_upload_folder(), ignore_cleanup_errors=True
        ) as folder:
            yield await asyncio.to_thread(_write_data_url, text, label, Path(folder) / "video")
    elif (
        isinstance(given, str)
        and text.startswith(("http://", "https://"))
        and FILE_URL_PREFIX not in text
    ):
        yield await fetch(text)
    else:
        yield _uploaded_path(
            unquote(text.partition(FILE_URL_PREFIX)[2]) if "://" in text else text, label
        )


def _uploaded_path(text: str, label: str) -> Path:
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        path = Path(text).resolve(strict=True)
        if path.is_relative_to(_upload_folder().resolve()) and path.is_file():
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


def _upload_folder() -> Path:
    folder = Path(get_upload_folder())
    folder.mkdir(parents=True, exist_ok=True)
    return folder
