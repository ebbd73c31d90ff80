"""Going up to Hugging Face: the front matter of the README, what the builder there installs, and the line that uploads."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version

from tests.support.loopback_server import LoopbackServer, QuietHandler, serving
from vrthinker_core.ui import api

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text("utf-8")
FRONT: dict[str, Any] = yaml.safe_load(README.split("---\n")[1])
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
REQUIREMENTS = {
    Requirement(line).name: Requirement(line)
    for line in (ROOT / "requirements.txt").read_text().splitlines()
}
BUILDER = ("torch<=2.13.0", f"gradio[oauth,mcp]=={FRONT['sdk_version']}", "spaces==0.51.3")
"""What the builder of a Space adds to requirements.txt, in one call of pip."""

COLOURS = {"red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"}
(UPLOAD,) = (
    line for line in README.splitlines() if " upload " in line and "--repo-type space" in line
)


def test_the_front_matter_says_what_a_space_needs() -> None:
    fixed = {"sdk": "gradio", "python_version": "3.12", "suggested_hardware": "zero-a10g"}
    assert fixed.items() <= FRONT.items()
    assert FRONT["title"]
    assert FRONT["emoji"]
    assert {FRONT["colorFrom"], FRONT["colorTo"]} <= COLOURS
    assert (ROOT / FRONT["app_file"]).is_file()
    assert 0 < len(FRONT["short_description"]) <= 60
    assert re.fullmatch(r"\d+[smh]", FRONT["startup_duration_timeout"])


def test_it_names_the_licence_and_the_model_of_the_project() -> None:
    assert FRONT["license"] == PROJECT["license"].lower()
    assert FRONT["models"] == FRONT["preload_from_hub"]


def test_the_python_and_the_gradio_of_the_space_are_among_ours() -> None:
    ours = Requirement(f"python{PROJECT['requires-python']}").specifier
    assert f"{FRONT['python_version']}.0" in ours
    assert FRONT["sdk_version"] in REQUIREMENTS["gradio"].specifier


def test_the_builder_is_left_its_freedom() -> None:
    for name in ("gradio", "spaces", "torch", "pydantic"):
        pins = REQUIREMENTS[name].specifier if name in REQUIREMENTS else ()
        assert all(pin.operator not in ("==", "===", "~=") for pin in pins), name
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    assert not [line for line in lines if line.startswith("-") or "://" in line]


def test_the_system_packages_that_opencv_and_pictures_need_are_named() -> None:
    named = set((ROOT / "packages.txt").read_text().split())
    assert {"libgl1", "libglib2.0-0", "fonts-wqy-microhei", "fonts-noto-color-emoji"} <= named


def resolved(python: str, *more: str) -> dict[str, Version]:
    """What requirements.txt and `more` become on a Linux with that Python. Reads the index, downloads no package."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-config"]
    command += ["--no-python-downloads", "--no-annotate", "--no-header", "--python-version", python]
    command += ["--python-platform", "x86_64-manylinux_2_28", "--only-binary", ":all:"]
    command += ["requirements.txt", "-"]
    text = "\n".join(more)
    done = subprocess.run(
        command, cwd=ROOT, input=text, capture_output=True, text=True, timeout=240, check=False
    )
    if "error sending request" in done.stderr:
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    found = dict(line.split("==") for line in done.stdout.splitlines())
    return {name: Version(version) for name, version in found.items()}


@pytest.fixture(scope="module")
def built() -> dict[str, Version]:
    pytest.importorskip("uv")
    return resolved(FRONT["python_version"], *BUILDER)


def test_a_space_can_be_built(built: dict[str, Version]) -> None:
    assert set(REQUIREMENTS) <= set(built)
    assert all(built[name] in wanted.specifier for name, wanted in REQUIREMENTS.items())
    assert (str(built["gradio"]), str(built["spaces"])) == (FRONT["sdk_version"], "0.51.3")
    assert built["torch"] <= Version("2.13.0")


