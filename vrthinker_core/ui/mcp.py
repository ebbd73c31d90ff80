"""MCP: the endpoints as tools for assistants, which Gradio serves with a suitable `mcp`."""

import importlib
import importlib.metadata
import re
import secrets

import gradio as gr
from starlette.datastructures import MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MCP_PATH = "/gradio_api/mcp"
MCP_REQUIREMENT = "mcp>=1.24,<2"  # what Gradio supports, and what works with the newest pydantic
_REMEDY = f'Run pip install --upgrade "{MCP_REQUIREMENT}" and start again.'
NOT_INSTALLED = f"MCP is off: it needs one more package. {_REMEDY}"
WRONG_VERSION = f"MCP is off: mcp {{}} is installed, and Gradio cannot speak to it. {_REMEDY}"
BROKEN = f"MCP is off: mcp {{}} is installed, but cannot be imported. {_REMEDY}"
NO_SSE = f"The older transport is not offered. Connect to {MCP_PATH}/ by streamable HTTP."


def installed_version() -> str:
    """Return the version of `mcp`; "" if it is not installed."""
    try:
        return importlib.metadata.version("mcp")
    except importlib.metadata.PackageNotFoundError:
        return ""


def why_unavailable() -> str:
    """Say why there is no MCP, and what to do; else ""."""
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
    """Return routes before Gradio's: 404 for the older transport, or for all without MCP.

    Over the older one (SSE) an answer does not come on the connection of its call, so a client that
    disconnects would go unnoticed.
    """
    if sentence := why_unavailable():
        refused, methods = PlainTextResponse(sentence, 404), ["GET", "POST", "DELETE"]
        return [Route(MCP_PATH + "{rest:path}", refused, methods=methods)]
    return [Route(f"{MCP_PATH}/sse", PlainTextResponse(NO_SSE, 404), methods=["GET"])]


CALL_HEADER = "x-vr-thinker-tool-call"


def call_token(request: gr.Request) -> str:
    """Return the token of a tool's call; "" for every other call."""
    return str(request.headers.get(CALL_HEADER, ""))


class McpCallMiddleware:
    """ASGI middleware: gives MCP requests a token, kept in `tokens` until the client leaves."""

    def __init__(self, app: ASGIApp, tokens: set[str]) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, those to the MCP server with a token."""
        if scope["type"] != "http" or MCP_PATH not in scope["path"]:
            await self._app(scope, receive, send)
            return
        token = secrets.token_hex(12)
        self._tokens.add(token)
        marked = {**scope, "headers": list(scope["headers"])}
        MutableHeaders(scope=marked)[CALL_HEADER] = token

        async def watched_receive() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._tokens.discard(token)
            return message

        try:
            await self._app(marked, watched_receive, send)
        finally:
            self._tokens.discard(token)
