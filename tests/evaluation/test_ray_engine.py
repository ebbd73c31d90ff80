"""Pairs judged on a Ray cluster: a real one on loopback, with two judges in processes of their own."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.loopback_server import free_port
from tests.support.small_clips import write_clip
from tests.support.waiting import until
from tests.test_judge import ANSWER, CALL
from vrthinker_core.backends import open_backend
from vrthinker_core.errors import BadInput, JudgeError
from vrthinker_core.evaluation.local_engine import judge_locally
from vrthinker_core.evaluation.ray_engine import connected, judge_on_ray, place_judges
from vrthinker_core.results.layout import EvaluationPair, pair_id
from vrthinker_core.results.result import TRACES, PairResult
from vrthinker_core.traces import load
from vrthinker_core.types import Settings

PAIRS = 12
SETTINGS = Settings(swap="on")
LOOPBACK = "127.0.0.2"  # For 127.0.0.1 Ray puts the address that other machines reach this one at
STORE = 80 * 2**20  # Bytes, a little more than the least that Ray takes


@pytest.fixture(autouse=True, scope="module")
def token() -> Iterator[None]:
    """The clusters of these tests take a token of their own. Ray reads it once, when it is imported: before the first test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "token")
        patch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(16))
        yield
    for handler in logging.root.handlers:
        handler.setLevel(logging.NOTSET)  # pytest's own, which are silenced with those of Ray Data


@pytest.fixture(scope="module")
def cluster(token: None) -> Iterator[str]:
    """The address of a head node with two processors: room for two judges with a script. All tests are connected to it."""
    node_files = tempfile.mkdtemp(prefix="ray-")  # The path of a socket must be short
    address = f"{LOOPBACK}:{free_port()}"
    words = f"start --head --block --node-ip-address={LOOPBACK} --port={address.partition(':')[2]} --num-cpus=2 --num-gpus=0"
    more = f"--object-store-memory={STORE} --include-dashboard=false --disable-usage-stats --include-log-monitor=false"
    command = [sys.executable, "-m", "ray.scripts.scripts", *words.split(), *more.split()]
    command.append(f"--temp-dir={node_files}")
    environment = {**os.environ, "TMPDIR": node_files}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as head:
        try:
            assert any("Ray runtime started" in line for line in head.stdout), "Ray ended"
            with connected(address):
                yield address
        finally:
            _kill_tree(head)
            shutil.rmtree(node_files, ignore_errors=True)


def _kill_tree(head: subprocess.Popen[str]) -> None:
    """The head first, for it ends its children when it sees one gone: any of them may be gone before its turn comes."""
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(head.pid).children(recursive=True)
        head.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[EvaluationPair]:
    """Small clips; the same two in each pair, the other way round in every second one."""
    folder = tmp_path_factory.mktemp("pairs")
    clips = [str(write_clip(folder / f"{hue}.mp4", 8, 32, 32, hue)) for hue in (0, 80)]
    pairs = []
    for row in range(1, PAIRS + 1):
        named = (f"Block {row} glides.", *clips[:: 1 if row % 2 else -1])
        pairs.append(EvaluationPair(pair_id(*named), row, *named))
    return pairs


@pytest.fixture
def out(tmp_path: Path) -> Path:
    (tmp_path / TRACES).mkdir()
    return tmp_path


def script(folder: Path, *replies: str, pause: float = 0.0) -> str:
    """The judge that gives these replies."""
    path = folder / "script.jsonl"
    path.write_text("\n".join(json.dumps({"reply": reply, "pause": pause}) for reply in replies))
    return f"scripted:{path}"


def untimed(results: list[PairResult]) -> dict[str, PairResult]:
    """By their ids, without the times; none comes twice."""
    assert len({result.pair.id for result in results}) == len(results)
    return {result.pair.id: replace(result, seconds=0.0) for result in results}


def workers(address: str) -> list[psutil.Process]:
    """The processes of the judges on the cluster of these tests."""
    judges = (process for process in psutil.process_iter() if "ClusterJudge" in _command(process))
    port = address.partition(":")[2]
    return [process for process in judges if port in _command(process.parent())]


def _command(process: psutil.Process | None) -> str:
    try:
        return " ".join(process.cmdline()) if process else ""
    except psutil.Error:
        return ""


def on_ray(
    pairs: list[EvaluationPair], out: Path, address: str, judge: str, **how: Any
) -> Iterator[PairResult]:
    chosen = {"settings": SETTINGS, "concurrency": 1, **how}
    return judge_on_ray(pairs, judge=judge, out=out, address=address, **chosen)


