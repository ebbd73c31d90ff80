"""Processes of trainings: forks of one that has imported, once, what training takes; that is most of their time."""

from __future__ import annotations

import multiprocessing

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "tests.support.drawn_rollouts",
        "tests.training.random_judges",
        "torch._dynamo",
        "trl.trainer.grpo_trainer",
        "trl.trainer.sft_trainer",
        "vrthinker_core.cli",
    ]
)
