"""`python -m tests -p tests.support.clock`: the time of each module of tests, of its processes and servers too.

Two columns: seconds of the processor, and seconds that a worker was busy or waiting. Before the first test: imports and collection.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

SHOWN = 40
BEFORE, AFTER = "imports and collection", "after the last test"


def processor_seconds() -> float:
    """Of this process and all that it started, those that ended and were waited for included."""
    total = 0.0
    here = psutil.Process()
    for process in (here, *here.children(recursive=True)):
        try:
            total += sum(process.cpu_times()[:4])
        except psutil.NoSuchProcess:
            continue
    return total


class Clock:
    """In a worker: sums up what passed since the last change of modules."""

    def __init__(self) -> None:
        self.module = BEFORE
        self.processor: Counter[str] = Counter()
        self.wall: Counter[str] = Counter()
        self.cases: Counter[str] = Counter()
        self.since = (0.0, psutil.Process().create_time())

    def change(self, module: str) -> None:
        now = processor_seconds(), time.time()
        self.processor[self.module] += max(0, now[0] - self.since[0])
        self.wall[self.module] += now[1] - self.since[1]
        self.module, self.since = module, now

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        module = item.nodeid.partition("::")[0]
        if module != self.module:
            self.change(module)
        self.cases[module] += 1
        return (yield)

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        self.change(AFTER)
        result = yield
        self.change(AFTER)
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["clock"] = [dict(self.processor), dict(self.wall), dict(self.cases)]
        return result


class Table:
    """In the process that a person started: all workers' sums, the dearest first."""

    def __init__(self) -> None:
        self.sums: list[Counter[str]] = [Counter(), Counter(), Counter()]

    def pytest_testnodedown(self, node: Any) -> None:
        for total, part in zip(self.sums, node.workeroutput["clock"], strict=True):
            total.update(part)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        processor, wall, cases = self.sums
        folders: list[Counter[str]] = [Counter(), Counter(), Counter()]
        for total, folder in zip(self.sums, folders, strict=True):
            for module, number in total.items():
                folder[str(Path(*Path(module).parts[:2])) if "/" in module else module] += number
        terminalreporter.section("seconds of the processor, of a worker; cases")
        for rows in (folders, self.sums):
            for name, seconds in rows[0].most_common(SHOWN):
                terminalreporter.line(
                    f"{seconds:8.1f} {rows[1][name]:8.1f} {rows[2][name]:6} {name}"
                )
            terminalreporter.line("")
        terminalreporter.line(
            f"{sum(processor.values()):8.1f} {sum(wall.values()):8.1f} {sum(cases.values()):6} all"
        )


def pytest_configure(config: pytest.Config) -> None:
    worker = hasattr(config, "workerinput")
    config.pluginmanager.register(Clock() if worker else Table(), "clock of the tests")
