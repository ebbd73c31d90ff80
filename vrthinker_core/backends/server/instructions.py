"""The rules of a protocol in plain words, for an untrained model.

The protocol's own prompts stay as they are. These words make a general model answer in the
protocol's tags, for the same parser.
"""

from collections.abc import Sequence

from vrthinker_core.dialects.templates import prompt_text
from vrthinker_core.types.messages import Message

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
- To ask for more frames, end your reply with one line of this form, with 1 to 12 indices from 0 to 127:
<tool_call>{"name": "select_frames", "arguments": {"frame_indices": [10, 30, 60, 90]}}</tool_call>
- Then stop, and wait: the frames come as pictures in the next message, for each index first Video 1, then Video 2.
- To give the final judgment, end your reply with one line of this form:
<Answer>TA=1, VQ=1, MQ=0, OA=1</Answer>"""
)
"""Rules of the protocol `paired`."""

CONCAT_WORDS = (
    _COMMON.format(snapshot="<snapshot></snapshot>", think="<think></think>")
    + """
- The frames of both videos are ONE list: the first half of the numbers is Video 1, the second half Video 2.
- To ask for more frames, write your answer so far, with a confidence CF from 1 (low) to 5 (sure), then a call with 1 to 8 numbers:
<recommend answer>TA=0, VQ=1, MQ=0, OA=1, CF=2</recommend answer>
<tool_call>{"name": "select_frames", "arguments": {"target_frames": [5, 20, 53, 68]}}</tool_call>
- Then stop, and wait: the frames come as pictures in the next message, in the order of your numbers.
- To give the final judgment, end your reply with one line of this form:
<final answer>TA=1, VQ=1, MQ=0, OA=1</final answer>"""
)
"""Rules of the protocol `concat`."""


def instructions_for(messages: Sequence[Message]) -> str:
    """Return the rules of the protocol that the system prompt tells."""
    return (
        CONCAT_WORDS
        if messages and messages[0].text == prompt_text("concat_system")
        else PAIRED_WORDS
    )
