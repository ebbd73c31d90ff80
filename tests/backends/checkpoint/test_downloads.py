"""Files that came from the hub are compared with what the hub said of them; files that cannot be read are named."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest
from huggingface_hub.utils.sha import git_hash

from vrthinker_core.backends import open_backend
from vrthinker_core.backends.checkpoint_files import HUB_METADATA, check_files, tensor_shapes
from vrthinker_core.errors import CheckpointError

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
        (copy / HUB_METADATA / f"{path.name}.metadata").write_text(
            f"{'0' * 40}\n{etag(path)}\n1700000000.0\n"
        )
    return copy


def flip(path: Path) -> None:
    """Change one bit where no other check sees it: the lowest of a weight or of a space."""
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


def test_what_is_as_the_hub_gave_it_passes(cached: Path, downloaded: Path) -> None:
    assert check_files(cached) == check_files(downloaded)


CHANGED = [("cached", name) for name in (*LARGE, "generation_config.json")]
CHANGED += [("downloaded", name) for name in LARGE]


@pytest.mark.parametrize(("place", "name"), CHANGED)
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


@pytest.fixture(params=["a failing disk", "permissions"])
def unreadable(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file that exists and cannot be read."""
    path = tmp_path / "unreadable"
    if request.param == "permissions":
        path.touch(0)
        if os.access(path, os.R_OK):
            pytest.skip("root may read every file")
    elif Path("/proc/self/mem").exists():
        path.symlink_to("/proc/self/mem")  # it opens, and its first byte cannot be read
    else:
        pytest.skip("needs Linux")
    return path


NAMES = ["config.json", "vrthinker.json", "model.safetensors", "model.safetensors.index.json"]


@pytest.mark.parametrize("name", [*NAMES, "model.safetensors with a checksum"])
def test_a_file_that_cannot_be_read_is_named(copy: Path, unreadable: Path, name: str) -> None:
    name, _, checksum = name.partition(" ")
    if checksum:
        (copy / "vrthinker.json").write_text('{"sha256": {"model.safetensors": "0"}}')
    if name.endswith("index.json"):
        (copy / "model.safetensors").unlink()
    (copy / name).unlink(missing_ok=True)
    unreadable.rename(copy / name)
    with pytest.raises(CheckpointError, match=f"^{name} cannot be read: "):
        open_backend(f"hf:{copy}")


def test_weights_that_cannot_be_read_are_not_called_damaged(unreadable: Path) -> None:
    with pytest.raises(CheckpointError, match=r"^unreadable cannot be read: "):
        tensor_shapes(unreadable)


@pytest.mark.parametrize("source", ["a" * 5000, "~no-such-person/judge", "a\0b", "/" + "b/" * 3000])
def test_a_path_that_cannot_be_is_one_sentence(source: str) -> None:
    with pytest.raises(CheckpointError) as caught:
        open_backend(f"hf:{source}")
    assert "\n" not in str(caught.value)
