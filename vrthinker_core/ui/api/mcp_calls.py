"""Callers of the MCP tools: Gradio answers a tool's call by calling itself, and never tells that call when the caller has gone.

So each call carries a token on its way in, in a header that Gradio passes on, and the token dies with the caller's connection.
"""

from __future__ import annotations

import secrets

import gradio as gr
from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vrthinker_core.ui.api.mcp import MCP_PATH

CALL_HEADER = "x-vr-thinker-tool-call"


class McpCalls:
    """Who still waits for a tool's answer."""

    def __init__(self) -> None:
        self._waiting: set[str] = set()

    def begin_call(self) -> str:
        """A token for a caller who has come."""
        token = secrets.token_hex(12)
        self._waiting.add(token)
        return token

    def end_call(self, token: str) -> None:
        """The caller of that token has gone."""
        self._waiting.discard(token)

    def is_waiting(self, token: str) -> bool:
        """The caller of that token is still there; so is everybody who has none."""
        return not token or token in self._waiting


def call_token(request: gr.Request) -> str:
    """The token of a tool's call, "" for every other call."""
    return str(request.headers.get(CALL_HEADER, ""))


class McpCallMiddleware:
    """ASGI middleware that gives every call of a tool its token."""

    def __init__(self, app: ASGIApp, callers: McpCalls) -> None:
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http" or MCP_PATH not in scope["path"]:
            await self._app(scope, receive, send)
            return
        token = self._callers.begin_call()

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._callers.end_call(token)
            return message

        try:
            await self._app(_with_token(scope, token), heard, send)
        finally:
            self._callers.end_call(token)


def _with_token(scope: Scope, token: str) -> Scope:
    marked = {**scope, "headers": list(scope["headers"])}
    MutableHeaders(scope=marked)[CALL_HEADER] = token
    return marked
