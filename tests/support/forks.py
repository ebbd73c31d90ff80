"""Processes forked from one that has imported what they take: the imports are paid for once a run of tests."""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import forkserver, get_context
from multiprocessing.process import BaseProcess
from typing import Any
from unittest import mock

CONTEXT = get_context("forkserver")


class Forks:
    """A fork server of its own, for `multiprocessing` has one for all, with the modules of whoever came first."""

    def __init__(self, *modules: str) -> None:
        self._server = forkserver.ForkServer()
        self._server.set_forkserver_preload([*modules])

    def start(self, target: Callable[..., object], *arguments: Any) -> BaseProcess:
        """Start a process that calls `target`."""
        process = CONTEXT.Process(target=target, args=arguments)
        connect = self._server.connect_to_new_process
        with mock.patch.object(forkserver, "connect_to_new_process", connect):
            process.start()
        return process


PAGE = Forks("spaces", "vrthinker_core.ui.page")
TRAINING = Forks(
    "tests.support.drawn_rollouts",
    "tests.training.random_judges",
    "torch._dynamo",
    "trl.trainer.grpo_trainer",
    "trl.trainer.sft_trainer",
    "vrthinker_core.cli",
)
