"""On ZeroGPU a GPU is only imitated where judges are opened: with the real `spaces`, they are opened on it all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.backends.support.random_model import write_random_checkpoint

OPEN = """
import sys
import torch
# What a build for GPUs has, and this one may lack
torch.version.cuda = torch.version.cuda or "12.8"
torch._C._cuda_init, torch._C._cuda_getDeviceCount = (lambda: None), (lambda: 1)
torch._C._cuda_getCurrentRawStream = lambda device: 0
torch.cuda._is_in_bad_fork, torch.cuda._cudart = bool, object()
import spaces
from vrthinker_core.backends.local.checkpoint import loader
from vrthinker_core.ui.sessions.judge_loader import JudgeLoader, judge_openers

loader.SMALL_MODEL_WEIGHTS = 0  # else so small a model stays on the processor

judges = JudgeLoader(judge_openers(["hf:" + sys.argv[1]]), in_thread=False)
model = judges.get().loaded.model
print({each.device.type for each in (*model.parameters(), *model.buffers())}, model.dtype)
judges.close()
"""


def test_a_checkpoint_is_opened_on_the_gpu_that_is_imitated(tmp_path: Path) -> None:
    write_random_checkpoint(tmp_path / "judge")
    environment = {
        **os.environ,
        "SPACES_ZERO_GPU": "true",
        "SPACES_ZERO_DEVICE_API_URL": "http://127.0.0.1:9",
        "OMP_NUM_THREADS": "1",
    }
    command = [sys.executable, "-c", OPEN, str(tmp_path / "judge")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip().splitlines()[-1] == "{'cuda'} torch.bfloat16"