def test_a_space_has_mcp(built: dict[str, Version]) -> None:
    assert built["mcp"] in Requirement(api.MCP_REQUIREMENT).specifier
    assert built["pydantic"] <= Version("2.12.5")


@pytest.mark.parametrize("python", ["3.11", "3.12"])
def test_what_the_tests_need_goes_with_it(python: str) -> None:
    pytest.importorskip("uv")
    found = resolved(python, *PROJECT["optional-dependencies"]["dev"])
    assert found["mcp"] in Requirement(api.MCP_REQUIREMENT).specifier


class Hub(LoopbackServer):
    """Stands in for Hugging Face: remembers what it is asked, and needs no content of any file."""

    def __init__(self) -> None:
        self.created: list[dict[str, str]] = []
        self.files: list[str] = []
        super().__init__(Asked)

    def answer(self, path: str, body: Any) -> dict[str, object]:
        if path.endswith("/repos/create"):
            self.created.append(body)
            return {"url": f"{self.address}/spaces/{body['organization']}/{body['name']}"}
        if "/preupload/" in path:
            names = [file["path"] for file in body["files"]]
            self.files += names
            found = {"uploadMode": "regular", "shouldIgnore": True}
            return {"files": [{"path": name, **found} for name in names]}
        return {"id": "you/vr-thinker", "sha": "0" * 40}


class Asked(QuietHandler):
    server: Hub

    def do_GET(self) -> None:
        self.answer(None)

    def do_POST(self) -> None:
        self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def answer(self, body: Any) -> None:
        told = json.dumps(self.server.answer(self.path, body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)


@pytest.fixture
def hub() -> Iterator[Hub]:
    with serving(Hub()) as stands_in:
        yield stands_in


LITTER = (
    ".venv/lib/a.py", ".git/config", ".mypy_cache/a.json", "vrthinker_core/__pycache__/a.pyc", "x.egg-info/PKG-INFO", ".env",
    "one.mp4", "pairs.csv", "rows.jsonl", "run.json", "cold/checkpoint/model.safetensors", "drawn/README.md",
    "results/traces/a.json", "ranking/assets/a.html", "teacher/vrthinker_core/a.json",
)  # fmt: skip


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project with what lies about in it after a day of work."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT, folder, ignore=shutil.ignore_patterns(".*", "__pycache__", "*.egg-info"))
    for litter in LITTER:
        (folder / litter).parent.mkdir(parents=True, exist_ok=True)
        (folder / litter).touch()
    return folder


def test_the_upload_line_makes_a_space_of_all_that_it_needs_and_of_nothing_else(
    hub: Hub, checkout: Path, tmp_path: Path
) -> None:
    program, *arguments = shlex.split(UPLOAD)
    assert program == "hf"
    environment = os.environ | {
        "HF_ENDPOINT": hub.address,
        "HF_TOKEN": "hf_none",
        "HF_HOME": str(tmp_path / "home"),
        "HF_HUB_OFFLINE": "0",
        "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    command = [str(Path(sys.executable).with_name("hf")), *arguments]
    how = {"cwd": checkout, "env": environment, "capture_output": True, "text": True, "timeout": 60}
    done = subprocess.run(command, check=False, **how)
    assert done.returncode == 0, done.stderr
    (created,) = hub.created
    assert (created["type"], created["sdk"]) == ("space", "gradio")
    here = {path.relative_to(checkout).as_posix() for path in checkout.rglob("*") if path.is_file()}
    needed = re.compile("(?:assets|vrthinker_core)/(?!.*__pycache__)")
    below = {path for path in here if needed.match(path)}
    top = {"app.py", "README.md", "LICENSE", "requirements.txt", "packages.txt"}
    assert set(hub.files) == top | below
    prompt = "vrthinker_core/protocols/prompts/paired_system.txt"
    assert {"assets/nano/config.json", prompt} <= below
