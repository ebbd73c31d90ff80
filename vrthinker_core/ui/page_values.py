"""The latest value of each open page, of a bounded number of them."""

import threading
from collections import OrderedDict
from typing import Generic, TypeVar

MAX_PAGES = 400  # beyond them, the page whose value was put longest ago is forgotten

T = TypeVar("T")


class PageValues(Generic[T]):
    """By session id. Not saved; calls from several threads are safe."""

    def __init__(self) -> None:
        self._values: OrderedDict[str, T] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, session_id: str) -> T | None:
        """That page's value; None where there is none."""
        with self._lock:
            return self._values.get(session_id)

    def put(self, session_id: str, value: T) -> None:
        """It takes the place of the one before."""
        with self._lock:
            self._values[session_id] = value
            self._values.move_to_end(session_id)
            if len(self._values) > MAX_PAGES:
                self._values.popitem(last=False)

    def take(self, session_id: str) -> T | None:
        """That page's value, which is then forgotten."""
        with self._lock:
            return self._values.pop(session_id, None)
