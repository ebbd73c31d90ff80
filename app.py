"""The page: `python app.py`, or a Hugging Face Space.

    python app.py                                    the best judge this machine can run
    python app.py --judge nano                       the built-in judge
    python app.py --judge hf:ID_OR_PATH --port 7861  a checkpoint of your own
    python app.py --judge server:URL#MODEL           a judge behind an OpenAI-compatible address
    python app.py --judge hf:ID_OR_PATH --judge nano visitors choose between both; the first one is the default
    python app.py --runs DIR                         an evaluation, or any traces, row by row

Only this machine is served unless `--host 0.0.0.0` says otherwise; then name the server with `--name`.
"""

import spaces  # isort: skip - before anything that may touch CUDA

import argparse
import os
import re
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from vrthinker_core.backends.borrowed_gpu import borrows_gpu
from vrthinker_core.backends.judge_name import JUDGE_FORMS
from vrthinker_core.files.atomic_file import owned_folder
from vrthinker_core.files.open_files import allow_open_files
from vrthinker_core.ui.fetch.public_addresses import ANY_ADDRESS, PUBLIC_ONLY
from vrthinker_core.ui.history.history import Keeping
from vrthinker_core.ui.history.store_folder import usable_folder
from vrthinker_core.ui.page.app import MAX_WAITING, Page, PageOptions
from vrthinker_core.ui.runs.listed_runs import ListedRuns
from vrthinker_core.ui.sessions.judge_loader import JudgeLoader, judge_openers
from vrthinker_core.ui.sessions.zero_gpu import gpu_seconds, naming_gpu_errors
from vrthinker_core.ui.view.assets import EXAMPLES


def amount(text: str) -> float:
    """A number from 0 to a million. Raises argparse.ArgumentTypeError."""
    with suppress(ValueError):
        if 0 <= (number := float(text)) <= 1e6:
            return number
    raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to 1000000")


def whole(least: int, most: int) -> Callable[[str], int]:
    """The type of an option that is a whole number from `least` to `most`; for others it raises argparse.ArgumentTypeError."""

    def parse(text: str) -> int:
        with suppress(ValueError):
            if least <= (number := int(text)) <= most:
                return number
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")

    return parse


def options() -> argparse.Namespace:
    """The command line's options; the judges also from VRTHINKER_JUDGE."""
    parser = argparse.ArgumentParser(
        description="VR-Thinker: which of two videos follows the prompt better, and why."
    )
    parser.add_argument(
        "--judge",
        action="append",
        help=f"{JUDGE_FORMS}; give it again to offer several, the default first",
    )
    parser.add_argument("--host", help="address to listen on (default: this machine only)")
    parser.add_argument(
        "--port",
        type=whole(1, 65535),
        help="port to listen on (default: the first free one from 7860)",
    )
    parser.add_argument(
        "--name",
        action="append",
        default=[],
        help="a host name the server goes by, besides localhost",
    )
    parser.add_argument(
        "--at-once", type=whole(1, 1000), default=1, help="judges that may think at the same time"
    )
    parser.add_argument(
        "--waiting",
        type=whole(0, 100_000),
        default=MAX_WAITING,
        help="visitors that may wait for the judge; later ones are turned away",
    )
    parser.add_argument(
        "--local-addresses",
        action="store_true",
        help="web addresses of videos may lead into your own network (never for a server that strangers use)",
    )
    add_keeping(parser)
    parser.add_argument(
        "--runs",
        type=Path,
        help="an evaluation (its --out folder) or a folder of traces that every visitor may look through",
    )
    parser.add_argument(
        "--examples", type=Path, default=EXAMPLES, help="folder of saved runs that the page offers"
    )
    chosen = parser.parse_args()
    chosen.judge = chosen.judge or re.findall(r"[^\s,]+", os.environ.get("VRTHINKER_JUDGE", ""))
    return chosen


