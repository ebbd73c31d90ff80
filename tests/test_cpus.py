"""How many processors this process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vrthinker_core import cpus

LIMITS: dict[str, tuple[dict[str, str], int]] = {
    "none": ({}, 8),
    "version 2": ({"cpu.max": "200000 100000\n"}, 2),
    "version 2, no limit": ({"cpu.max": "max 100000\n"}, 8),
    "version 2, more than there are": ({"cpu.max": "1600000 100000\n"}, 8),
    "version 1": ({"cpu/cpu.cfs_quota_us": "300000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3),
    "version 1, no limit": (
        {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"},
        8,
    ),
    "a half": ({"cpu.max": "50000 100000\n"}, 1),
    "one and a half": ({"cpu.max": "150000 100000\n"}, 2),
    "not readable": ({"cpu.max": "much\n"}, 8),
}


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="needs Linux")
@pytest.mark.parametrize(("files", "count"), LIMITS.values(), ids=LIMITS.keys())
def test_a_container_may_use_the_processors_it_is_given_time_for(
    files: dict[str, str], count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cpus, "CGROUP", tmp_path)
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert cpus.cpu_count() == count
