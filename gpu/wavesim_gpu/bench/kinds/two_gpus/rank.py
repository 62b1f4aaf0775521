"""What all parts of the measuring command need on a rank: what is asked of it, and how ranks agree.

Example: `agreed(error)` is the largest of all ranks' errors, on every rank, so that all take one way or none.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch.distributed as dist

from wavesim.errors import DescriptionError
from wavesim.model.collective import Collective
from wavesim.safe_io.writing import append_line
from wavesim_gpu.bench.kinds.two_gpus.cases import SharedCase, relative_error
from wavesim_gpu.bench.kinds.two_gpus.variants import problem_of
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.peers.programs import SharedGemmProgram


@dataclass(frozen=True)
class Setting:
    """What the command asks of each rank."""

    out: Path
    commit: str
    part: str
    sizes: tuple[tuple[int, int, int], ...]
    kind: str
    rounds: int
    calls: int
    meeting: str
    devices: tuple[int, ...] = (0, 1)  # by rank
    ways: tuple[str, ...] = ()  # of those that are timed, as the shell matches file names; all by default
    kraken: str = ""  # where its checkout is
    seconds: float = math.inf  # no shape is begun that would not end within it

    def takes(self, way: str) -> bool:
        """Whether a way is timed."""
        return not self.ways or any(fnmatchcase(way, one) for one in self.ways)

    @property
    def ranks(self) -> int:
        """How many processes."""
        return len(self.devices)


def exchange(mine: Any) -> list[Any]:
    """Every rank's object, in their order."""
    told = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    return told


def agreed(number: float) -> float:
    """The largest of all ranks' numbers; NaN if any is."""
    told = exchange(number)
    return math.nan if any(math.isnan(one) for one in told) else max(told)


def in_time(setting: Setting) -> Iterator[tuple[int, int, int]]:
    """Shapes, as long as the longest so far would still end in time; on all ranks the same ones."""
    began, longest = time.monotonic(), 0.0
    for size in setting.sizes:
        at = time.monotonic()
        if agreed(at - began + longest) > setting.seconds:
            return
        yield size
        longest = max(longest, time.monotonic() - at)


def told_error(error: float) -> float | None:
    """For JSON, which has no NaN."""
    return None if math.isnan(error) else error


def case_of(size: tuple[int, int, int], setting: Setting) -> SharedCase:
    """A shape of the setting's collective, in the first of its tiles."""
    return SharedCase(problem_of(size, Collective(setting.kind), setting.ranks), seed=size[0])  # type: ignore[arg-type]


def error_of(program: SharedGemmProgram, rank: int, expected: Any) -> float:
    """Of a call over poisoned outputs. Raises `DeadlockError` where a wait gave up."""
    program.poison()
    program.enqueue()
    program.check()
    return relative_error(require_cupy(), program.outs[rank], expected, program.problem.dtype)


def require_ways(ways: Mapping[str, Any], setting: Setting) -> None:
    """Raises `DescriptionError` where nothing has a name that was asked for."""
    if not ways:
        raise DescriptionError(
            f"--ways is {','.join(setting.ways)!r}; no way of {setting.kind} has such a name. Use "
            "sequence,fused or exchange*"
        )


def say(rank: int, setting: Setting, size: tuple[int, int, int], facts: Mapping[str, Any]) -> None:
    """Rank 0 adds a line to the results."""
    if rank == 0:
        line = {"part": setting.part, "size": size, "commit": setting.commit}
        line |= {"kind": setting.kind, "ways": setting.ways, **facts}
        append_line(setting.out, json.dumps(line))
        print(line, flush=True)  # noqa: T201  # for whoever watches