def add_keeping(parser: argparse.ArgumentParser) -> None:
    """The options that say how visitors' runs are kept."""
    usual = Keeping()
    parser.add_argument(
        "--runs-folder",
        type=Path,
        help="where visitors' runs are kept (default: in your cache folder)",
    )
    parser.add_argument(
        "--keep-hours",
        type=amount,
        default=usual.seconds / 3600,
        help="how long a run is kept; 0 keeps none",
    )
    parser.add_argument(
        "--keep-gb",
        type=amount,
        default=usual.max_bytes / 1e9,
        help="how many GB runs and their videos may take; the oldest go first",
    )
    parser.add_argument(
        "--after-leaving",
        type=amount,
        default=usual.after_leaving,
        help="seconds that a run goes on whose page was closed, to be found again",
    )


def find_address(host: str, port: int) -> None:
    """Raises OSError, or UnicodeError, where no address of the host can be listened on."""
    refused: OSError | None = None
    for family, kind, _, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            with socket.socket(family, kind) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                return
        except OSError as error:
            refused = error
    if refused is not None:
        raise refused


def check_address(host: str | None, port: int | None) -> None:
    """Raises SystemExit with one sentence where the page cannot be served there: Gradio would try for minutes."""
    try:
        find_address((host or "127.0.0.1").strip("[]"), port or 0)
        find_address(
            "127.0.0.1", port or 0
        )  # where Gradio looks whether the port is free, whatever the host
    except (OSError, UnicodeError) as error:
        place = " ".join(
            f"--{name} {value}" for name, value in (("host", host), ("port", port)) if value
        )
        sys.exit(
            f"The page cannot be served at {place}: {getattr(error, 'strerror', error)}. Choose another one."
        )


def store_folder(chosen: argparse.Namespace) -> Path | None:
    """Where runs are kept; None, with a sentence, where they only can be as long as the server runs."""
    folder = usable_folder(chosen.runs_folder) if chosen.keep_hours else None
    if folder is None and chosen.keep_hours:
        print(
            "No folder for runs can be written, so they end with this server. Name one with --runs-folder."
        )
    return folder


def listed_runs(folder: Path) -> ListedRuns:
    """The folder whose runs the page lists; what keeps it from that now is said here, and on the page."""
    runs = ListedRuns(folder.absolute())
    runs.refresh()
    if runs.said:
        print(runs.said)
    return runs


def serve(chosen: argparse.Namespace, folder: Path) -> None:
    """Serve the page until it is interrupted; all files of visitors stay below `folder`."""
    allow_open_files()  # before any process is started, which takes its limit over
    os.environ["GRADIO_TEMP_DIR"] = str(folder / "uploads")
    names = [
        *chosen.name,
        *re.findall(r"[^\s,]+", os.environ.get("SPACE_HOST", "")),
    ]  # with a custom domain, both, between commas
    judges = JudgeLoader(judge_openers(chosen.judge), in_thread=not borrows_gpu())
    run_job = naming_gpu_errors(spaces.GPU(duration=gpu_seconds)(judges.run_job), judges.get)
    policy = ANY_ADDRESS if chosen.local_addresses else PUBLIC_ONLY
    keeping = Keeping(
        store_folder(chosen),
        3600 * chosen.keep_hours,
        round(1e9 * chosen.keep_gb),
        chosen.after_leaving,
    )
    runs = listed_runs(chosen.runs) if chosen.runs else None
    page = Page(
        judges,
        run_job,
        folder,
        PageOptions(chosen.at_once, chosen.waiting, chosen.examples, policy, keeping, runs),
    )
    if os.environ.get("SPACE_ID"):
        judges.wait_all()  # the process that holds the GPU is forked: it has only what was loaded before
    try:
        page.blocks().launch(
            server_name=chosen.host,
            server_port=chosen.port,
            **page.launch_options(names, bool(os.environ.get("SPACE_ID"))),
        )
    finally:
        page.close()


def main() -> None:
    """Serve from a temporary folder, which is removed at the end, also after SIGTERM; after SIGKILL by the next start."""
    signal.signal(signal.SIGTERM, _exit)
    with owned_folder("vr-thinker-page-") as folder:
        chosen = options()
        check_address(chosen.host, chosen.port)
        serve(chosen, folder)


def _exit(*_: object) -> NoReturn:
    signal.signal(
        signal.SIGTERM, signal.SIG_IGN
    )  # a second signal must not interrupt the removal of files
    sys.exit(0)


if __name__ == "__main__":
    main()
