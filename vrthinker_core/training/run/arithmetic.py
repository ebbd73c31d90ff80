"""What a processor computes fast."""

from functools import cache

import torch


@cache
def multiplies_bfloat16() -> bool:
    """Whether this processor multiplies matrices of bfloat16 well: one with AVX2 alone is quicker in float32, many times over."""
    known = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    return known and bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
