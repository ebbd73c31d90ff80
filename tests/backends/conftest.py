"""One small random model and one built-in judge for all tests of this folder; no test modifies either."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vrthinker_core.backends import NANO, Backend, open_backend


@pytest.fixture(autouse=True, scope="session")
def single_torch_thread() -> Iterator[None]:
    """With several threads small matrices only wait for one another."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="module")
def no_certificates() -> Iterator[None]:
    """Loading those of all authorities takes two thirds of a short reply; no server here has one."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
        yield


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random checkpoint, undamaged. Change `copy` instead."""
    from tests.backends.support.random_model import write_random_checkpoint

    return write_random_checkpoint(tmp_path_factory.mktemp("checkpoints") / "small")


@pytest.fixture
def copy(checkpoint_folder: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return shutil.copytree(checkpoint_folder, tmp_path / "judge")


@pytest.fixture(scope="session")
def small(checkpoint_folder: Path) -> Backend:
    """A backend on the random checkpoint."""
    return open_backend(f"hf:{checkpoint_folder}")


@pytest.fixture(scope="session")
def stock(checkpoint_folder: Path) -> Any:
    """The same checkpoint, run by plain transformers."""
    from tests.backends.support.stock_transformers import StockModel

    return StockModel(checkpoint_folder)


@pytest.fixture(scope="session")
def nano() -> Backend:
    """A backend on the built-in judge."""
    return open_backend(f"hf:{NANO}")
