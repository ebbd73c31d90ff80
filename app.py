"""The page: `python app.py`, or a Hugging Face Space.

`python app.py --help` lists the options. The server answers only this machine. To answer others,
use `--host 0.0.0.0` and `--name`; behind a proxy `--name` and `--root-path`.
"""

import spaces  # isort: skip - before anything that may touch CUDA

import argparse
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from vrthinker_core.backends.devices import borrows_gpu, gpu_seconds
from vrthinker_core.backends.judge_name import JUDGE_FORMS, JudgeGroup, parse_judge
from vrthinker_core.errors import BadInput, os_errors
from vrthinker_core.storage import owned_folder, usable_folder
from vrthinker_core.system import allow_open_files
from vrthinker_core.ui.chooser import GROUPS, PUBLIC
from vrthinker_core.ui.fetch import ANY_ADDRESS, PUBLIC_ONLY
from vrthinker_core.ui.history import KEEP_SECONDS, MAX_BYTES, History
from vrthinker_core.ui.judges import JudgeLoader, judge_openers, naming_gpu_errors
from vrthinker_core.ui.page import EXAMPLES, Page
from vrthinker_core.ui.runs_tab import ListedRuns
from vrthinker_core.ui.visitors import Visitors, cookie_key


def number(kind: type[int] | type[float], least: int, most: int) -> Callable[[str], float]:
    """Return a parser of numbers in a range; raises `argparse.ArgumentTypeError`."""

    def parse(text: str) -> float:
        with suppress(ValueError):
            if least <= (found := kind(text)) <= most:
                return found
        whole = "whole " if kind is int else ""
        raise argparse.ArgumentTypeError(f"{text!r} is no {whole}number from {least} to {most}")

    return parse


def root_path(text: str) -> str:
    """Return "/PATH", the whole address, or "", without a slash at the end."""
    plain = text.strip().strip("/")
    return plain if "://" in plain or not plain else f"/{plain}"


def groups(text: str) -> tuple[JudgeGroup, ...]:
    """Parse the kinds of judges of `--offer`; raises `argparse.ArgumentTypeError`."""
    named = re.findall(r"[^\s,]+", text)
    if unknown := {*named} - {*GROUPS}:
        known = ", ".join(GROUPS)
        raise argparse.ArgumentTypeError(f"{min(unknown)!r} is none of {known}")
    return tuple(each for each in GROUPS if each in named)


def folder(text: str) -> Path:
    """Return a folder that can be listed; raises `BadInput`."""
    with os_errors(f"Cannot read the folder {text}", " Name a folder that is there."):
        os.scandir(text).close()
    return Path(text)


def options() -> argparse.Namespace:
    """Read the command line; `VRTHINKER_JUDGE` names the judges by default. Raises `BadInput`."""
    parser = argparse.ArgumentParser(
        description="VR-Thinker: which of two videos follows the prompt better, and why."
    )
    add, amount = parser.add_argument, number(float, 0, 1_000_000)
    add(
        "--judge",
        action="append",
        help=f"{JUDGE_FORMS}; repeat to offer several, the default first (default: the best here)",
    )
    add(
        "--offer",
        type=groups,
        help="judges to choose on the page, of demo, local, servers, hosted; local and servers are "
        "shown on this machine only (default: all there, else demo,hosted)",
    )
    add("--host", help="address to listen on (default: this machine only)")
    add(
        "--port",
        type=number(int, 1, 65535),
        help="port to listen on (default: the first free one from 7860)",
    )
    add(
        "--name",
        action="append",
        default=[],
        help="another host name of this server besides localhost; may be repeated",
    )
    add(
        "--root-path",
        type=root_path,
        default=os.environ.get("GRADIO_ROOT_PATH", ""),
        help="path below which a proxy serves the page, as in /judge, or its whole address",
    )
    add(
        "--behind-proxy",
        type=number(int, 0, 9),
        metavar="N",
        default=os.environ.get("VRTHINKER_BEHIND_PROXY", "0"),
        help="proxies in front of this server: the last N of X-Forwarded-For are believed "
        "(default: none)",
    )
    add("--at-once", type=number(int, 1, 1000), default=1, help="runs at once (default: 1)")
    add(
        "--waiting",
        type=number(int, 0, 100_000),
        default=24,
        help="visitors who may wait for the judge; further ones are refused (default: %(default)s)",
    )
    add(
        "--local-addresses",
        action="store_true",
        help="allow video addresses in your own network (never on a public server)",
    )
    add("--runs-folder", type=Path, help="visitors' runs (default: vr-thinker/runs in your cache)")
    add(
        "--keep-hours",
        type=amount,
        default=KEEP_SECONDS / 3600,
        help="hours to keep a run; 0 keeps none (default: %(default)g)",
    )
    add(
        "--keep-gb",
        type=amount,
        default=MAX_BYTES / 1e9,
        help="GB for runs and their videos; the oldest are deleted first (default: %(default)g)",
    )
    add(
        "--after-leaving",
        type=amount,
        default=30.0,
        help="seconds that a run continues after its page is closed (default: %(default)g)",
    )
    add(
        "--runs",
        type=folder,
        help="folder of an evaluation or of traces that every visitor may browse",
    )
    add("--examples", type=folder, default=EXAMPLES, help="example runs (default: %(default)s)")
    chosen = parser.parse_args()
    chosen.judge = chosen.judge or re.findall(r"[^\s,]+", os.environ.get("VRTHINKER_JUDGE", ""))
    for judge in chosen.judge:
        parse_judge(judge)
    return chosen


