"""The connection to a Ray cluster, how many judges it has room for, and what Ray is told so that nothing but results is printed."""

import logging
import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vrthinker_core.backends.judge_name import SERVED, parse_judge
from vrthinker_core.errors import BadInput

CPUS_PER_JUDGE = 4  # Where a model runs on processors, as far as a node has as many
CLIENT_PAIRS = 16  # Pairs that one process decodes and sends to a server at a time
CONNECT_SECONDS = 10.0  # until a cluster must have answered
OBJECT_STORE = (
    512 * 2**20
)  # Bytes, of a Ray that is started for one run; traces pass through it one by one

QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_BACKEND_LOG_LEVEL": "fatal"}
"""Environment of Ray: its C++ part writes on the terminal what it takes for an error; what stops a run is an exception besides."""


@dataclass(frozen=True, slots=True)
class Judges:
    """How the judges of a run are spread."""

    count: int  # Ray actors, each with a judge of its own
    live: int  # Pairs that each has in hand at a time
    cpus: float
    gpus: float = 0.0


def place_judges(
    judge: str | None, concurrency: int, pairs: int, nodes: list[dict[str, float]]
) -> Judges:
    """How many judges there is room for on `nodes`, each with what it has of "CPU" and "GPU". Raises BadInput for none.

    A model takes a GPU, or some processors where the cluster has no GPU, and has `concurrency` pairs in hand. Pairs for a server
    are `concurrency` in all, in as few processes as can decode and send so many.
    """
    cpus, gpus = (sum(int(node.get(kind, 0)) for node in nodes) for kind in ("CPU", "GPU"))
    kind = parse_judge(judge or "nano").kind
    if kind in SERVED:
        wanted = min(math.ceil(concurrency / CLIENT_PAIRS), pairs)
        count = max(1, min(wanted, cpus))
        return Judges(count, math.ceil(concurrency / count), 1.0 if cpus else 0.0)
    if gpus and kind != "scripted":
        return Judges(min(gpus, pairs), concurrency, 1.0 if cpus >= gpus else 0.0, 1.0)
    if not cpus:
        raise BadInput(
            "The cluster has no processor for a judge: start its nodes with --num-cpus, or add nodes."
        )
    share = min(
        1 if kind == "scripted" else CPUS_PER_JUDGE, max(int(node.get("CPU", 0)) for node in nodes)
    )
    return Judges(
        min(sum(int(node.get("CPU", 0)) // share for node in nodes), pairs), concurrency, share
    )


def absolute_choice(judge: str | None) -> str | None:
    """The judge's own files by their whole path: a node works in another folder."""
    name = parse_judge(judge or "nano")
    if name.kind not in ("scripted", "hf") or not Path(name.what).exists():
        return judge
    return str(replace(name, what=str(Path(name.what).absolute())))


@contextmanager
def connected(address: str | None) -> Iterator[list[dict[str, float]]]:
    """A Ray of its own for None, else the cluster at `address` ("auto": the one this machine belongs to); gives its nodes.

    A Ray that was started here is stopped at the end, a cluster is only left. Raises BadInput.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.data
    except ImportError:
        raise BadInput(
            "Ray is not installed: run pip install -e '.[cluster]' on every node."
        ) from None
    _silence()
    started = not ray.is_initialized()
    if started:
        _connect(address)
    try:
        yield [node["Resources"] for node in _nodes() if node["Alive"]]
    finally:
        if started:
            ray.shutdown()


def _nodes() -> list[dict[str, Any]]:
    import ray

    return list(ray.nodes())  # type: ignore[no-untyped-call] # Ray's own


def _connect(address: str | None) -> None:
    import ray
    from ray.exceptions import RayError

    own: dict[str, Any] = (
        {"include_dashboard": False, "object_store_memory": OBJECT_STORE} if address is None else {}
    )
    try:
        _check_reachable(address)
        with _without_stderr():
            ray.init(
                address=address or "local",
                log_to_driver=False,
                logging_level=logging.CRITICAL,
                **own,
            )
    except (RuntimeError, ValueError, OSError, OverflowError, RayError) as error:
        raise BadInput(_unreachable(address, first_line(error))) from None


def _check_reachable(address: str | None) -> None:
    """Raises OSError where nobody listens at HOST:PORT: Ray itself may wait there for ever."""
    host, _, port = (address or "").rpartition(":")
    if host and port.isdecimal() and "://" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()


def _unreachable(address: str | None, cause: str) -> str:
    if address is None:
        return f"Ray could not be started on this machine: {cause}"
    token = "and where it asks for a token set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN here, too"
    return f"Ray cannot be reached at {address}: start it with ray start --head, {token}. Cause: {cause}"


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Nothing reaches this process's standard error: when Ray starts, its C++ part says there how its own log was set."""
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _silence() -> None:
    """What Ray Data says on the terminal is for its own developers; its log files keep all of it."""
    for handler in logging.getLogger("ray.data").handlers:
        if isinstance(handler, logging.StreamHandler) and not isinstance(
            handler, logging.FileHandler
        ):
            handler.setLevel(logging.CRITICAL + 1)


def first_line(error: BaseException) -> str:
    """What Ray says of an error, as a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines or [type(error).__name__])[0][:300]
