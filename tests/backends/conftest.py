"""One small random model and one built-in judge for all tests of this folder; no test modifies either."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.backends.support.random_model import write_random_checkpoint
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend


@pytest.fixture(autouse=True, scope="session")
def single_torch_thread() -> Iterator[None]:
    """With several threads small matrices only wait for one another."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def checkpoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random checkpoint, undamaged. Change `copy` instead."""
    return write_random_checkpoint(tmp_path_factory.mktemp("checkpoints") / "small")


@pytest.fixture
def copy(checkpoint_folder: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return shutil.copytree(checkpoint_folder, tmp_path / "judge")


@pytest.fixture(scope="session")
def small(checkpoint_folder: Path) -> TransformersBackend:
    """A backend on the random checkpoint."""
    return TransformersBackend.load(str(checkpoint_folder))


@pytest.fixture(scope="session")
def stock(checkpoint_folder: Path) -> StockModel:
    """The same checkpoint, run by plain transformers."""
    return StockModel(checkpoint_folder)


@pytest.fixture(scope="session")
def nano() -> TransformersBackend:
    """A backend on the built-in judge."""
    return TransformersBackend.load(str(NANO))
