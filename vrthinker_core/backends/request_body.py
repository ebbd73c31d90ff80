"""RequestForm: the body of a chat completion request, and its pictures."""

import base64
import hashlib
import io
import re
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import PIL.Image

from vrthinker_core.protocols import concat, paired
from vrthinker_core.protocols.base import prompt_text
from vrthinker_core.types import Frame
from vrthinker_core.types.messages import GeneratedText, Image, Message, Sampling, Text, Video

_COMMON = """

How to reply. You were not trained for this task, so follow these rules exactly. A program reads your reply.
- Each reply does ONE of two things: it asks for more frames, or it gives the final judgment. Never both.
- Start with what you see in the new frames, inside {snapshot}, then reason inside {think}.
- Write the tags literally, in plain text. Do not use Markdown, code fences, or any built-in tool or function interface of your own.
- Compare both videos fairly: which one is shown first says nothing. Judge only what the frames show.
- TA, VQ, MQ and OA are each 1 (Video 1 is better), 2 (Video 2 is better) or 0 (a tie). Give all four."""

PAIRED_WORDS = (
    _COMMON.format(snapshot="<Snapshot></Snapshot>", think="<Think></Think>")
    + """
- To ask for more frames, end your reply with one line of this form, with MANY indices from 0 to 127:
<tool_call>{"name": "select_frames", "arguments": {"frame_indices": FRAMES}}</tool_call>
- Then stop, and wait: the frames come as pictures in the next message, for each index first Video 1, then Video 2.
- To give the final judgment, end your reply with one line of this form:
<Answer>TA=1, VQ=1, MQ=0, OA=1</Answer>"""
)

CONCAT_WORDS = (
    _COMMON.format(snapshot="<snapshot></snapshot>", think="<think></think>")
    + """
- The frames of both videos are ONE list: the first half of the numbers is Video 1, the second half Video 2.
- To ask for more frames, write your answer so far, with a confidence CF from 1 (low) to 5 (sure), then a call with MANY numbers:
<recommend answer>TA=0, VQ=1, MQ=0, OA=1, CF=2</recommend answer>
<tool_call>{"name": "select_frames", "arguments": {"target_frames": FRAMES}}</tool_call>
- Then stop, and wait: the frames come as pictures in the next message, in the order of your numbers.
- To give the final judgment, end your reply with one line of this form:
<final answer>TA=1, VQ=1, MQ=0, OA=1</final answer>"""
)


CONFIDENCE = "The confidence levels range from high to low as 1, 2, and 3."
"""Only the wording `paper` says so."""


def instructions_for(messages: Sequence[Message], most_frames: int | None = None) -> str:
    """Return the rules of the protocol that the system prompt tells."""
    words, most, frames = PAIRED_WORDS, paired.MAX_PER_CALL, [10, 30, 60, 90]
    if messages and messages[0].text == prompt_text("concat_system"):
        words, most, frames = CONCAT_WORDS, concat.MAX_PER_CALL, [5, 20, 53, 68]
        if len(messages) > 1 and CONFIDENCE in messages[1].text:
            # The paper's teacher gets an example of two segments, which is taken out for training:
            # no trace keeps these rules. The example is ours.
            words = words.replace("from 1 (low) to 5 (sure)", "from 1 (sure) to 3 (low)")
            words += f"\n\n{prompt_text('concat_example')}"
    most = most_frames or most
    return words.replace("MANY", f"1 to {most}").replace("FRAMES", str(frames[:most]))


Feature = Literal[
    "special tokens",
    "logprobs",
    "usage",
    "usage so far",
    "seed",
    "temperature",
    "max_tokens",
    "picture ids",
    "video",
    "continue",
    "prefill",
    "text first",
    "system",
    "bmp",
    "webp",
]
"""An optional part of a request that some servers refuse."""

PLAIN: frozenset[Feature] = frozenset({"temperature", "max_tokens", "usage", "seed", "system"})
EVERYWHERE: frozenset[Feature] = PLAIN | {"special tokens", "logprobs"}
"""Tried with an unknown engine, such as `transformers serve`, until refused."""