def test_where_no_cluster_answers_is_one_sentence(pairs: list[EvaluationPair], out: Path) -> None:
    with socket.socket() as bound:  # and nobody listens
        bound.bind((LOOPBACK, 0))
        address = f"{LOOPBACK}:{bound.getsockname()[1]}"
        told = f"Ray cannot be reached at {address}: start it with ray start --head"
        with pytest.raises(BadInput, match=told):
            list(on_ray(pairs, out, address, "nano"))


def test_a_cluster_gives_the_table_of_one_process_though_a_judge_is_killed(
    cluster: str, pairs: list[EvaluationPair], tmp_path: Path, out: Path
) -> None:
    here = tmp_path / "here"
    (here / TRACES).mkdir(parents=True)
    local = list(judge_locally(pairs, open_backend(script(here, CALL, ANSWER)), SETTINGS, here, 4))
    missing = replace(pairs[0], id="absent", second=str(tmp_path / "absent.mp4"))
    judge = script(out, CALL, ANSWER, pause=0.02)
    running = on_ray([missing, *pairs], out, cluster, judge, concurrency=2)
    before = [next(running), next(running)]
    until(lambda: len(workers(cluster)) == 2)
    workers(cluster)[0].kill()
    results = untimed([*before, *running])
    failed = results.pop("absent")
    assert results == untimed(local)
    assert {result.turns for result in local} == {2}
    assert (failed.judged, failed.fault, failed.pair) == (False, "BackendFailed", missing)
    assert "absent.mp4: share the folder" in failed.error
    kept = [load(out / result.trace) for result in local]
    assert all([turn.completion.text for turn in trace.turns] == [CALL, ANSWER] for trace in kept)
    assert all(trace.swapped and trace.swapped.finished for trace in kept)
    assert len(list((out / TRACES).iterdir())) == PAIRS


def test_a_judge_that_does_not_open(cluster: str, pairs: list[EvaluationPair], out: Path) -> None:
    (out / "empty.jsonl").write_text("")
    judge = f"scripted:{out / 'empty.jsonl'}"
    with pytest.raises(JudgeError, match=r"The script empty\.jsonl holds no replies\.") as told:
        list(on_ray(pairs[:1], out, cluster, judge))
    assert "\n" not in str(told.value)


def test_without_ray_the_engine_says_what_to_install(
    pairs: list[EvaluationPair], out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(BadInput, match=r"pip install -e '\.\[cluster\]'"):
        next(on_ray(pairs, out, "nobody:1", "nano"))
    assert not list(on_ray([], out, "nobody:1", "nano")), "no pairs need no cluster"


TWO_NODES = [{"CPU": 16.0, "GPU": 2.0, "memory": 1e9}, {"CPU": 16.0, "GPU": 1.0, "memory": 1e9}]
PROCESSORS = [{"CPU": 16.0}, {"CPU": 6.0}]


@pytest.mark.parametrize(
    ("judge", "nodes", "pairs", "count", "live", "gpus"),
    [
        (None, TWO_NODES, 1000, 3, 8, 1.0),
        ("hf:some/judge", TWO_NODES, 2, 2, 8, 1.0),
        ("nano", PROCESSORS, 1000, 5, 8, 0.0),
        ("server:http://one:8000/v1#judge", TWO_NODES, 1000, 1, 8, 0.0),
        ("openai:a-model", TWO_NODES, 1000, 1, 8, 0.0),
        ("scripted:file", [{"CPU": 2.0, "GPU": 1.0}], 1000, 2, 8, 0.0),
    ],
)
def test_a_model_has_a_gpu_or_some_processors(
    judge: str | None, nodes: list[dict[str, float]], pairs: int, count: int, live: int, gpus: float
) -> None:
    placed = place_judges(judge, 8, pairs, nodes)
    assert (placed.count, placed.live, placed.gpus) == (count, live, gpus)


@pytest.mark.parametrize("concurrency", [1, 16, 17, 64, 1000])
def test_pairs_for_a_server_are_so_many_in_all(concurrency: int) -> None:
    placed = place_judges("server:http://one:8000/v1#judge", concurrency, 26_500, TWO_NODES)
    assert concurrency <= placed.count * placed.live < concurrency + placed.count
    assert placed.count <= 32


def test_a_cluster_without_processors_takes_no_judge() -> None:
    with pytest.raises(BadInput, match="no processor"):
        place_judges("nano", 8, 10, [{"memory": 1e9}])
