"""How large the house is: nobody keeps a large one in mind. `python -m tests.test_house` prints the table.

Each number was reached and may only sink. A fix or a small feature fits into the 2 % of room above it.
"""

from __future__ import annotations

import ast
import io
import json
import math
import signal
import subprocess
import sys
import time
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import httpx
import pytest
from gradio_client import Client, handle_file

from tests.support.loopback_server import free_port
from tests.support.small_clips import write_clip
from tests.support.waiting import PATIENCE_S, until

ROOT = Path(__file__).resolve().parents[1]
CORE, TESTS, ASSETS, APP = (ROOT / name for name in ("vrthinker_core", "tests", "assets", "app.py"))
WIDTH = 100
CODE_TOKENS = (tokenize.NAME, tokenize.NUMBER, tokenize.OP, tokenize.STRING)
REPLIES = (
    '<Think>t</Think><tool_call>{"name": "select_frames", "arguments": {"frame_indices": [20, 30]}}</tool_call>',
    "<Think>t</Think><Answer>TA=1, MQ=1, VQ=1, OA=1</Answer>",
)

REACHED = {
    "core lines": 36_604,
    "core tokens": 248_500,
    "core files": 141,
    "modules with one importer": 25,
    "folders of the core": 11,
    "levels below the core": 1,
    "test lines": 35_981,
    "js and css lines": 5_400,
    "js and css files": 17,
    "README bytes": 14_457,
    "package READMEs, bytes": 24_952,
}
ROOM = 1.02
WALKED = {"command line": 24, "page": 33}
"""Files of the core of which a function runs in one comparison of two turns."""


def texts(files: Iterable[Path]) -> list[str]:
    return [path.read_text("utf-8") for path in files]


def count_wrapped(texts: Iterable[str]) -> int:
    """Lines of WIDTH columns, however wide they were written; a formatter sees to those of Python."""
    return sum(max(1, math.ceil(len(line) / WIDTH)) for text in texts for line in text.splitlines())


def count_tokens(source: str) -> int:
    """Names, numbers, operators and strings of the code, without comments and docstrings."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        functions = ast.FunctionDef | ast.AsyncFunctionDef
        documented = isinstance(node, ast.Module | ast.ClassDef | functions)
        if documented and ast.get_docstring(node, clean=False) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    code = io.StringIO(ast.unparse(tree))
    return sum(token.type in CODE_TOKENS for token in tokenize.generate_tokens(code.readline))


def importers(files: Iterable[Path]) -> dict[str, set[str]]:
    """For each module of the core, the modules that import it."""
    names = {
        path: ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in files
    }
    found: dict[str, set[str]] = defaultdict(set)
    for path, name in names.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            targets: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                targets = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                targets = [alias.name for alias in node.names]
            for target in targets:
                if target != name and target in names.values():
                    found[target].add(name)
    return found


def measured() -> dict[str, int]:
    files = sorted(CORE.rglob("*.py"))
    templates = [path for path in CORE.rglob("*") if path.suffix in (".jinja", ".html", ".yaml")]
    assets = [path for path in ASSETS.rglob("*") if path.suffix in (".js", ".css")]
    alone = [
        name
        for name, by in importers(files).items()
        if len(by) == 1 and not name.endswith("__main__")
    ]
    return {
        "core lines": sum(text.count("\n") for text in texts(files))
        + count_wrapped(texts([APP, *templates])),
        "core tokens": sum(map(count_tokens, texts([*files, APP]))),
        "core files": len(files),
        "modules with one importer": len(alone),
        "folders of the core": len({path.parent for path in files}),
        "levels below the core": max(len(path.relative_to(CORE).parts) - 1 for path in files),
        "test lines": sum(text.count("\n") for text in texts(TESTS.rglob("*.py"))),
        "js and css lines": count_wrapped(texts(assets)),
        "js and css files": len(assets),
        "README bytes": (ROOT / "README.md").stat().st_size,
        "package READMEs, bytes": sum(path.stat().st_size for path in CORE.rglob("README.md")),
    }


def walked(folder: Path, way: str) -> int:
    """How many files of the core run a function in one comparison of two turns."""
    clips = [str(write_clip(folder / name)) for name in ("one.mp4", "two.mp4")]
    script, seen = folder / "script.jsonl", folder / "seen.json"
    script.write_text(
        "\n".join(json.dumps({"reply": reply, "protocol": "paired"}) for reply in REPLIES)
    )
    judge = ["--judge", f"scripted:{script}"]
    profiled = [sys.executable, "-m", "tests.support.profiled", str(CORE), str(seen)]
    if way == "command line":
        compare = ["vrthinker_core", "compare", *clips, "--prompt", "A box.", "--json", *judge]
        subprocess.run([*profiled, "now", *compare], cwd=ROOT, capture_output=True, check=True)
    else:
        options = f"--port {(port := free_port())} --runs-folder {folder / 'runs'}".split()
        page, quiet = [*profiled, "later", "app.py", *judge, *options], subprocess.DEVNULL
        with subprocess.Popen(page, cwd=ROOT, stdout=quiet, stderr=quiet) as server:
            try:
                client = connect(f"http://127.0.0.1:{port}")
                server.send_signal(signal.SIGUSR1)
                list(client.submit(*map(handle_file, clips), "A box.", api_name="/compare"))
                server.send_signal(signal.SIGUSR2)
                until(lambda: seen.exists() and seen.read_text().endswith("]"))
            finally:
                server.terminate()
    return len(json.loads(seen.read_text()))


def connect(address: str) -> Client:
    """A client of the page, once it answers."""
    for _ in range(int(PATIENCE_S)):
        try:
            return Client(address, verbose=False)
        except (OSError, httpx.HTTPError, ValueError):
            time.sleep(1)
    raise TimeoutError(address)


def test_the_house_has_not_grown() -> None:
    """Lower a number once it has sunk. Whoever needs more room says what for (`.github/CONTRIBUTING.md`)."""
    found = measured()
    assert {name: each for name, each in found.items() if each > ROOM * REACHED[name]} == {}


@pytest.mark.parametrize("way", WALKED)
def test_a_comparison_walks_through_few_files(way: str, tmp_path: Path) -> None:
    assert walked(tmp_path, way) <= math.ceil(ROOM * WALKED[way])


if __name__ == "__main__":
    for name, number in measured().items():
        print(f"{name:28}{number:>9,}{REACHED[name]:>9,}")
