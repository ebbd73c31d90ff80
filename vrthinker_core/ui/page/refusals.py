"""Why a page was refused a place in the waiting room: the event that follows a refusal asks for it, and says it."""

import threading
from collections import OrderedDict

MAX_PAGES = 400  # beyond them, the page that was refused longest ago is forgotten


class Refusals:
    """The latest refusal of each page that has not said it yet. Calls from several threads are safe."""

    def __init__(self) -> None:
        self._sentences: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def put(self, session_id: str, sentence: str) -> None:
        """That page was refused."""
        with self._lock:
            self._sentences[session_id] = sentence
            self._sentences.move_to_end(session_id)
            if len(self._sentences) > MAX_PAGES:
                self._sentences.popitem(last=False)

    def take(self, session_id: str) -> str:
        """Why that page was refused, which is then forgotten; "" where nothing is known of it."""
        with self._lock:
            return self._sentences.pop(session_id, "")
