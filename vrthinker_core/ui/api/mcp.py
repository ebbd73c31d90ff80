"""MCP: the endpoints as tools for assistants. Gradio serves them where a version of `mcp` is installed that it can speak to."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route

MCP_PATH = "/gradio_api/mcp"

MCP_REQUIREMENT = "mcp>=1.24,<2"
"""What Gradio can speak to, and what goes with the newest pydantic."""

_REMEDY = f'Run pip install --upgrade "{MCP_REQUIREMENT}" and start again.'
NOT_INSTALLED = f"MCP is off: it needs one more package. {_REMEDY}"
WRONG_VERSION = f"MCP is off: mcp {{}} is installed, and Gradio cannot speak to it. {_REMEDY}"
BROKEN = f"MCP is off: mcp {{}} is installed, but cannot be imported. {_REMEDY}"
NO_SSE = f"The older transport is not offered. Connect to {MCP_PATH}/ by streamable HTTP."


def installed_version() -> str:
    """The installed one, "" where there is none."""
    try:
        return importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        return ""


def why_unavailable() -> str:
    """Why there is no MCP here, in one sentence and what to do; "" where there is."""
    found = installed_version()
    if not found:
        return NOT_INSTALLED
    numbers = re.match(r"(\d+)\.(\d+)", found)
    if numbers is None or not (1, 24) <= (int(numbers[1]), int(numbers[2])) < (2, 0):
        return WRONG_VERSION.format(found)
    try:
        importlib.import_module("mcp.server.streamable_http_manager")
    except ImportError:
        return BROKEN.format(found)
    return ""


def routes() -> list[BaseRoute]:
    """What is answered in Gradio's place: where there is no MCP, its address says why.

    On the older transport an answer does not come on the connection of its call, so nobody could tell when a caller has gone.
    """
    if sentence := why_unavailable():
        return [Route(MCP_PATH + "{rest:path}", _answering(sentence), methods=["GET", "POST", "DELETE"])]
    return [Route(f"{MCP_PATH}/sse", _answering(NO_SSE))]


def _answering(sentence: str) -> Callable[[Request], Awaitable[PlainTextResponse]]:
    async def answer(_request: Request) -> PlainTextResponse:
        return PlainTextResponse(sentence, 404)

    return answer
