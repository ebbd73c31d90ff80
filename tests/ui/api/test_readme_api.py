"""The README's API examples are run as they stand, against a real server."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ui.conftest import Server

README = (Path(__file__).resolve().parents[3] / "README.md").read_text("utf-8")
SECTION = README.split("## The page from a program", 1)[1].split("\n## ", 1)[0]
BLOCKS = dict(re.findall(r"^```(python|bash)\n(.*?)^```", SECTION, re.S | re.M))
REPLIES = [
    '<Think>t</Think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30]}}</tool_call>',
    "<Answer>TA=1, MQ=0, VQ=2, OA=1</Answer>",
]


@pytest.fixture(scope="module")
def server(serve: Callable[..., Server]) -> Server:
    return serve(REPLIES, protocol="paired")


def run(command: list[str], server: Server, clips: tuple[Path, Path], folder: Path) -> str:
    for clip, name in zip(clips, ("one.mp4", "two.mp4"), strict=True):
        shutil.copy(clip, folder / name)
    script = command[-1].replace("http://127.0.0.1:7860", server.url.rstrip("/"))
    done = subprocess.run(
        [*command[:-1], script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_python_client(server: Server, clips: tuple[Path, Path], tmp_path: Path) -> None:
    printed = run([sys.executable, "-c", BLOCKS["python"]], server, clips, tmp_path)
    assert (
        printed.splitlines()[-1] == "answered {'TA': 1, 'MQ': 0, 'VQ': 2, 'OA': 1} [[10, 30], []]"
    )


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl(server: Server, clips: tuple[Path, Path], tmp_path: Path) -> None:
    printed = run(["bash", "-c", BLOCKS["bash"]], server, clips, tmp_path)
    assert '"stop": "answered"' in printed
    assert '"OA": 1' in printed
