"""The services of a page's handlers, and what they read from a request."""

from dataclasses import dataclass

import gradio as gr

from vrthinker_core.ui.branch_sets import BranchSets
from vrthinker_core.ui.judge_loader import JudgeLoader
from vrthinker_core.ui.listed_runs import ListedRuns
from vrthinker_core.ui.page_sessions import Session, Sessions
from vrthinker_core.ui.player_files import PlayerFiles
from vrthinker_core.ui.shared_traces import SharedTraces
from vrthinker_core.ui.tiles import Examples
from vrthinker_core.ui.uploads import Uploads
from vrthinker_core.ui.visitor_history import History
from vrthinker_core.ui.waiting_room import WaitingRoom


@dataclass(frozen=True, slots=True)
class Services:
    """The state of one server, shared by all handlers of its page."""

    judges: JudgeLoader
    sessions: Sessions
    shared_traces: SharedTraces
    examples: Examples
    waiting_room: WaitingRoom
    uploads: Uploads
    player_files: PlayerFiles
    history: History
    branch_sets: BranchSets
    runs: ListedRuns | None = None  # an evaluation, or traces, for every visitor

    def session_of(self, request: gr.Request) -> Session | None:
        """Return the visitor's session; None before their first run."""
        return self.sessions.get(session_id_of(request))


def session_id_of(request: gr.Request) -> str:
    """Return Gradio's id of the open page; a reload gives a new one."""
    return str(request.session_hash)


def linked_run(request: gr.Request) -> str:
    """Return NAME of a page that was opened as `?run=NAME`, else ""."""
    return str(request.query_params.get("run") or "")


def linked_trace(request: gr.Request) -> str:
    """Return NAME of a page that was opened as `?trace=NAME`, else ""."""
    return str(request.query_params.get("trace") or "")
