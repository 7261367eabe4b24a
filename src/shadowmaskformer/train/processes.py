"""One process or many: what the loop needs to know about `torchrun`."""

from __future__ import annotations

import datetime
import os
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@dataclass(frozen=True)
class Processes:
    """This process among those that train together.

    Attributes:
        rank: its number; 0 writes files and prints.
        world: how many there are.
        device: where its share of the batch is computed.
        parent: the process that started it.
    """

    rank: int
    world: int
    device: torch.device
    parent: int = field(default_factory=os.getppid)

    @property
    def orphaned(self) -> bool:
        """Whether the `torchrun` that started this process is gone, so that nothing would end it."""
        return "TORCHELASTIC_RUN_ID" in os.environ and os.getppid() != self.parent

    @property
    def leads(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    def wrap(self, model: nn.Module) -> nn.Module:
        """Return `model` with gradients averaged over the processes."""
        if self.world == 1:
            return model
        return DistributedDataParallel(model, device_ids=[self.device] if self.device.type == "cuda" else None)

    def sum(self, *values: float) -> list[float]:
        """Return each value summed over the processes, the same in all of them."""
        if self.world == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.all_reduce(total)
        return total.tolist()

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.world > 1:
            dist.barrier()


@contextmanager
def join_processes() -> Generator[Processes]:
    """Yield the processes that `torchrun` started (NCCL with CUDA, else gloo), or this one alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))) if cuda else torch.device("cpu")
    if world == 1:
        yield Processes(0, 1, device)
        return
    if cuda:
        torch.cuda.set_device(device)
    # The leader decodes the data set and validates while the others wait.
    dist.init_process_group("nccl" if cuda else "gloo", timeout=datetime.timedelta(hours=2))
    try:
        yield Processes(dist.get_rank(), dist.get_world_size(), device)
    finally:
        dist.destroy_process_group()
