"""The MCP tools: the real client of the package `mcp`, against a real server."""

from __future__ import annotations

import asyncio
import base64
import http.client
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.support.threads import run_in_thread
from tests.support.waiting import PATIENCE_S, until
from tests.ui.conftest import ROOT, Clips, Serve, Server, write_script
from tests.ui.sessions.test_sessions import files
from tests.ui.support.api import META, answers, check_refused, client, file, upload
from tests.ui.support.saved_examples import PROMPT
from vrthinker_core.ui import mcp

needs_mcp = pytest.mark.skipif(
    bool(mcp.why_unavailable()), reason=mcp.why_unavailable() or "MCP is there"
)

LOOK = '<think>t</think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 60]}}</tool_call>'
END = "<Snapshot>Steady.</Snapshot><Think>Vidéo 1 is steadier.</Think><Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>"
LABELS = {"TA": 1, "MQ": 0, "VQ": 2, "OA": 1}
EVIL = {"path": str(ROOT / "app.py"), "meta": META}


@pytest.fixture(scope="module")
def server(serve: Serve) -> Server:
    return serve([LOOK, END], protocol="paired")


def with_session(url: str, work: Callable[[Any], Awaitable[Any]]) -> Any:
    """The result of `work` with an MCP session; in a thread, because browser tests keep an event loop running in this one."""
    from mcp import ClientSession
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> Any:
        async with (
            streamable_http_client(url) as (read, write, _),
            ClientSession(read, write) as session,
        ):
            await session.initialize()
            return await work(session)

    return run_in_thread(run())


def endpoint(server: Server) -> str:
    return f"{server.url}gradio_api/mcp/"


def call(server: Server, tool: str, **arguments: object) -> Any:
    """The answer of a tool, which is one JSON text."""
    result = with_session(endpoint(server), lambda session: session.call_tool(tool, arguments))
    assert not result.isError, result
    (content,) = result.content
    return json.loads(content.text)


def compare(server: Server, first: object, second: object, prompt: str = PROMPT) -> Any:
    return call(server, "compare", video1=first, video2=second, prompt=prompt)


def file_url(server: Server, path: str) -> str:
    """What Gradio's upload tool returns."""
    return f"{server.url}gradio_api/file={quote(path)}"


def data_url(clip: Path) -> str:
    padding = (
        (1_400_008).to_bytes(4, "big") + b"free" + bytes(1_400_000)
    )  # players skip it; MCP takes 4 MB in all
    return f"data:video/mp4;base64,{base64.b64encode(clip.read_bytes() + padding).decode()}"


# -- the tools -----------------------------------------------------------------------------------------------------------


@needs_mcp
def test_only_these_tools_are_offered(server: Server) -> None:
    async def list_all(session: Any) -> tuple[Any, ...]:
        return (
            (await session.list_tools()).tools,
            (await session.list_resources()).resources,
            (await session.list_prompts()).prompts,
        )

    tools, resources, prompts = with_session(endpoint(server), list_all)
    assert [tool.name for tool in tools] == ["compare", "health"]
    assert (resources, prompts) == ([], [])
    schemas = {tool.name: tool.inputSchema for tool in tools}
    assert schemas["health"]["properties"] == {}
    assert list(schemas["compare"]["properties"]) == [
        "video1",
        "video2",
        "prompt",
        "judge",
        "settings",
    ]
    assert schemas["compare"]["required"] == ["video1", "video2", "prompt"]
    for name, parameter in schemas["compare"]["properties"].items():
        assert parameter["description"].endswith(".")
        kinds = {"object", "string", "null"} if name == "settings" else {"string"}
        assert {kind["type"] for kind in parameter.get("anyOf", [parameter])} == kinds
    for tool in tools:
        assert len(tool.description) > 40


