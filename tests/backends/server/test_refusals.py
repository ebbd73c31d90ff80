"""What a refusal means, in whatever words and place a server says it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.backends.server.support import failure_of
from vrthinker_core.errors import ContextFull


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"code": 400, "message": "the request exceeds the available context size (4096 tokens), try increasing it"}},
        {"error": {"code": 400, "message": "the request is too much for it", "type": "exceed_context_size_error"}},
        {"error": {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 200000 maximum"}},
        {"error": {"message": "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."}},
        {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000 `inputs` tokens"},
        {"error": {"message": "Your input exceeds the limit.", "param": "messages", "code": "context_length_exceeded"}},
    ],
    ids=["llama.cpp", "type", "Anthropic", "Gemini", "TGI", "code"],
)
def test_a_context_too_long_is_known_in_whatever_words_and_is_asked_once(body: Any) -> None:
    error, requests = failure_of(lambda handler, _: handler.send_json(400, body))
    assert (type(error), requests) == (ContextFull, 1)
