"""The server as a whole: what it refuses, and what it leaves behind."""

from __future__ import annotations

import os
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

from tests.support.app_process import USUAL_OPEN_FILES, fork_app
from tests.support.waiting import PATIENCE_S
from tests.ui.conftest import Serve, Server, write_script


def status_of(url: str, **headers: str) -> int:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture(scope="module")
def server(answering: Server) -> Server:
    return answering


@pytest.mark.parametrize("path", ["", "config", "gradio_api/info", "gradio_api/heartbeat/x"])
def test_requests_of_foreign_pages_are_refused(server: Server, path: str) -> None:
    assert status_of(server.url + path, Origin="http://evil.example") == 403
    assert status_of(server.url + path, Host="evil.example") == 400


def test_a_space_answers_under_each_of_its_names(tmp_path: Path) -> None:
    judge = write_script(tmp_path / "script.jsonl", ["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"])
    names = {"you-demo.hf.space": 200, "demo.example": 200, "evil.example": 400}
    space = Server(
        tmp_path, judge, variables={"SPACE_HOST": "you-demo.hf.space, demo.example"}, forked=True
    )
    try:
        assert {name: status_of(space.url, Host=name) for name in names} == names
    finally:
        space.stop()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--port", "0"], "'0' is no whole number from 1 to 65535"),
        (["--port", "99999"], "'99999' is no whole number from 1 to 65535"),
        (["--at-once", "0"], "'0' is no whole number from 1 to"),
        (["--waiting", "-1"], "'-1' is no whole number from 0 to"),
        (["--host", "nosuch.invalid"], "The page cannot be served at --host nosuch.invalid: "),
        (["--host", "a..b"], "The page cannot be served at --host a..b: "),
        (
            ["--port", "{taken}"],
            "The page cannot be served at --port {taken}: Address already in use. Choose another one.",
        ),
    ],
)
def test_an_option_that_cannot_be_is_one_sentence(
    options: list[str], said: str, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        told = [option.format(taken=taken) for option in options]
        process = fork_app(told, {**os.environ, "TMPDIR": str(tmp_path)}, tmp_path / "log")
        process.wait(PATIENCE_S)
    log = (tmp_path / "log").read_text()
    assert said.format(taken=taken) in log
    assert "Traceback" not in log


@pytest.mark.parametrize(
    "path", ["", "../records", "%2e%2e/records", "/etc/passwd", "..%2f..%2fserver.log"]
)
def test_only_pictures_are_served_and_runs_by_their_names(server: Server, path: str) -> None:
    assert status_of(f"{server.url}frames/{path}") == 404
    for what in ("trace.json", "report.html", "../records", "%2e%2e/trace.json"):
        assert status_of(f"{server.url}runs/{'0' * 24}/{what}") == 404


def test_no_file_is_left_when_the_server_stops(serve: Serve) -> None:
    stopped = serve(["<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"])
    assert any(stopped.folder.glob("vr-thinker-page-*/pictures"))
    stopped.stop()
    assert {path.name for path in stopped.folder.rglob("*") if path.is_file()} == {
        "script.jsonl",
        "server.log",
        "lock",
    }


def test_an_idle_server_takes_little_processor_time(server: Server) -> None:
    """Gradio looks for new events a thousand times a second, which takes 4 % of a processor."""
    process = psutil.Process(server.process.pid)
    time.sleep(1)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(4)
    after, seconds = process.cpu_times(), time.monotonic() - began
    assert after.user + after.system - before.user - before.system < 0.02 * seconds


def test_the_server_may_have_more_files_open_than_is_usual(server: Server) -> None:
    soft, hard = psutil.Process(server.process.pid).rlimit(psutil.RLIMIT_NOFILE)
    assert soft == min(hard, 2**16) > USUAL_OPEN_FILES


def test_only_the_page_can_make_a_link(server: Server) -> None:
    url = f"{server.url}runs/{'0' * 24}/link"
    assert status_of(url) == 405
    assert status_of(url, Origin="http://evil.example") == 403