BY_ENGINE: dict[str, frozenset[Feature]] = {
    "vllm": EVERYWHERE | {"usage so far", "picture ids", "video", "continue", "bmp", "webp"},
    "sglang": EVERYWHERE | {"continue", "bmp", "webp"},
    "llamacpp": PLAIN | {"logprobs", "prefill", "bmp"},
    "lmstudio": PLAIN,
    "ollama": PLAIN | {"logprobs"},
    "openai": PLAIN - {"max_tokens"} | {"logprobs"},
    "gemini": PLAIN,
    "openrouter": PLAIN | {"logprobs", "text first"},
    "hf-inference": PLAIN | {"logprobs"},
}
"""The features that each engine and each host takes. "bmp" is for a server on this machine."""

_NAMES: dict[Feature, str] = {
    "special tokens": r"skip_special_tokens|spaces_between_special_tokens",
    "logprobs": r"logprobs?",
    "usage": r"stream_options|include_usage",
    "usage so far": r"continuous_usage_stats",
    "seed": r"seed",
    "temperature": r"temperature",
    "max_tokens": r"max_tokens|max_completion_tokens",
    "picture ids": r"uuid|cache miss",
    "video": r"video(?:_url|\(s\)|s)?",
    "continue": r"continue_final_message|add_generation_prompt",
    "prefill": r"chat_template_kwargs|enable_thinking|prefill",
    "bmp": r"bmp|(?:image|media|mime)[ _-]?(?:type|format)s?",
    "webp": r"webp|(?:image|media|mime)[ _-]?(?:type|format)s?",
    "system": r"system (?:message|role|prompt|instruction)s?|(?:role|message)s?\W{0,9}system",
}
"""How a refusal names a feature."""


def fewer_features(features: frozenset[Feature], refusal: str) -> frozenset[Feature]:
    """Return the features without those that a refusal names.

    If the refusal names none, only features that hardly any server refuses stay.
    """
    named = {
        feature
        for feature, names in _NAMES.items()
        if re.search(rf"(?<!\w)(?:{names})(?!\w)", refusal, re.IGNORECASE)
    }
    if named & features:
        return features - named
    return features & {"temperature", "max_tokens", "text first", "system"}


CACHE_BYTES = 64 * 2**20  # Of a conversation's pictures: about 200 frames of 448 x 448 as PNG

PictureFormat = Literal["bmp", "webp", "png"]
FORMATS: dict[PictureFormat, dict[str, Any]] = {
    "bmp": {},
    "webp": {"lossless": True, "quality": 0, "method": 0},
    "png": {"compress_level": 1},
}
"""Formats without loss, the fastest first, and Pillow's options. A BMP is too large for a network; WebP
is faster and smaller than PNG."""


class PictureCache:
    """One conversation's pictures; `sent` holds the ids that the server has."""

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self.sent: set[str] = set()
        self._ids: dict[str, str] = {}
        self._encoded: OrderedDict[tuple[str, PictureFormat], str] = OrderedDict()
        self._max_bytes = max_bytes
        self._bytes = 0

    def picture_id(self, *frames: Frame) -> str:
        """Return an id of one picture, or video, equal for equal pixels only."""
        if len(frames) > 1:
            ids = "".join(map(self.picture_id, frames))
            return "vrt-" + hashlib.sha256(ids.encode()).hexdigest()
        (frame,) = frames
        if frame.key not in self._ids:
            size = f"{frame.width}x{frame.height}:".encode()
            self._ids[frame.key] = "vrt-" + hashlib.sha256(size + frame.rgb).hexdigest()
        return self._ids[frame.key]

    def encoded(self, frame: Frame, picture_format: PictureFormat) -> str:
        """Return a picture in base64; a full cache drops the least recently used."""
        key = frame.key, picture_format
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        encoded = self._encoded[key] = in_base64(frame.image, picture_format)
        self._bytes += len(encoded)
        while self._bytes > self._max_bytes and len(self._encoded) > 1:
            self._bytes -= len(self._encoded.popitem(last=False)[1])
        return encoded


def in_base64(picture: PIL.Image.Image, picture_format: PictureFormat) -> str:
    """Return a picture in base64."""
    buffer = io.BytesIO()
    picture.save(buffer, picture_format, **FORMATS[picture_format])
    return base64.b64encode(buffer.getvalue()).decode("ascii")


