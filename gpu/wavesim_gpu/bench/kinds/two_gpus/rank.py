"""How ranks agree, and what of a case all parts of the measuring need.

Example: `agreed(error)` is the largest of all ranks' errors, on every rank, so that all take one way or none.
"""

import math
from collections.abc import Mapping
from typing import Any

import torch.distributed as dist

from wavesim.errors import DescriptionError
from wavesim.work.collective import Collective
from wavesim_gpu.bench.kinds.two_gpus.cases import Setting, SharedCase, relative_error
from wavesim_gpu.bench.kinds.two_gpus.variants import problem_of
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.peers.programs import SharedGemmProgram


def exchange(mine: Any) -> list[Any]:
    """Every rank's object, in their order."""
    told = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    return told


def agreed(number: float) -> float:
    """The largest of all ranks' numbers; NaN if any is."""
    told = exchange(number)
    return math.nan if any(math.isnan(entry) for entry in told) else max(told)


def told_error(error: float) -> float | None:
    """For JSON, which has no NaN."""
    return None if math.isnan(error) else error


def case_of(size: tuple[int, int, int], setting: Setting) -> SharedCase:
    """A shape of the setting's collective, in the first of its tiles."""
    return SharedCase(problem_of(size, Collective(setting.kind), setting.ranks), seed=size[0])


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
