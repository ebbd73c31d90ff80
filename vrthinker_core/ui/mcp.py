"""MCP: the endpoints as tools for assistants. Gradio serves them where a version of `mcp` that it supports is installed."""

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


CALL_HEADER = "x-vr-thinker-tool-call"


def call_token(request: gr.Request) -> str:
    """The token of a tool's call; "" for every other call."""
    return str(request.headers.get(CALL_HEADER, ""))


class McpCallMiddleware:
    """ASGI middleware that gives every request to the MCP server a token; `tokens` holds those whose client is still connected."""

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
