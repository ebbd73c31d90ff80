"""One small random model and one built-in judge for all tests of this folder; no test changes either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.backends.support.random_model import write_random_checkpoint
from tests.backends.support.stock_transformers import StockModel
from vrthinker_core.backends import NANO
from vrthinker_core.backends.transformers_local import TransformersBackend


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Small matrices only wait for one another on several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random checkpoint, whole. Copy it before changing it."""
    return write_random_checkpoint(tmp_path_factory.mktemp("checkpoints") / "small")


@pytest.fixture(scope="session")
def small(folder: Path) -> TransformersBackend:
    return TransformersBackend.load(str(folder))


@pytest.fixture(scope="session")
def stock(folder: Path) -> StockModel:
    return StockModel(folder)


@pytest.fixture(scope="session")
def nano() -> TransformersBackend:
    return TransformersBackend.load(str(NANO))