def find_address(host: str, port: int) -> None:
    """Raise `OSError` or `UnicodeError` if no address can be bound."""
    refused = OSError()
    for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                return
        except OSError as error:
            refused = error
    raise refused


def check_address(host: str | None, port: int | None) -> None:
    """Raise `BadInput` if the page cannot be served there."""
    try:
        # Gradio looks for a free port on this machine, whatever the host
        for name in ((host or "127.0.0.1").strip("[]"), "127.0.0.1"):
            find_address(name, port or 0)
    except (OSError, UnicodeError) as error:
        given = {"--host": host, "--port": port}
        place = " ".join(f"{name} {value}" for name, value in given.items() if value)
        raise BadInput(
            f"The page cannot be served at {place}: {getattr(error, 'strerror', error)}. Choose another one."
        ) from None


def serve(chosen: argparse.Namespace, folder: Path, ended: threading.Event) -> None:
    """Serve the page until it has `ended`; visitors' files stay below `folder`."""
    allow_open_files()  # before any process starts, because processes inherit the limit
    os.environ["GRADIO_TEMP_DIR"] = str(folder / "uploads")
    # With a custom domain, `SPACE_HOST` holds both names, separated by a comma.
    names = [*chosen.name, *re.findall(r"[^\s,]+", os.environ.get("SPACE_HOST", ""))]
    on_space = bool(os.environ.get("SPACE_ID"))
    judges = JudgeLoader(judge_openers(chosen.judge), in_thread=not borrows_gpu())
    on_gpu = spaces.GPU(duration=lambda job: gpu_seconds(job.settings))(judges.run_job)
    run_job = naming_gpu_errors(on_gpu, judges.get, judges.run_job)
    public = bool(names or "://" in chosen.root_path)
    hops = int(chosen.behind_proxy) or (-1 if on_space else 0)
    offered = (PUBLIC if public or hops else GROUPS) if chosen.offer is None else chosen.offer
    policy = ANY_ADDRESS if chosen.local_addresses else PUBLIC_ONLY
    store = usable_folder(chosen.runs_folder) if chosen.keep_hours else None
    if store is None and chosen.keep_hours:
        print(
            "No folder for runs can be written, so runs are lost when this server ends. Name one with --runs-folder."
        )
    runs = ListedRuns(chosen.runs.absolute()) if chosen.runs else None
    if runs is not None:
        runs.refresh()
        if runs.said:
            print(runs.said)
    kept, ours = store or folder / "runs", (folder / "uploads").resolve()
    seconds, most = 3600 * chosen.keep_hours, round(1e9 * chosen.keep_gb)
    visitors = Visitors(cookie_key(kept), hops, public=public)
    page = Page(
        judges,
        run_job,
        folder,
        History(kept, seconds, most, lambda path: path.is_relative_to(ours)),
        visitors,
        at_once=chosen.at_once,
        waiting=chosen.waiting,
        examples=chosen.examples,
        policy=policy,
        runs=runs,
        offered=offered,
        after_leaving=chosen.after_leaving,
    )
    if on_space:
        judges.wait_all()  # the process with the GPU is forked and has only weights loaded before
    try:
        place = {"server_name": chosen.host, "server_port": chosen.port}
        address = page.launch(names, on_space, chosen.root_path, **place)
        # Flushed, because a log file is no terminal: its buffer would keep the address
        token = "" if on_space else f"?token={visitors.token}"
        print(f"The page is at {address}{token} (Ctrl+C ends it).", flush=True)
        while not ended.wait(0.2):  # An endless wait misses a signal that another thread gets
            pass
    finally:
        page.close()


def main() -> None:
    """Serve from a temporary folder, which is removed at the end."""
    ended = threading.Event()

    def end(*_: object) -> None:
        # Later signals must not interrupt the removal of files
        if not ended.is_set():
            ended.set()
            sys.exit(0)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        with owned_folder("vr-thinker-page-") as folder:
            chosen = options()
            check_address(chosen.host, chosen.port)
            serve(chosen, folder, ended)
    except BadInput as refusal:
        print(refusal, file=sys.stderr)
        sys.exit(2)
    except SystemExit as status:
        if status.code:
            raise
    # Python's own end aborts if a thread is still opening a judge: torch calls terminate
    for worker in multiprocessing.active_children():
        worker.terminate()
    with suppress(AttributeError, OSError):  # Standard output may be closed
        sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
