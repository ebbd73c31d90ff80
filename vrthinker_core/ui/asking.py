"""What a request of the page tells: whose it is, and which saved run its address names."""

from __future__ import annotations

import gradio as gr


def visitor_of(request: gr.Request) -> str:
    """The visitor's own name, which lasts as long as the page is open."""
    return str(request.session_hash)


def link_of(request: gr.Request) -> str:
    """The name that a link `?trace=NAME` leads to, "" where the page was opened without one."""
    return str(request.query_params.get("trace") or "")
