"""The server as a whole: who is served, what it tells of its machine, and what it leaves behind."""

import json
import os
import re
import socket
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest

from tests.support.app_process import USUAL_OPEN_FILES, fork_app
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import Server, write_script
from tests.ui.support.api import ask, config, files

ANSWER = "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"


def test_a_space_answers_under_each_of_its_names(tmp_path: Path) -> None:
    judge = write_script(tmp_path / "script.jsonl", [ANSWER])
    names = {"you-demo.hf.space": 200, "demo.example": 200, "evil.example": 400}
    variables = {"SPACE_HOST": "you-demo.hf.space, demo.example"}
    space = Server(tmp_path, judge, variables=variables, forked=True)
    answers = {name: ask(space, "GET", "", Host=name)[0] for name in names}
    assert any(tmp_path.glob("vr-thinker-page-*/pictures"))
    space.stop()
    assert answers == names
    left = {path.name for path in files(tmp_path)}
    assert left == {"script.jsonl", "server.log", "runs.sqlite"}, "it leaves no file"


OPTIONS = {
    "--port 0": "'0' is no whole number from 1 to 65535",
    "--port 99999": "'99999' is no whole number from 1 to 65535",
    "--at-once 0": "'0' is no whole number from 1 to",
    "--waiting -1": "'-1' is no whole number from 0 to",
    "--host nosuch.invalid": "The page cannot be served at --host nosuch.invalid: ",
    "--host a..b": "The page cannot be served at --host a..b: ",
    "--port {taken}": "at --port {taken}: Address already in use. Choose another one.",
    "--judge Nano": "There is no judge 'Nano'. Did you mean nano?\n",
    "--at-once 2": "There is no judge 'openai'. Did you mean openai:MODEL?\n",
    "--runs no": "Cannot read the folder no: No such file or directory. Name a folder that is there.\n",
    "--examples README.md": "Cannot read the folder README.md: Not a directory. Name a",
}


def test_an_option_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    """All these processes start at the same time."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken, logs, processes = other.getsockname()[1], list[Path](), list[psutil.Process]()
        for option in OPTIONS:
            logs.append(tmp_path / f"{len(logs)}.log")
            variables = {**os.environ, "TMPDIR": str(tmp_path)}
            variables |= {"VRTHINKER_JUDGE": "nano, openai"} if option == "--at-once 2" else {}
            processes.append(fork_app(option.format(taken=taken).split(), variables, logs[-1]))
        for process in processes:
            process.wait(PATIENCE_S)
    for log, said in zip(logs, OPTIONS.values(), strict=True):
        assert said.format(taken=taken) in log.read_text()
        assert "Traceback" not in log.read_text()


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
