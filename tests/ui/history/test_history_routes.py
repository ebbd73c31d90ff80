"""The list of runs over HTTP: whose it is, and which verdicts it tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.support.waiting import until
from tests.ui.history.test_history import ANNA, TRACE, VOTE, Server
from tests.ui.sessions.test_background_run import run_until_stopped
from vrthinker_core.ui.history.history_routes import HistoryRoutes
from vrthinker_core.ui.history.visitors import COOKIE, VisitorCookieMiddleware, owner_of
from vrthinker_core.ui.votes import disclosure as votes


def client_of(server: Server, in_frame: bool = False) -> TestClient:
    page = Route("/", lambda _request: PlainTextResponse("the page"))
    app = Starlette(routes=[page, *HistoryRoutes(server.history).routes()])
    app.add_middleware(VisitorCookieMiddleware, in_frame=in_frame)
    return TestClient(app, base_url="https://testserver")


def test_a_visitor_is_known_by_a_cookie_that_the_page_sets(tmp_path: Path) -> None:
    server = Server(tmp_path)
    anna, bert = client_of(server), client_of(server)
    assert "set-cookie" not in anna.get("/history").headers
    told = anna.get("/").headers["set-cookie"]
    bert.get("/")
    assert all(word in told for word in ("HttpOnly", "SameSite=Lax", "Path=/"))
    value = anna.cookies[COOKIE]
    assert anna.get("/").headers["set-cookie"] == told, "it stays the same"
    assert value != bert.cookies[COOKIE]
    session = server.run(owner=owner_of({COOKIE: value}), prompt="Anna's.")
    until(
        lambda: (
            [row["outcome"] for row in anna.get("/history").json()["runs"]]
            == ["Video 1 is better overall"]
        )
    )
    assert bert.get("/history").json()["runs"] == []
    assert bert.delete(f"/history/{session.kept}").json()["runs"] == []
    assert len(anna.get("/history").json()["runs"]) == 1
    everything = b"".join(
        path.read_bytes() for path in (tmp_path / "runs").rglob("*") if path.is_file()
    )
    assert value.encode() not in everything, "only its hash is kept"
    assert anna.delete(f"/history/{session.kept}").json()["runs"] == []
    framed = client_of(server, in_frame=True).get("/").headers["set-cookie"]
    assert all(word in framed for word in ("HttpOnly", "SameSite=None", "Secure", "Partitioned"))


@pytest.mark.parametrize("value", ["", "x", "a" * 42, "a" * 44, "../" * 14 + "a", "é" * 43])
def test_a_cookie_that_we_did_not_set_is_nobodys(value: str) -> None:
    assert owner_of({COOKIE: value}) == ""


def test_with_vote_first_a_verdict_is_listed_only_once_its_visitor_has_voted(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path, run_until_stopped)
    server.run().run.stop()
    until(lambda: server.outcomes() == ["Stopped"])
    name, voted = (server.history.keep(ANNA, trace) for trace in (TRACE, replace(TRACE, vote=VOTE)))
    client = client_of(server)
    client.cookies.update({COOKIE: "a" * 43, votes.COOKIE: votes.ON})
    assert [row["outcome"] for row in client.get("/history").json()["runs"]] == [
        "Video 1 is better overall",
        "Hidden until you vote",
        "Stopped",
    ]
    session = server.sessions.start_replay(
        "page", server.history.open(ANNA, name)[0], owner=ANNA, kept=name
    )
    session.disclosure.begin(True)
    session.disclosure.show()
    shown = {row["name"]: row["outcome"] for row in client.get("/history").json()["runs"]}
    assert shown[name] == shown[voted] == "Video 1 is better overall", (
        "what a page shows is no secret"
    )
    session.disclosure.begin(True)
    server.sessions.add_vote("page", session, VOTE)
    server.sessions.end("page")
    shown = {row["name"]: row["outcome"] for row in client.get("/history").json()["runs"]}
    assert shown[name] == shown[voted] == "Video 1 is better overall"
