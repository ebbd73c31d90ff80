"""Requests of a server, made by hand."""

import http.client
from contextlib import closing
from urllib.parse import urlsplit

from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Server

FORM = "multipart/form-data; boundary=line"
HEAD = b'--line\r\nContent-Disposition: form-data; name="files"; filename="zeros.mp4"\r\n\r\n'
TAIL = b"\r\n--line--\r\n"


def ask(
    server: Server, method: str, path: str, body: bytes | list[bytes] = b"", **headers: str
) -> tuple[int, str]:
    """Status and text of the answer."""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc, timeout=PATIENCE_S)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with closing(connection):
        connection.request(method, f"/{path}", body, {"Content-Type": "application/json", **named})
        response = connection.getresponse()
        return response.status, response.read().decode()


def send(server: Server, size: int) -> tuple[int, str]:
    """Upload a file of `size` zeros."""
    pieces = [HEAD, *[bytes(2**20)] * (size // 2**20), bytes(size % 2**20), TAIL]
    told = {"Content_Type": FORM, "Content_Length": str(sum(map(len, pieces)))}
    return ask(server, "POST", "gradio_api/upload", pieces, **told)
