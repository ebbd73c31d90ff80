"""Timed checkpoints of a transformers trainer, whole or not there.

A save takes seconds to minutes, and a process may be killed meanwhile. So a mark is written last.
A checkpoint without a mark is removed.
"""

import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from logging import ERROR
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast
from transformers import PrinterCallback, Qwen2_5_VLForConditionalGeneration, TrainerCallback

from vrthinker_core.backends.checkpoint import quiet_transformers
from vrthinker_core.backends.devices import is_out_of_memory
from vrthinker_core.errors import BadInput
from vrthinker_core.storage import write_atomically
from vrthinker_core.training.metrics import StepMetrics

MARK = "whole"  # A file with the subject of the training
NO_SERVER = (
    "The vLLM server cannot be reached: start it at grpo.vllm_server_base_url, and go on with "
    "--resume."
)
NO_MEMORY = (
    "There is too little memory for a step. The last whole checkpoint is there: go on with "
    "--resume where there is more, or begin anew with a smaller batch or "
    "gradient_checkpointing=true; GRPO also with grpo.lora or grpo.vllm_mode."
)


@contextmanager
def quiet_libraries() -> Iterator[None]:
    """Silence transformers' progress bars and warnings."""
    with quiet_transformers(ERROR), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rsplit("-", 1)[1])


def train_and_save(
    trainer: Any,
    subject: str,
    minutes: float,
    report: Callable[[StepMetrics], bool | None],
    every: int = 1,
) -> None:
    """Train from the last whole checkpoint on, and save one every `minutes`.

    A checkpoint, and a stop, comes after a multiple of `every` steps. `report` hears of each step,
    without its stage and seconds; True ends the training. `subject` names the training data. Raises
    BadInput if a checkpoint is of another subject, and as `train_from`.
    """
    folder, whole = Path(trainer.args.output_dir), []
    # Once, in a folder that all nodes share
    with trainer.args.main_process_first(local=False):
        for path in folder.glob("checkpoint-*"):
            if not (path / MARK).exists():
                shutil.rmtree(path)
            elif (path / MARK).read_text("utf-8") != subject:
                raise BadInput(
                    f"The checkpoints in {folder.parent} are of a training with other data: give "
                    "these as they were, or name a new folder with --out."
                )
            else:
                whole.append(path)
    begun = max(whole, key=_step, default=None)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(TimedCheckpoints(folder, subject, minutes, report, every))
    train_from(trainer, begun)


def train_from(trainer: Any, begun: Path | None) -> None:
    """Train, from the checkpoint `begun` if there is one.

    A trainer restores optimizer, schedule, data order and random state, but not the weights of a
    Qwen2.5-VL that is not sharded: `save_pretrained` wrote them with the published names, the
    trainer looks for the model's own names, finds none, and only warns. So they are loaded here.

    Raises BadInput for too little memory and a lost server, OSError and SafetensorError.
    """
    sharded = trainer.is_fsdp_enabled or trainer.is_deepspeed_enabled
    if begun and not sharded and (begun / "config.json").is_file():
        model = trainer.accelerator.unwrap_model(trainer.model)
        stock: Any = Qwen2_5_VLForConditionalGeneration
        model.load_state_dict(
            stock.from_pretrained(begun, dtype=model.dtype, local_files_only=True).state_dict()
        )
    try:
        trainer.train(resume_from_checkpoint=str(begun) if begun else None)
    except OSError as error:
        # TRL's client is of requests
        if isinstance(error, ConnectionError) or type(error).__module__.startswith("requests"):
            raise BadInput(NO_SERVER) from error
        raise
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise BadInput(NO_MEMORY) from error
        if "inline_container" in str(error) or "PytorchStreamWriter" in str(error):
            raise OSError(None, "a file was cut short") from error  # As torch says of a full disk
        raise


@dataclass(eq=False)
class TimedCheckpoints(TrainerCallback):
    """Saves every `minutes`, marks whole checkpoints, and keeps the last two.

    Calls `report` after each step in the main process; True ends the training with a checkpoint.
    """

    folder: Path
    subject: str
    minutes: float
    report: Callable[[StepMetrics], bool | None]
    every: int = 1
    saved: float = field(default_factory=time.monotonic, init=False)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: object) -> None:
        """Ask for a due checkpoint; the first process decides for all."""
        due = int(time.monotonic() - self.saved >= 60 * self.minutes)
        due = int(broadcast(torch.tensor(due, device=args.device)))
        if due and state.global_step < state.max_steps and state.global_step % self.every == 0:
            control.should_save = True

    def on_save(self, args: Any, state: Any, control: Any, **_: object) -> None:  # noqa: ARG002
        """Mark the new checkpoint, then remove all but the last two."""
        self.saved = time.monotonic()
        if args.world_size > 1:
            torch.distributed.barrier()
        if not state.is_world_process_zero:
            return
        checkpoint = self.folder / f"checkpoint-{state.global_step}"
        write_atomically(checkpoint / MARK, self.subject.encode())
        for old in sorted(self.folder.glob("checkpoint-*"), key=_step)[:-2]:
            shutil.rmtree(old)

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: object) -> None:
        """Report a step, which ends with its log."""
        if not logs or "loss" not in logs:
            return
        figures = {name: logs.get(name) for name in ("learning_rate", "entropy", "kl")}
        step = StepMetrics("", state.global_step, 0.0, logs["loss"], **figures)
        said = state.is_world_process_zero and bool(self.report(step))
        # All processes end together, or the others would wait
        stops = int(broadcast(torch.tensor(int(said), device=args.device)))
        if stops and state.global_step % self.every == 0:
            control.should_training_stop = control.should_save = True
