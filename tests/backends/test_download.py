"""A model that is downloaded: progress, pause, and going on where it was."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from tests.support.fake_hub import fake_hub
from tests.support.waiting import PATIENCE_S, until
from vrthinker_core.backends import checkpoint_files
from vrthinker_core.backends.checkpoint import find_source
from vrthinker_core.backends.checkpoint_files import is_downloaded, locate
from vrthinker_core.backends.download import Download
from vrthinker_core.errors import CheckpointError

NAME = "someone/a-judge"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the hub, in small pieces."""
    for module in (constants, checkpoint_files):
        monkeypatch.setattr(module, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", 64 * 1024)
    return tmp_path / "hub"


def go_to(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    """Let the hub's client ask this server."""
    monkeypatch.setattr(constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


def test_a_download_pauses_and_goes_on_where_it_was(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights = os.urandom(4 * 2**20)
    files = {"config.json": b"{}", "model.safetensors": weights, "code.py": b"1 / 0"}
    with fake_hub(NAME, files, pause=0.02) as hub:
        go_to(monkeypatch, hub.address)
        download = Download(NAME)
        assert download.share is None
        download.start()
        until(lambda: download.got > 2**20)
        assert download.goes_on
        download.pause()
        download.wait(PATIENCE_S)
        (part,) = cache.rglob("*.part")
        came = part.stat().st_size
        assert 0 < came < len(weights)
        assert not download.goes_on
        assert not is_downloaded(NAME)
        hub.pause = 0.0
        download.start()
        download.wait(PATIENCE_S)
        assert download.said == ""
        assert hub.ranges == ["", f"bytes={came}-"]
        assert download.share == 1.0
        assert is_downloaded(NAME)
    folder = locate(NAME)
    assert (folder / "model.safetensors").read_bytes() == weights
    assert sorted(path.name for path in folder.iterdir()) == ["config.json", "model.safetensors"]


def test_a_hub_that_cannot_be_reached_is_asked_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", slept.append)
    go_to(monkeypatch, "http://127.0.0.1:9")
    with pytest.raises(CheckpointError, match="check the name and the connection"):
        find_source(NAME)
    assert not slept


@pytest.mark.parametrize(
    ("wish", "missing"),
    [({"device": "xpu:99"}, "no device xpu:99"), ({"bits": "4bit"}, "bitsandbytes")],
)
def test_what_this_machine_lacks_is_refused_before_the_hub_is_asked(
    wish: dict[str, Any], missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.backends.quantize.find_spec", lambda _: None)
    monkeypatch.setattr(checkpoint_files, "snapshot_download", None)  # it would not even be called
    with pytest.raises(CheckpointError, match=missing):
        find_source(NAME, **wish)


def test_a_download_that_breaks_off_says_so_and_a_damaged_file_is_dropped(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"config.json": b"{}", "model.safetensors": b"weights"}
    with fake_hub(NAME, files) as hub:
        go_to(monkeypatch, hub.address)
        download = Download("someone/else")
        download.start()
        download.wait(PATIENCE_S)
        assert "someone/else broke off" in download.said
        card = hub.card("model.safetensors")
        monkeypatch.setattr(
            hub, "card", lambda path: card if "model" in path else {**card, "lfs": None}
        )
        hub.files = {"model.safetensors": b"damaged"}
        download = Download(NAME)
        download.start()
        download.wait(PATIENCE_S)
        assert "damaged" in download.said
    assert not [*cache.rglob("*.part")]
