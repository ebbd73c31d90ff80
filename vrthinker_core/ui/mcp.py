"""MCP: the endpoints as tools for assistants. Gradio serves them where a version of `mcp` that it supports is installed."""

import importlib
import importlib.metadata
import re

from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route

MCP_PATH = "/gradio_api/mcp"
MCP_REQUIREMENT = "mcp>=1.24,<2"  # what Gradio supports, and what works with the newest pydantic
_REMEDY = f'Run pip install --upgrade "{MCP_REQUIREMENT}" and start again.'
NOT_INSTALLED = f"MCP is off: it needs one more package. {_REMEDY}"
WRONG_VERSION = f"MCP is off: mcp {{}} is installed, and Gradio cannot speak to it. {_REMEDY}"
BROKEN = f"MCP is off: mcp {{}} is installed, but cannot be imported. {_REMEDY}"
NO_SSE = f"The older transport is not offered. Connect to {MCP_PATH}/ by streamable HTTP."


def installed_version() -> str:
    """The version of `mcp`; "" where it is not installed."""
    try:
        return importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        return ""


def why_unavailable() -> str:
    """Why there is no MCP here, in one sentence, and what to do, in another; "" where there is."""
    version = installed_version()
    if not version:
        return NOT_INSTALLED
    numbers = re.match(r"(\d+)\.(\d+)", version)
    if numbers is None or not (1, 24) <= (int(numbers[1]), int(numbers[2])) < (2, 0):
        return WRONG_VERSION.format(version)
    try:
        importlib.import_module("mcp.server.streamable_http_manager")
    except ImportError:
        return BROKEN.format(version)
    return ""


def routes() -> list[BaseRoute]:
    """Routes that take precedence over Gradio's: 404 with the reason where there is no MCP, else 404 for the older transport.

    Over that one (SSE) an answer does not come on the connection of its call, so a client that disconnects would go unnoticed.
    """
    if sentence := why_unavailable():
        return [
            Route(
                MCP_PATH + "{rest:path}",
                PlainTextResponse(sentence, 404),
                methods=["GET", "POST", "DELETE"],
            )
        ]
    return [Route(f"{MCP_PATH}/sse", PlainTextResponse(NO_SSE, 404), methods=["GET"])]