@needs_mcp
def test_a_video_can_be_given_in_every_way_and_its_name_may_hold_any_character(
    server: Server, clips: Clips, tmp_path: Path
) -> None:
    odd = Path(shutil.copy(clips[0], tmp_path / "größe 100% #1.mp4"))
    paths = [upload(server, clip) for clip in (odd, clips[1])]
    run = compare(server, *paths)
    assert (run["stop"], run["labels"], run["turns"][1]["think"]) == (
        "answered",
        LABELS,
        "Vidéo 1 is steadier.",
    )
    assert [turn["requested"] for turn in run["turns"]] == [[10, 60], []]
    assert run["turns"] == answers(server, *map(file, paths), PROMPT)[-1]["turns"], (
        "the same as over HTTP"
    )
    assert compare(server, *(file_url(server, path) for path in paths))["turns"] == run["turns"]
    before = sorted(files(server.folder))
    assert compare(server, *map(data_url, clips))["turns"] == run["turns"]
    until(lambda: sorted(files(server.folder)) == before)


# -- what is refused -----------------------------------------------------------------------------------------------------


@needs_mcp
@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("/etc/passwd", "no uploaded file"),
        ("app.py", "no uploaded file"),
        ("", "no uploaded file"),
        ("file:///etc/passwd", "no uploaded file"),
        ("{url}gradio_api/file=/etc/passwd", "no uploaded file"),
        ("{url}gradio_api/file=%2Fetc%2Fpasswd", "no uploaded file"),
        ("{url}health.mp4", "the usual web ports"),
        ("http://127.0.0.1/film.mp4", "not on the public internet"),
        ("data:video/mp4;base64,!!!!", "cannot be read"),
        ("data:video/mp4,abc", "cannot be read"),
        ("data:video/mp4;base64,AAAA", "cannot be opened"),
    ],
)
def test_no_other_file_can_be_given(given: str, words: str, server: Server, clips: Clips) -> None:
    path = upload(server, clips[0])
    check_refused(compare(server, given.format(url=server.url), path), words)


@needs_mcp
@pytest.mark.parametrize(
    "given",
    [
        {"video1": EVIL},
        {"prompt": EVIL},
        {"more": EVIL},
        *({"settings": each} for each in (EVIL, {"window": EVIL}, {"more": EVIL})),
    ],
    ids=["video", "prompt", "more", "settings", "a setting", "a new setting"],
)
def test_gradio_is_not_made_to_upload_a_file_of_the_machine(
    given: dict[str, Any], server: Server, clips: Clips
) -> None:
    """Its client would upload every file that such a value names."""
    before = sorted(files(server.folder))
    arguments = {"video1": data_url(clips[0]), "video2": data_url(clips[1]), "prompt": PROMPT}
    arguments |= given
    result = with_session(endpoint(server), lambda session: session.call_tool("compare", arguments))
    assert result.isError
    assert sorted(files(server.folder)) == before


def request(server: Server, path: str, method: str = "POST", **headers: str) -> tuple[int, str]:
    host = server.url.split("/")[2]
    connection = http.client.HTTPConnection(host, timeout=PATIENCE_S)
    sent = {
        "Host": host,
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
    }
    connection.request(
        method, path, '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}', sent | headers
    )
    response = connection.getresponse()
    status_and_text = response.status, response.read().decode()
    connection.close()
    return status_and_text