@dataclass(frozen=True, slots=True)
class RequestForm:
    """The form of the requests to one model."""

    model: str
    told: bool  # The model was trained for no protocol and is told the rules in words
    features: frozenset[Feature]

    def body(
        self,
        messages: Sequence[Message],
        sampling: Sampling,
        pictures: PictureCache,
        prefix: str = "",
        *,
        streams: bool = True,
    ) -> dict[str, Any]:
        """Return the arguments of `chat.completions.create`.

        Pictures that the server has are sent as their id alone. With `prefix` the reply continues
        after that text, for "continue" or "prefill". Without `streams` the reply comes whole: the client is
        given a stream of one chunk.
        """
        extra: dict[str, Any] = {} if streams else {"stream": False}
        if "special tokens" in self.features:
            extra |= {"skip_special_tokens": False, "spaces_between_special_tokens": False}
        if prefix and "continue" in self.features:
            extra |= {"continue_final_message": True, "add_generation_prompt": False}
        elif prefix:  # llama.cpp continues a last assistant message only if thinking is off
            extra |= {"chat_template_kwargs": {"enable_thinking": False}}
        rendered = self._render(messages, sampling.most_frames, pictures)
        if prefix:
            rendered.append({"role": "assistant", "content": prefix})
        options = {"model": self.model, "messages": rendered, "stream": True, "extra_body": extra}
        limit = "max_tokens" if "max_tokens" in self.features else "max_completion_tokens"
        options[limit] = sampling.max_new_tokens
        if "temperature" in self.features:
            options["temperature"] = sampling.temperature
        if "seed" in self.features:
            options["seed"] = sampling.seed
        if "logprobs" in self.features:
            # All three labels are among eight alternatives unless one is very unlikely
            options |= {"logprobs": True, "top_logprobs": 8}
        if "usage" in self.features and streams:
            so_far = {"continuous_usage_stats": True} if "usage so far" in self.features else {}
            options["stream_options"] = {"include_usage": True, **so_far}
        return options

    def _render(
        self, messages: Sequence[Message], most_frames: int | None, pictures: PictureCache
    ) -> list[dict[str, Any]]:
        rendered = [self._message(message, pictures) for message in messages]
        if messages[0].role != "system":
            return rendered
        if self.told:
            rendered[0]["content"] += instructions_for(messages, most_frames)
        if "system" not in self.features and len(messages) > 1:  # In front of the first message
            text, first = rendered[0]["content"], rendered[1]["content"]
            parts = [{"type": "text", "text": first}] if isinstance(first, str) else first
            front = {"type": "text", "text": f"{text}\n\n"}
            rendered[:2] = [{**rendered[1], "content": [front, *parts]}]
        return rendered

    def _message(self, message: Message, pictures: PictureCache) -> dict[str, Any]:
        """Render a message; without pictures a plain string, as chat templates expect."""
        if not message.frames:
            # Some servers refuse an empty reply of the judge's
            said = message.text if message.text or message.role != "assistant" else "(nothing)"
            return {"role": message.role, "content": said}
        content: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case Text(text) | GeneratedText(text):
                    content.append({"type": "text", "text": text})
                case Image(frame):
                    content.append(self._picture([frame], pictures))
                case Video(frames) if "video" in self.features and not self.told:
                    content.append(self._picture(frames, pictures, "video"))
                case Video(frames):  # Servers without video items take the frames in order
                    content += [self._picture([frame], pictures) for frame in frames]
        if "text first" in self.features:
            content.sort(key=lambda part: part["type"] != "text")
        return {"role": message.role, "content": content}

    def _picture(
        self, frames: Sequence[Frame], pictures: PictureCache, kind: str = "image"
    ) -> dict[str, Any]:
        known = pictures.picture_id(*frames) if "picture ids" in self.features else ""
        part: dict[str, Any] = {"type": f"{kind}_url", f"{kind}_url": None}
        if known not in pictures.sent:
            picture_format: PictureFormat = next(
                (name for name in FORMATS if name in self.features), "png"
            )
            # vLLM reads `video/jpeg` as pictures with commas between, in any picture format
            media = "video/jpeg" if kind == "video" else f"image/{picture_format}"
            data = ",".join(pictures.encoded(frame, picture_format) for frame in frames)
            part[f"{kind}_url"] = {"url": f"data:{media};base64,{data}"}
        return part | ({"uuid": known} if known else {})


def ids_in(body: dict[str, Any]) -> set[str]:
    """Return the ids of all pictures in a body."""
    contents = (message["content"] for message in body["messages"])
    parts = (part for content in contents if not isinstance(content, str) for part in content)
    return {part["uuid"] for part in parts if "uuid" in part}
