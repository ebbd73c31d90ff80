"""The memory of a checkpoint: what it needs is known before it is loaded, and running out of it is named."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch

from tests.backends.checkpoint.test_checkpoint import refused
from tests.test_cli import write_control_group
from vrthinker_core.backends import checkpoint as loader, devices
from vrthinker_core.backends.devices import available_memory


def test_files_far_larger_than_the_model_are_refused_before_they_are_read(copy: Path) -> None:
    """A sparse safetensors file of 8 TiB takes no space on the disk."""
    shape = [2**20, 2**21]
    header = json.dumps(
        {"lm_head.weight": {"dtype": "F32", "shape": shape, "data_offsets": [0, 2**43]}}
    ).encode()
    with (copy / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        try:
            file.truncate(8 + len(header) + 2**43)
        except OSError:
            pytest.skip("this file system holds no file of that length")
    assert "is damaged: its files hold" in refused(copy)


def test_memory_that_runs_out_while_a_checkpoint_is_loaded_is_named(
    copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "check_statistics", lambda _: torch.empty(2**60))
    assert refused(copy) == "judge does not fit into memory."


VERSION_2 = {
    "memory.max": "3000000",
    "memory.current": "2500000",
    "memory.stat": "file 9\ninactive_file 100000\n",
}
VERSION_1 = {
    "memory/memory.limit_in_bytes": "3000000",
    "memory/memory.usage_in_bytes": "2500000",
    "memory/memory.stat": "inactive_file 7\ntotal_inactive_file 100000\n",
}


GROUPS = {
    "version 1": VERSION_1,
    "version 2": VERSION_2,
    "no group": {},
    "no limit": VERSION_2 | {"memory.max": "max"},
}


@pytest.mark.parametrize("name", GROUPS)
def test_memory_is_that_of_the_control_group_or_of_the_machine(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_control_group(monkeypatch, devices, tmp_path, GROUPS[name])
    free = available_memory("cpu")
    assert free > 2**20 if name.startswith("no") else free == 600_000
