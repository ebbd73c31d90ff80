"""The processes of one training: `accelerate launch` starts several, of which one writes the run's folder."""

import os
from dataclasses import dataclass
from datetime import timedelta

PATIENCE = timedelta(
    days=7
)  # A process may wait so long for another one, which plays rollouts meanwhile


@dataclass(frozen=True, slots=True)
class Processes:
    """How many there are, and which one this is."""

    count: int = 1
    number: int = 0

    @property
    def main(self) -> bool:
        """This one writes, and says how far the training is."""
        return self.number == 0

    @property
    def device(self) -> str | None:
        """The GPU that is this process's own; None where there is one process, or no GPU, and the judge may choose."""
        if self.count == 1:
            return None
        import torch

        return f"cuda:{os.environ.get('LOCAL_RANK', '0')}" if torch.cuda.is_available() else None

    def wait(self) -> None:
        """Until all of them have come here."""
        if self.count > 1:
            from torch import distributed

            distributed.barrier()

    def agreed(self, said: bool) -> bool:
        """What the main process said, in all of them; they call it together."""
        if self.count == 1:
            return said
        from accelerate.utils import broadcast_object_list

        answers: list[bool] = broadcast_object_list([said])
        return answers[0]


ALONE = Processes()


def world_size() -> int:
    """How many processes `accelerate launch` started, connected or not yet."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def launched_processes() -> Processes:
    """Those that `accelerate launch` started, connected; this one alone where nothing did."""
    if world_size() < 2:
        return ALONE
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available(), timeout=PATIENCE)
    return Processes(state.num_processes, state.process_index)