@needs_mcp
@pytest.mark.parametrize("path", ["", "/", "/http/", "/schema", "/sse", "/messages/"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_the_origin_guard_covers_the_tools(method: str, path: str, server: Server) -> None:
    path = f"/gradio_api/mcp{path}"
    assert request(server, path, method, Host="evil.example")[0] == 400
    for origin in ("http://evil.example", "null", server.url.replace("127.0.0.1", "localhost")):
        assert request(server, path, method, Origin=origin)[0] == 403


@needs_mcp
def test_its_own_page_and_programs_are_let_through(server: Server) -> None:
    assert request(server, "/gradio_api/mcp/")[0] == 200
    assert request(server, "/gradio_api/mcp/", Origin=server.url.rstrip("/"))[0] == 200
    assert request(server, "/gradio_api/mcp/sse", "GET") == (404, mcp.NO_SSE)


# -- disconnects -------------------------------------------------------------------------------------------------------


@needs_mcp
def test_a_disconnect_frees_the_judge(serve: Serve, clips: Clips) -> None:
    endless = serve(["on and on " * 4000], pause=0.02)
    first, second = (upload(endless, clip) for clip in clips)
    arguments = {"video1": first, "video2": second, "prompt": PROMPT}

    async def cancel_while_judging(session: Any) -> None:
        pending = asyncio.ensure_future(session.call_tool("compare", arguments))
        while json.loads((await session.call_tool("health", {})).content[0].text)["judging"] == 0:
            await asyncio.sleep(0.05)
        pending.cancel()

    with_session(endpoint(endless), cancel_while_judging)
    until(lambda: client(endless).predict(api_name="/health")["judging"] == 0)
    (folder,) = endless.folder.glob("vr-thinker-page-*/records")
    until(lambda: not any(folder.iterdir()))


# -- the README ----------------------------------------------------------------------------------------------------------

README = ROOT / "vrthinker_core" / "ui" / "README.md"
SECTION = README.read_text("utf-8").split("## MCP", 1)[1].split("\n## ", 1)[0]
(CONFIGURATION,) = re.findall(r"^```json\n(.*?)^```", SECTION, re.S | re.M)


@needs_mcp
def test_an_assistant_configured_as_the_readme_says(
    server: Server, clips: Clips, tmp_path: Path
) -> None:
    """It has both servers: the upload tool, which is a process beside it, and the page's."""
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    page, uploads = json.loads(CONFIGURATION.replace("http://127.0.0.1:7860/", server.url))[
        "mcpServers"
    ].values()
    command, folder = Path(uploads["command"]), uploads["args"][-1]
    assert command.parts[-3:] == (".venv", "bin", "gradio")
    command_line = [str(tmp_path) if word == folder else word for word in uploads["args"]]
    process = StdioServerParameters(
        command=str(Path(sys.executable).with_name("gradio")), args=command_line
    )

    async def upload_both() -> list[str]:
        with Path(tmp_path / "log").open("w") as log:
            async with stdio_client(process, log) as streams, ClientSession(*streams) as session:
                await session.initialize()
                (tool,) = (await session.list_tools()).tools
                results = [
                    await session.call_tool(tool.name, {"file": str(shutil.copy(clip, tmp_path))})
                    for clip in clips
                ]
                return [result.content[0].text for result in results]

    urls = run_in_thread(upload_both())
    arguments = {"video1": urls[0], "video2": urls[1], "prompt": PROMPT}
    result = with_session(page["url"], lambda session: session.call_tool("compare", arguments))
    assert json.loads(result.content[0].text)["labels"] == LABELS


# -- without MCP ---------------------------------------------------------------------------------------------------------


def fake_package(folder: Path, version: str) -> Path:
    """Make `mcp` seem to be installed in that version in `folder`."""
    metadata = folder / f"mcp-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mcp\nVersion: {version}\n")
    return folder


@pytest.mark.parametrize("version", ["2.0.0b1", "2.3.0", "1.23.3", "0.9.1", "3", "unknown"])
def test_another_version_is_named(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(fake_package(tmp_path, version))
    assert mcp.why_unavailable() == mcp.WRONG_VERSION.format(version)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert mcp.why_unavailable() == mcp.NOT_INSTALLED


def test_a_broken_package_is_named(tmp_path: Path) -> None:
    (fake_package(tmp_path, "1.30.0") / "mcp.py").touch()
    code = "from vrthinker_core.ui import mcp; print(mcp.why_unavailable())"
    command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.strip() == mcp.BROKEN.format("1.30.0")


def test_a_page_without_mcp_says_so(tmp_path: Path) -> None:
    sentence = mcp.WRONG_VERSION.format("2.3.0")
    judge = write_script(tmp_path / "script.jsonl", [END])
    server = Server(tmp_path, judge, variables={"PYTHONPATH": str(fake_package(tmp_path, "2.3.0"))})
    try:
        assert client(server).predict(api_name="/health")["status"] == "ready"
        for path in ("/gradio_api/mcp", "/gradio_api/mcp/", "/gradio_api/mcp/sse"):
            assert request(server, path) == request(server, path, "GET") == (404, sentence)
        assert sentence in server.log.read_text().splitlines()
    finally:
        server.stop()
