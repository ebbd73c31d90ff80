"""Real servers of the built-in judge: `transformers serve`, and vLLM where `VRT_VLLM` names a folder with it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.loopback_server import free_port
from vrthinker_core.backends import NANO

VARIABLE = "VRT_VLLM"
NO_VLLM = f"{VARIABLE} names no folder with a virtual environment in which vLLM is installed"
STARTING_SECONDS = 600  # vLLM takes minutes on two processors

# What vLLM needs without a GPU; elsewhere it ignores these.
ENVIRONMENT = {
    "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1",
}  # fmt: skip
VLLM_OPTIONS = (
    "--served-model-name", "nano", "--max-model-len", "4096", "--limit-mm-per-prompt", '{"image": 128}', "--enforce-eager",
    "--dtype", "float32",
)  # fmt: skip


def vllm_program(folder: str | None = None) -> Path | None:
    """The program in that folder, or in the one that the variable names; None where there is none."""
    chosen = folder or os.environ.get(VARIABLE, "")
    program = Path(chosen) / "bin" / "vllm"
    return program if chosen and program.exists() else None


@contextmanager
def vllm_serving(program: Path, log: Path, options: Sequence[str] = ()) -> Iterator[str]:
    """vLLM with the built-in judge; gives the address."""
    port = free_port()
    command = [str(program), "serve", str(NANO), "--host", "127.0.0.1", "--port", str(port)]
    command += [*VLLM_OPTIONS, *options]
    with _running(command, {**os.environ, **ENVIRONMENT}, log, f"http://127.0.0.1:{port}"):
        yield f"http://127.0.0.1:{port}/v1"


@contextmanager
def transformers_serving(folder: Path) -> Iterator[str]:
    """`transformers serve` with a copy of the built-in judge in `folder`; gives the address and the model, `URL#MODEL`."""
    copy = folder / "nano"
    shutil.copytree(NANO, copy)
    shutil.copy(Path(__file__).with_name("picture_processor.py"), copy)
    found = {"AutoProcessor": "picture_processor.PictureProcessor"}
    classes = {"processor_class": "PictureProcessor", "auto_map": found}
    (copy / "processor_config.json").write_text(json.dumps(classes))
    port = free_port()
    command = [sys.executable, "-W", "ignore", "-m", "transformers.cli.transformers"]
    command += ["serve", str(copy), "--trust-remote-code"]
    command += ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)]
    offline = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(folder / "cache"), "OMP_NUM_THREADS": "1"}
    environment = os.environ | offline
    with _running(command, environment, folder / "log.txt", f"http://127.0.0.1:{port}"):
        yield f"http://127.0.0.1:{port}/v1#{copy}"


@contextmanager
def _running(
    command: Sequence[str], environment: dict[str, str], log: Path, address: str
) -> Iterator[None]:
    """A server in a process group of its own, which ends as a whole."""
    with log.open("w") as output:
        how: Any = {"stdout": output, "stderr": output, "start_new_session": True}
        process = subprocess.Popen(command, env=environment, **how)
    try:
        _wait_until_ready(process, address, log)
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _wait_until_ready(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + STARTING_SECONDS
    while time.monotonic() < end:
        if process.poll() is not None:
            said = log.read_text("utf-8", "replace")[-600:]
            raise RuntimeError(f"The server ended before it was ready: {said}")
        try:
            if httpx.get(f"{address}/health", timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.5)
    raise RuntimeError(f"The server was not ready after {STARTING_SECONDS} s.")
