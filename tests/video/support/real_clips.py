"""The real clips of the folder that VRT_CLIPS names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.slow import slow

TELLING = {
    *("ax_iibbibb_editlist_videoonly.mp4", "ax_invalid-bitstream.webm", "ax_sample_h264.ts"),
    *("ax_sample_android_slow_motion.mp4", "ax_sample_audio_only.mp4", "dc_corrupted.mp4"),
    *("ax_sample_missing_stsd.mp4", "ax_sample_rotate_and_reflect.mp4", "dc_unordered.mov"),
    *("dc_video_90.mov", "mp_circle.gif", "mp_no_duration.webm", "oh_BA_MW_D_IDR_LOST.264"),
    *(
        "pil_decompression_bomb.gif",
        "pil_iss634.webp",
        "tc_h265_10bits.mp4",
        "wm_simple_block.webm",
    ),
}
REAL_CLIPS = [
    pytest.param(path, id=path.name, marks=[] if path.name in TELLING else slow)
    for path in sorted(Path(os.environ.get("VRT_CLIPS", os.devnull)).glob("*"))
    if path.suffix != ".json"
]
"""The telling ones, and with VRT_SLOW=1 all others."""
