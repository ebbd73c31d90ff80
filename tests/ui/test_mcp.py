"""The MCP tools: the real client of the package `mcp`, against a real server."""

import asyncio
import base64
import importlib.metadata
import itertools
import json
import shutil
import sys
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock
from urllib.parse import quote

import pytest

from tests.support.threads import run_in_thread
from tests.support.waiting import until
from tests.ui import test_api
from tests.ui.conftest import ROOT, Clips, Serve, Server, write_script
from tests.ui.support.api import META, answers, ask, check_refused, client, file, files, upload
from tests.ui.support.saved_examples import PROMPT
from vrthinker_core.ui import api

EVIL = {"path": str(ROOT / "app.py"), "meta": META}


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    if why := api.why_no_mcp():
        pytest.skip(why)
    return serve([test_api.LOOK, test_api.END], protocol="paired")


def with_session(server: Server, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """The result of `work` with an MCP session, in a thread: see `run_in_thread`."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> Any:
        connected = streamable_http_client(f"{server.url}gradio_api/mcp/")
        async with connected as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            return await work(session)

    return run_in_thread(run())


def call(server: Server, *videos: object, **more: object) -> tuple[bool, str]:
    """Whether a call of `compare` is an error, and its text."""
    told = {"video1": videos[0], "video2": videos[1], "prompt": PROMPT, **more}
    called = with_session(server, lambda session: session.call_tool("compare", told))
    (content,) = called.content
    return called.isError, content.text


def compare(server: Server, *videos: object, **more: object) -> Any:
    is_error, text = call(server, *videos, **more)
    assert not is_error, text
    return json.loads(text)


def data_url(clip: Path) -> str:
    """A clip of 1.4 MB, of which players skip most: MCP takes 4 MB in all."""
    padding = (1_400_008).to_bytes(4, "big") + b"free" + bytes(1_400_000)
    return f"data:video/mp4;base64,{base64.b64encode(clip.read_bytes() + padding).decode()}"


def test_only_these_tools_are_offered_and_each_parameter_is_described(server: Server) -> None:
    async def list_all(session: Any) -> tuple[Any, ...]:
        listed = await session.list_resources(), await session.list_prompts()
        return (await session.list_tools()).tools, listed[0].resources, listed[1].prompts

    tools, *others = with_session(server, list_all)
    assert ([tool.name for tool in tools], others) == (["compare", "health"], [[], []])
    taken, nothing = (tool.inputSchema["properties"] for tool in tools)
    assert nothing == {}
    assert list(taken) == ["video1", "video2", "prompt", "judge", "settings"]
    assert all(told["description"].endswith(".") for told in taken.values())
    assert ask(server, "GET", "gradio_api/mcp/sse") == (404, api.NO_SSE), "one way of transport"


def test_a_video_can_be_given_in_every_way(server: Server, clips: Clips, tmp_path: Path) -> None:
    """Its name may hold any character, and the run is the same as over HTTP."""
    odd = Path(shutil.copy(clips[0], tmp_path / "größe 100% #1.mp4"))
    paths = [upload(server, clip) for clip in (odd, clips[1])]
    before = sorted(files(server.folder))
    turns = answers(server, *map(file, paths), PROMPT)[-1]["turns"]
    addresses = [f"{server.url}gradio_api/file={quote(path)}" for path in paths]
    for given in (paths, addresses, map(data_url, clips)):
        run = compare(server, *given)
        assert (run["stop"], run["labels"], run["turns"]) == ("answered", test_api.VERDICT, turns)
    until(lambda: sorted(files(server.folder)) == before)


def test_settings_reach_the_run(server: Server, clips: Clips) -> None:
    videos = [upload(server, clip) for clip in clips]
    for settings in (test_api.ONE_TURN, json.dumps(test_api.ONE_TURN)):
        test_api.check_one_turn(compare(server, *videos, settings=settings))
    check_refused(compare(server, f"file={EVIL['path']}", videos[1]), "no uploaded file")


EVILS: list[dict[str, Any]] = [{"video1": EVIL}, {"prompt": EVIL}, {"more": EVIL}]
EVILS += [{"settings": each} for each in (EVIL, {"window": EVIL}, {"more": EVIL})]


def test_no_file_is_uploaded(server: Server, clips: Clips) -> None:
    """Gradio's client would upload every file of the machine that such a value names."""
    videos = [upload(server, clip) for clip in clips]
    before = sorted(files(server.folder))
    for given in EVILS:
        assert call(server, *videos, **given)[0]
    assert sorted(files(server.folder)) == before


@pytest.mark.usefixtures("server")
def test_a_disconnect_frees_the_judge(endless: Server, clips: Clips) -> None:
    first, second = (upload(endless, clip) for clip in clips)
    arguments = {"video1": first, "video2": second, "prompt": PROMPT}

    async def cancel_while_judging(session: Any) -> None:
        pending = asyncio.ensure_future(session.call_tool("compare", arguments))
        while json.loads((await session.call_tool("health", {})).content[0].text)["judging"] == 0:
            await asyncio.sleep(0.05)
        pending.cancel()

    with_session(endless, cancel_while_judging)
    program = client(endless)
    until(lambda: program.predict(api_name="/health")["judging"] == 0)
    (folder,) = endless.folder.glob("vr-thinker-page-*/records")
    until(lambda: not any(folder.iterdir()))


def test_an_assistant_as_the_readme_says(server: Server, clips: Clips, tmp_path: Path) -> None:
    """It has two servers: the upload tool, which is a process beside it, and the page."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    readme = (ROOT / "vrthinker_core/ui/README.md").read_text("utf-8").partition("```json")[2]
    told = json.loads(readme.partition("```")[0].replace("http://127.0.0.1:7860/", server.url))
    page, uploads = told["mcpServers"].values()
    assert page["url"] == f"{server.url}gradio_api/mcp/"
    assert Path(uploads["command"]).parts[-3:] == (".venv", "bin", "gradio")
    gradio = str(Path(sys.executable).with_name("gradio"))
    process = StdioServerParameters(command=gradio, args=[*uploads["args"][:-1], str(tmp_path)])
    copies = [{"file": str(shutil.copy(clip, tmp_path))} for clip in clips]

    async def upload_both() -> list[str]:
        with Path(tmp_path / "log").open("w") as log:
            async with stdio_client(process, log) as streams, ClientSession(*streams) as session:
                await session.initialize()
                (tool,) = (await session.list_tools()).tools
                results = [await session.call_tool(tool.name, each) for each in copies]
                return [result.content[0].text for result in results]

    assert compare(server, *run_in_thread(upload_both()))["labels"] == test_api.VERDICT


def fake_package(folder: Path, version: str) -> Path:
    """Make `mcp` seem to be installed in that version in `folder`."""
    (metadata := folder / f"mcp-{version}.dist-info").mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mcp\nVersion: {version}\n")
    return folder


def test_a_package_unfit_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of another version, and one that is missing."""
    for version in ("2.0.0b1", "2.3.0", "1.23.3", "0.9.1", "3", "unknown"):
        monkeypatch.syspath_prepend(fake_package(tmp_path / version, version))
        assert api.why_no_mcp() == api.WRONG_VERSION.format(version)

    missing = Mock(side_effect=importlib.metadata.PackageNotFoundError)
    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert api.why_no_mcp() == api.NOT_INSTALLED


def test_a_page_whose_mcp_is_broken_says_so(tmp_path: Path) -> None:
    (fake_package(tmp_path, "1.30.0") / "mcp.py").touch()
    sentence, judge = api.WRONG_VERSION.format("1.30.0"), tmp_path / "a.jsonl"
    variables = {"PYTHONPATH": str(tmp_path)}
    script = write_script(judge, [test_api.END])
    with closing(Server(tmp_path, script, variables=variables)) as server:
        assert client(server).predict(api_name="/health")["status"] == "ready"
        for method, path in itertools.product(("GET", "POST"), ("", "/", "/sse")):
            assert ask(server, method, f"gradio_api/mcp{path}") == (404, sentence)
        assert sentence in server.log.read_text().splitlines()
