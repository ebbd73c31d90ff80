"""A model from the hub: progress, pause, going on where it was, and files that are compared with what the hub said of them."""

from __future__ import annotations

import hashlib
import os
import shutil
from itertools import product
from pathlib import Path

import pytest
from huggingface_hub import constants
from huggingface_hub.utils.sha import git_hash

from tests.support.fake_hub import fake_hub
from tests.support.waiting import PATIENCE_S, until
from vrthinker_core.backends import checkpoint_files, open_backend
from vrthinker_core.backends.checkpoint_files import (
    HUB_METADATA,
    check_files,
    is_downloaded,
    locate,
)
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


def run(download: Download) -> None:
    download.start()
    download.wait(PATIENCE_S)


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
        run(download)
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
        open_backend(f"hf:{NAME}")
    assert not slept


@pytest.mark.parametrize(
    ("wish", "missing"), [("device=xpu:99", "no device xpu:99"), ("quantize=4bit", "bitsandbytes")]
)
def test_a_wish_that_this_machine_cannot_grant_is_refused_before_the_hub_is_asked(
    wish: str, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vrthinker_core.backends.quantize.find_spec", lambda _: None)
    monkeypatch.setattr(checkpoint_files, "snapshot_download", None)  # it would not even be called
    with pytest.raises(CheckpointError, match=missing):
        open_backend(f"hf:{NAME}?{wish}")


def test_a_download_that_breaks_off_says_so_and_a_damaged_file_is_dropped(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"config.json": b"{}", "model.safetensors": b"weights"}
    with fake_hub(NAME, files) as hub:
        go_to(monkeypatch, hub.address)
        run(download := Download("someone/else"))
        assert "someone/else broke off" in download.said
        card, small = (hub.card("model.safetensors") | more for more in ({}, {"lfs": None}))
        monkeypatch.setattr(hub, "card", lambda path: card if "model" in path else small)
        hub.files = {"model.safetensors": b"damaged"}
        run(download := Download(NAME))
        assert "damaged" in download.said
    assert not [*cache.rglob("*.part")]


# -- what the hub said of a file -----------------------------------------------------------------------------------------

# The hub stores these apart from git, under their SHA-256
LARGE = ("model.safetensors", "tokenizer.json")


def etag(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha256(content).hexdigest() if path.name in LARGE else git_hash(content)


@pytest.fixture
def cached(checkpoint_folder: Path, tmp_path: Path) -> Path:
    """A snapshot in the hub's cache: links to blobs."""
    model = tmp_path / "models--someone--judge"
    snapshot = model / "snapshots" / "0123abcd"
    snapshot.mkdir(parents=True)
    (model / "blobs").mkdir()
    for path in checkpoint_folder.iterdir():
        shutil.copy(path, model / "blobs" / etag(path))
        (snapshot / path.name).symlink_to(Path("../../blobs") / etag(path))
    return snapshot


@pytest.fixture
def downloaded(checkpoint_folder: Path, copy: Path) -> Path:
    """A folder that was downloaded into (`local_dir`)."""
    (copy / HUB_METADATA).mkdir(parents=True)
    for path in checkpoint_folder.iterdir():
        said = f"{'0' * 40}\n{etag(path)}\n1700000000.0\n"
        (copy / HUB_METADATA / f"{path.name}.metadata").write_text(said)
    return copy


def flip(path: Path) -> None:
    """Change one bit that no other check sees: the lowest of a weight or of a space."""
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def test_what_is_as_the_hub_gave_it_passes(cached: Path, downloaded: Path) -> None:
    assert check_files(cached) == check_files(downloaded)


@pytest.mark.parametrize(
    ("place", "name"),
    [("cached", "generation_config.json"), *product(("cached", "downloaded"), LARGE)],
)
def test_a_changed_file_is_refused(place: str, name: str, request: pytest.FixtureRequest) -> None:
    folder: Path = request.getfixturevalue(place)
    flip((folder / name).resolve())
    judge = "someone/judge" if place == "cached" else "judge"
    said = f"^{name} of {judge} is not what the hub gave: its checksum differs."
    with pytest.raises(CheckpointError, match=said):
        check_files(folder)


def test_a_small_file_of_a_download_is_a_person_s_to_edit(downloaded: Path) -> None:
    (downloaded / "generation_config.json").write_text("{}")
    assert check_files(downloaded)


@pytest.mark.parametrize("text", ["", "no digest", "a\nb\nc\n", "\xff\n" * 3])
def test_metadata_that_says_nothing_is_passed_over(downloaded: Path, text: str) -> None:
    (downloaded / HUB_METADATA / "model.safetensors.metadata").write_text(text, "latin-1")
    flip(downloaded / "model.safetensors")
    assert check_files(downloaded)


# -- files that cannot be read -------------------------------------------------------------------------------------------


NAMES = ["config.json", "vrthinker.json", "model.safetensors", "model.safetensors.index.json"]


@pytest.mark.parametrize("name", [*NAMES, "model.safetensors with a checksum"])
def test_a_file_that_cannot_be_read_is_named_and_not_called_damaged(copy: Path, name: str) -> None:
    """It opens, and its first byte cannot be read: a failing disk."""
    if not Path("/proc/self/mem").exists():
        pytest.skip("needs Linux")
    name, _, checksum = name.partition(" ")
    if checksum:
        (copy / "vrthinker.json").write_text('{"sha256": {"model.safetensors": "0"}}')
    if name.endswith("index.json"):
        (copy / "model.safetensors").unlink()
    (copy / name).unlink(missing_ok=True)
    (copy / name).symlink_to("/proc/self/mem")
    with pytest.raises(CheckpointError, match=f"^{name} cannot be read: "):
        open_backend(f"hf:{copy}")


@pytest.mark.parametrize("source", ["a" * 5000, "~no-such-person/judge", "a\0b", "/" + "b/" * 3000])
def test_a_path_that_cannot_be_is_one_sentence(source: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        open_backend(f"hf:{source}")
    assert "\n" not in str(caught.value)
