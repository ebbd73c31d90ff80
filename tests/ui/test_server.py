"""The server as a whole: what stands before its page, who is served, what it tells and leaves."""

import asyncio
import json
import os
import re
import socket
import time
import urllib.request
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from tests.support.app_process import USUAL_OPEN_FILES, fork_app
from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Clips, Server, write_script
from tests.ui.support import api
from tests.ui.support.api import ask, config, files
from vrthinker_core.ui import security
from vrthinker_core.ui.visitors import Visitors

CALL, UPLOAD = "/gradio_api/queue/join", "/gradio_api/upload"
MIB = bytes(2**20)
Patch = pytest.MonkeyPatch


def reading(bodies: list[bytes]) -> security.RequestLimitsMiddleware:
    """The limits before an application that reads whole bodies and keeps them."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        bodies.append(await Request(scope, receive).body())
        await PlainTextResponse("read")(scope, receive, send)

    return security.RequestLimitsMiddleware(application)


class Client:
    """One request, whose body comes piece by piece; one that is not `whole` stalls or leaves."""

    leaves = False

    def __init__(self, path: str, pieces: list[bytes], whole: bool = True, length: int = 0) -> None:
        headers = [(b"content-length", b"%d" % length)] if length else []
        told = {"type": "http", "method": "POST", "path": path, "query_string": b""}
        self.scope, self.pieces, self.whole = {**told, "headers": headers}, [*pieces], whole
        self.status, self.answer = 0, b""

    async def receive(self) -> Message:
        if not self.pieces and self.leaves:
            return {"type": "http.disconnect"}
        await (asyncio.sleep(0) if self.pieces else asyncio.Event().wait())
        piece = self.pieces.pop(0)
        more = bool(self.pieces) or not self.whole
        return {"type": "http.request", "body": piece, "more_body": more}

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.answer += message.get("body", b"")

    async def run(self, limits: security.RequestLimitsMiddleware) -> int:
        await limits(self.scope, self.receive, self.send)
        return self.status


def answered(client: Client) -> tuple[int, list[bytes]]:
    """The status, and the bodies that reached the application."""
    run_in_thread(client.run(reading(bodies := [])))
    assert client.status == 200 or client.answer.endswith(b".")
    return client.status, bodies


def test_only_an_upload_may_be_large() -> None:
    limits = {CALL: security.MAX_BODY_BYTES, UPLOAD: security.MAX_UPLOAD_REQUEST_BYTES}
    for path, limit in limits.items():
        assert answered(Client(path, [b"as ", b"", b"sent"])) == (200, [b"as sent"])
        assert answered(Client(path, [b"1"], length=limit))[0] == 200
        assert answered(Client(path, [b"1"], length=limit + 1)) == (413, [])
        assert answered(Client(path, [MIB] * (limit // 2**20)))[0] == 200
        assert answered(Client(path, [MIB] * (limit // 2**20 + 1))) == (413, [])


def nested(depth: int, opening: str = "[", closing: str = "]") -> bytes:
    return (opening * depth + "1" + closing * depth).encode()


VIDEO = "data:video/mp4;base64," + "A" * 4_000_000
TAKEN = [["[" * 900], [0] * 9_000, ["a\0b"], [VIDEO] * 2, {"session_hash": "x" * 36}]
LONG_IDS = {"session_hash": 9_000_000, "event_id": 101, "upload_id": 101}.items()
BODIES = {
    200: [nested(40), b"no JSON", b"\xff\xfe", b"", *(json.dumps(each).encode() for each in TAKEN)],
    400: [nested(500), nested(9000), nested(500, '{"a": ', "}"), b'[{"path": "a\\u0000b"}]']
    + [json.dumps({"data": [], name: "x" * length}).encode() for name, length in LONG_IDS],
    413: [b"[" + b"{}," * 30_000 + b"1]", json.dumps([0] * 30_000).encode()],
}


@pytest.mark.parametrize("status", BODIES)
def test_json_that_takes_long_is_refused_at_once(status: int, monkeypatch: Patch) -> None:
    monkeypatch.setattr(security, "DRAIN_SECONDS", 60)
    for body in BODIES[status]:
        assert answered(Client(CALL, [body])) == (status, [body] * (status == 200)), body[:40]


def test_a_body_that_stalls_is_refused(monkeypatch: Patch) -> None:
    for name in ("STALL_SECONDS", "DRAIN_SECONDS"):
        monkeypatch.setattr(security, name, 0.05)
    for path in (CALL, UPLOAD):
        assert answered(Client(path, [MIB] * 2, whole=False)) == (408, [])


def test_unfinished_bodies_are_limited_together(monkeypatch: Patch) -> None:
    """Whoever stalls goes first."""
    monkeypatch.setattr(security, "MAX_UNFINISHED_BYTES", 24 * len(MIB))
    monkeypatch.setattr(security, "DRAIN_SECONDS", 0.05)
    limits = reading(bodies := [])
    stalled = [Client(path, [MIB] * 5, whole=False) for path in (UPLOAD, CALL, UPLOAD, CALL)]

    async def attack() -> None:
        waiting = [asyncio.create_task(each.run(limits)) for each in stalled]
        await asyncio.sleep(0.2)
        assert not any(task.done() for task in waiting)
        assert await Client(UPLOAD, [MIB] * 20).run(limits) == 200
        assert await Client(CALL, [MIB] * 9).run(limits) == 200
        await asyncio.sleep(0.2)
        for task in waiting:
            task.cancel()

    run_in_thread(attack())
    assert [len(body) // len(MIB) for body in bodies] == [20, 9]
    assert sorted(each.status for each in stalled) == [0, 503, 503, 503]


def test_what_fails_is_answered_with_a_sentence_but_a_client_that_leaves_is_no_failure() -> None:
    async def fail(*_: Any) -> None:
        raise ZeroDivisionError

    for path in (CALL, UPLOAD):
        client = Client(path, [b"half"], whole=False)
        client.leaves = True
        assert run_in_thread(client.run(reading([]))) in (0, 200)
    client = Client(CALL, [b"1"])
    with pytest.raises(ZeroDivisionError):
        run_in_thread(client.run(security.RequestLimitsMiddleware(fail)))
    assert (client.status, client.answer[-1:]) == (500, b".")


def answer(path: str = "/", root: str = "", names: Sequence[str] = (), **headers: str) -> Any:
    """What comes back through the guard, below `root`; its text is the path that the page sees."""
    middleware = [Middleware(security.GuardMiddleware, Visitors(), names, root)]

    def told(request: Request) -> PlainTextResponse:
        return PlainTextResponse(request.url.path)

    mount = Mount("/mount", routes=[Route("/x", told)])
    app = Starlette(routes=[Route("/", told), mount], middleware=middleware)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return TestClient(app).get(path, headers={"host": HERE, **named})


HERE = "127.0.0.1:7860"
OWN = ["localhost", "LOCALHOST", "localhost:7860", HERE, "192.168.1.7:7860", "[::1]:7860"]
FOREIGN = ["evil.example", "evil.example:7860", "127.0.0.1.evil.example", "localhost.evil.example"]
ORIGINS = ["http://evil.example", "null", "http://127.0.0.1:8080", "http://127.0.0.1", "http://["]


def test_only_own_hosts_and_origins_pass() -> None:
    for host in OWN:
        assert answer(host=host).status_code == 200
        assert answer(host=host, origin=f"http://{host}").status_code == 200
    for host in (*FOREIGN, "", "[", "::1"):
        assert answer(host=host).status_code == 400
    for origin in (*ORIGINS, "", "http://127.0.0.1:7860.evil.example"):
        assert answer(origin=origin).status_code == 403
    named = {"host": "demo.example", "origin": "https://demo.example"}
    assert answer(names=["demo.example"], **named).status_code == 200, "a further name"
    assert answer(names=["demo.example"], host="other.example").status_code == 400
    policy = answer().headers["content-security-policy"]  # for what the browser fetches
    assert "default-src 'self'" in policy
    assert "http" not in policy


def test_a_proxy_that_rewrites_host_needs_a_name() -> None:
    def status(path: str = "/", root: str = "", **headers: str) -> int:
        return answer(path, root, ["judge.example"], **headers).status_code

    public, own = {"x_forwarded_host": "judge.example"}, {"origin": "https://judge.example"}
    assert (status(**public, **own), status(**public, origin="https://evil.example")) == (200, 403)
    assert status(**own) == 403, "no proxy has named it"
    unknown = {"x_forwarded_host": "other.example", "origin": "https://other.example"}
    assert "--name other.example" in answer(**unknown).text
    assert (status(**unknown), status("/mount/x", **unknown)) == (400, 403)
    assert status("/mount/x", x_forwarded_host="other.example") == 200, "as ever"
    assert status(root="https://judge.example/page", **own) == 200, "its whole address was given"
    for odd in ("a/b", "<b>", "x\\n"):
        assert status("/mount/x", x_forwarded_host=odd) == 400


def test_requests_have_one_path_whatever_the_proxy_does() -> None:
    for path in ("/mount/x", "/page/mount/x"):
        for root in ("/page", "https://judge.example/page"):
            assert answer(path, root).text == "/page/mount/x"
    assert answer("/page/", "/page").text == answer("/", "/page").text == "/page/"
    assert answer("/page", "/page").url.path == "/page/"
    assert answer("/pages", "/page").status_code == 404


def test_a_foreign_page_gets_and_starts_nothing(answering: Server) -> None:
    calls = "queue/join", "run/predict", "call/compare", "cancel", "component_server", "upload"
    pages = "", "config", "gradio_api/info", "gradio_api/heartbeat/x"
    requests = [("GET", path) for path in pages]
    requests += [("POST", f"gradio_api/{call}") for call in calls]
    tools = "", "/", "/http/", "/schema", "/sse", "/messages/"
    requests += [(way, f"gradio_api/mcp{path}") for path in tools for way in ("GET", "POST")]
    for method, path in (*requests, ("POST", f"runs/{'0' * 24}/link"), ("DELETE", "history")):
        assert ask(answering, method, path, b"{}", Origin="http://evil.example")[0] == 403
        assert ask(answering, method, path, b"{}", Host="evil.example")[0] == 400


CALLS = ["queue/join", "run/predict", "call/compare"]
CALLED = b'{"session_hash": "x", "fn_index": %d, "data": [%b]}'
DEEP, LONG, NAMED = CALLED % (0, nested(500)), "a" * 70_000, "a" * 7_000
NUL = CALLED % (0, rb'{"path": "a\u0000b", "meta": {"_type": "gradio.FileData"}}')
GOT = ["file=/tmp/a%00b", "../frames/a%00b", f"../static/{NAMED[:300]}", f"../?trace={LONG}"]
GOT += [f"queue/data?session_hash={NAMED}", f"upload_progress?upload_id={NAMED}"]
NONSENSE = [
    *(("GET", path, b"") for path in GOT),
    *(("POST", f"{path}/nothing", b'{"data": []}') for path in ("call", "call/v2", "run", "api")),
    *(("POST", path, CALLED % (number, b"")) for path in CALLS[:2] for number in (-1, 999)),
    *(("POST", path, body) for path in CALLS for body in (DEEP, NUL)),
    *(("POST", f"{path}/compare", b'{"data": [null, null, "A"]}') for path in ("run", "api")),
    ("POST", "call/v2/compare", b'{"nothing": 1}'),
    ("POST", f"queue/join?trace={LONG}", CALLED % (0, b"")),
]


@pytest.mark.parametrize(("method", "path", "body"), NONSENSE, ids=range(len(NONSENSE)))
def test_nonsense_is_refused(method: str, path: str, body: bytes, answering: Server) -> None:
    log = answering.log.read_text()
    status, text = ask(answering, method, f"gradio_api/{path}", body)
    assert 400 <= status < 500
    assert " " in text
    assert text.startswith("{") or text.endswith(".")
    assert "Traceback" not in answering.log.read_text().removeprefix(log)


NEVER = [
    *("monitoring", "monitoring/summary", "monitoring/anything", "dev/reload"),
    *(f"gradio_api/{path}" for path in ("runs", "run-history/records", "run-history/buckets")),
    *(f"gradio_api/{path}" for path in ("profiling/summary", "profiling/traces", "dev/reload")),
    *(f"gradio_api/{path}" for path in ("vibe-code", "deep_link?session_hash=x")),
    *(f"gradio_api/{way}://evil.example/a.mp4" for way in ("file=http", "file=HTTP", "proxy=http")),
]
WRITING = ["process_recording", "component_server", "vibe-edit", "undo-vibe-edit", "stream/x"]


def test_what_the_page_never_uses_is_switched_off(answering: Server) -> None:
    before = sorted(files(answering.folder))
    assert {ask(answering, "GET", path)[0] for path in NEVER} <= {403, 404}
    assert {ask(answering, "POST", f"gradio_api/{name}", b"{}")[0] for name in WRITING} == {404}
    assert sorted(files(answering.folder)) == before


def test_a_stream_of_no_known_session_ends_without_a_traceback(answering: Server) -> None:
    for path in ("queue/data?session_hash=nobody", "call/compare/nothing"):
        url = f"{answering.url}gradio_api/{path}"
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as stream:
            assert b"Not Found" in stream.read()  # IncompleteRead where the stream is cut off
    assert "Traceback" not in answering.log.read_text()


def test_a_page_is_open_while_it_holds_a_stream_or_the_websocket_in_its_place() -> None:
    """A browser opens six connections to a server: six open pages would leave none for Stop."""
    pages, ends, looks = Counter[str](), list[str](), list[dict[str, int]]()

    async def beats(name: str) -> AsyncIterator[str]:
        looks.append(dict(pages))
        try:
            while name == "anna":
                yield "data: ALIVE\n\n"
                await asyncio.sleep(0.01)
        finally:
            ends.append(name)  # as Gradio notices it

    async def heartbeat(request: Request) -> Response:
        name = request.path_params["name"]
        return PlainTextResponse("", 404) if name == "bert" else StreamingResponse(beats(name))

    middleware = [Middleware(security.OpenPagesMiddleware, pages=pages)]
    routes = [Route(security.HEARTBEAT_PATH + "{name}", heartbeat)]
    client = TestClient(Starlette(routes=routes, middleware=middleware))
    with client.websocket_connect(security.HEARTBEAT_PATH + "anna"):
        with client.websocket_connect(security.HEARTBEAT_PATH + "anna"):
            until(lambda: pages == {"anna": 2})
        until(lambda: pages == {"anna": 1})
        assert len(ends) == 1
    until(lambda: not pages)
    assert ends == ["anna"] * 2
    assert client.get(security.HEARTBEAT_PATH + "cleo").status_code == 200
    assert looks[-1] == {"cleo": 1}, "as long as its stream"
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(security.HEARTBEAT_PATH + "bert"),
    ):
        pass
    assert not pages


# -- the process ---------------------------------------------------------------------------------


def test_a_space_answers_under_each_of_its_names(tmp_path: Path) -> None:
    judge = write_script(tmp_path / "script.jsonl", [])
    names = {"you-demo.hf.space": 200, "demo.example": 200, "evil.example": 400}
    variables = {"SPACE_HOST": "you-demo.hf.space, demo.example"}
    with closing(Server(tmp_path, judge, variables=variables, forked=True)) as space:
        assert {name: ask(space, "GET", "", Host=name)[0] for name in names} == names
        assert any(tmp_path.glob("vr-thinker-page-*/pictures"))
    kept = {"cookie.key", "ballast", "runs.sqlite", "runs.sqlite-journal"}
    left = {path.name for path in files(tmp_path)}
    assert left == {"script.jsonl", "server.log", *kept}, "it leaves no file"


OPTIONS = {
    "--port 0": "'0' is no whole number from 1 to 65535",
    "--at-once 0": "'0' is no whole number from 1 to",
    "--waiting -1": "'-1' is no whole number from 0 to",
    "--host nosuch.invalid": "The page cannot be served at --host nosuch.invalid: ",
    "--port {taken}": "at --port {taken}: Address already in use. Choose another one.",
    "--judge Nano": "There is no judge 'Nano'. Did you mean nano?\n",
    "--at-once 2": "There is no judge 'openai'. Did you mean openai:MODEL?\n",
    "--runs no": "Cannot read the folder no: No such file or directory. Name a folder that is there.\n",
    "--examples README.md": "Cannot read the folder README.md: Not a directory. Name a",
}


@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_that_cannot_be_is_one_sentence(option: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        told, taken = tmp_path / "log", other.getsockname()[1]
        variables = {**os.environ, "TMPDIR": str(tmp_path)}
        variables |= {"VRTHINKER_JUDGE": "nano, openai"} if option == "--at-once 2" else {}
        fork_app(option.format(taken=taken).split(), variables, told).wait(PATIENCE_S)
    assert OPTIONS[option].format(taken=taken) in told.read_text()
    assert "Traceback" not in told.read_text()


def test_only_this_machine_is_served_and_nothing_told_of_it(answering: Server) -> None:
    addresses = {"127.0.0.2"}
    with suppress(OSError):
        addresses |= {*socket.gethostbyname_ex(socket.gethostname())[2]} - {"127.0.0.1"}
    for address in addresses:
        with pytest.raises(OSError):  # it refuses, or is no address of this machine
            socket.create_connection((address, urlsplit(answering.url).port or 0), PATIENCE_S)
    until(lambda: answering.url in answering.log.read_text())  # It answers a moment earlier
    sent, log = json.dumps(config(answering)), answering.log.read_text()
    for place in (answering.folder, Path.home(), Path(__file__).resolve().parents[2]):
        assert str(place) not in sent
    for path in ("", "../records", "%2e%2e/records", "/etc/passwd", "..%2f..%2fserver.log"):
        assert ask(answering, "GET", f"frames/{path}")[0] == 404
    for path in ("trace.json", "report.html", "../records", "%2e%2e/trace.json"):
        assert ask(answering, "GET", f"runs/{'0' * 24}/{path}")[0] == 404
    assert ask(answering, "GET", f"runs/{'0' * 24}/link")[0] == 405  # no picture makes a link
    ports = {urlsplit(each).port for each in re.findall(r"https?://\S+", log)}
    assert ports == {urlsplit(answering.url).port}, "no address is public"


def test_an_idle_server_takes_little_time_and_may_open_many_files(answering: Server) -> None:
    """Gradio looks for new events a thousand times a second, which takes 4 % of a processor."""
    process = psutil.Process(answering.process.pid)
    soft, hard = process.rlimit(psutil.RLIMIT_NOFILE)
    assert soft == min(hard, 2**16) > USUAL_OPEN_FILES
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(2)
    after, seconds = process.cpu_times(), time.monotonic() - began
    assert after.user + after.system - before.user - before.system < 0.02 * seconds


def test_a_video_is_sent_in_one_part_or_whole(answering: Server, clips: Clips) -> None:
    path, whole = api.upload(answering, clips[0]), clips[0].read_bytes()
    address = f"{answering.url}gradio_api/file={path}"
    for ranges, status, sent in (
        ("bytes=4-9", 206, whole[4:10]),
        ("bytes=0-3,8-9", 200, whole),
        ("bytes=0-3, -4", 200, whole),
    ):
        asked = urllib.request.Request(address, headers={"Range": ranges})
        with urllib.request.urlopen(asked, timeout=PATIENCE_S) as answer:
            assert (answer.status, answer.read()) == (status, sent), ranges
