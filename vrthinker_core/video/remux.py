"""The same packets in an MP4: nothing is decoded, so nothing is lost."""

from __future__ import annotations

import io

import av

from vrthinker_core.video.container import Source
from vrthinker_core.video.limits import Budget


def remux(source: Source, first: int, budget: Budget) -> io.BytesIO | None:
    """The copy, its first frame (timestamp `first`) at 0; None when the packets do not fit into an MP4 after all."""
    copy = io.BytesIO()
    try:
        source.reopen()
        with av.open(copy, "w", format="mp4") as output:
            stream = output.add_stream_from_template(source.stream)
            for packet in source.container.demux(source.stream):
                if not packet.size:
                    continue
                budget.check()
                assert packet.pts is not None
                assert packet.dts is not None
                packet.pts, packet.dts, packet.stream = packet.pts - first, packet.dts - first, stream
                output.mux(packet)
    except MemoryError:
        raise
    except (av.FFmpegError, ValueError):
        return None
    return copy
