"""Calls of MCP tools: Gradio answers each by a call of its own endpoint, and does not cancel that one when the client disconnects.

So each call gets a token, in a header that Gradio passes on; the token is dropped when the client's connection ends.
"""

import secrets

import gradio as gr
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.ui.mcp import MCP_PATH

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
