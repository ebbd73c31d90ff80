"""What both halves of the small model share while they learn."""

from __future__ import annotations

import time
from itertools import islice
from threading import Event

import pytest

from vrthinker_core.training.base.half_training import made_ahead


@pytest.mark.parametrize("threads", [1, 2])
def test_batches_come_in_order_whichever_is_made_first(threads: int) -> None:
    def make(step: int) -> int:
        time.sleep(0.02 * (step % 2))
        return step

    with made_ahead(make, 5, threads) as batches:
        assert list(islice(batches, 6)) == [5, 6, 7, 8, 9, 10]


def test_two_threads_make_two_batches_at_once() -> None:
    begun = [Event(), Event()]

    def make(step: int) -> bool:
        if step > 1:
            return True
        begun[step].set()
        return begun[1 - step].wait(10)

    with made_ahead(make, 0, 2) as batches:
        assert list(islice(batches, 2)) == [True, True]
