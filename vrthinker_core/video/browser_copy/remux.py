"""Copying of packets into an MP4 without decoding."""

import io
from collections.abc import Sequence

import av

from vrthinker_core.video.frames.container import VideoSource


def remux(source: VideoSource, times: Sequence[int]) -> io.BytesIO | None:
    """Return the copy as an MP4 with its first frame at 0.

    `times` are the packet timestamps in stored order. Returns None if the packets do not fit into
    an MP4.
    """
    copy = io.BytesIO()
    first, decoding = min(times), decoding_times(times)
    try:
        source.reopen()
        with av.open(copy, "w", format="mp4") as output:
            stream = output.add_stream_from_template(source.stream)
            packets = (packet for packet in source.container.demux(source.stream) if packet.size)
            for packet, pts, dts in zip(packets, times, decoding, strict=True):
                source.budget.check()
                packet.pts, packet.dts, packet.stream = pts - first, dts - first, stream
                output.mux(packet)
    except MemoryError:
        raise
    except (av.FFmpegError, ValueError):
        return None
    return copy


def decoding_times(times: Sequence[int]) -> list[int]:
    """Return decoding timestamps for presentation timestamps in stored order.

    They ascend and are never later than the presentation timestamps. Some containers store none.
    """
    ascending = sorted(times)
    delay = max(dts - pts for dts, pts in zip(ascending, times, strict=True))
    return [pts - delay for pts in ascending]
