"""A MoE layer on the GPU: three to five launches, fewer for few tokens or with both products in one.

Example: `MoeLaunch(shape, addresses, plan)` encodes the tensor maps once; `enqueue(stream)` puts a call on a
stream, also while a graph is captured from it. The host never learns how the tokens were routed.
"""

from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import DeadlockError, DescriptionError, DeviceError
from wavesim.plan.launch import DependentLaunch
from wavesim.plan.plan import Plan
from wavesim.plan.policy import RowSync
from wavesim.plan.schedule import Persistent
from wavesim.plan.sync import Semaphores
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.driver.functions import Function, load_function
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended
from wavesim_gpu.kernels.gemm.sm90.gemm_sm90 import require_hopper
from wavesim_gpu.kernels.moe.parameters import MoeAddresses, down_record, gate_up_record, routing_record
from wavesim_gpu.kernels.moe.shape import MoeShape

ROUTING_SOURCE, GROUPED_SOURCE = (Path(__file__).with_name(name) for name in ("routing.cu", "grouped.cu"))
LIMIT_NS = 30_000_000_000
REPORT = np.dtype([("kind", "<u4"), ("index", "<i4"), ("value", "<i4"), ("awaited", "<i4")])
ID_OUT_OF_RANGE = 1
COMBINE_QUADS = 128
PLANS = (
    Plan(Persistent()),
    Plan(Persistent(), DependentLaunch()),
    Plan(Persistent(), DependentLaunch(), Semaphores(RowSync())),
    Plan(Persistent(fused=True), sync=Semaphores(RowSync())),
)


MANY_ROWS = 768  # of an expert, on average


def usual_plan(shape: MoeShape) -> Plan:
    """What was fastest on an H200: both products in one kernel; with very many rows kernel after kernel."""
    return PLANS[0] if shape.slots > MANY_ROWS * shape.experts else PLANS[-1]


class MoeLaunch:
    """A call with all its parameters. Raises `DescriptionError` for a plan that it has no kernels for."""

    def __init__(
        self,
        shape: MoeShape,
        addresses: MoeAddresses,
        plan: Plan,
        *,
        build: Build | None = None,
        limit_ns: int = LIMIT_NS,
    ) -> None:
        if plan not in PLANS:
            known = ", ".join(known.name for known in PLANS)
            raise DescriptionError(f"plan is {plan.name!r}; a MoE layer runs under {known}")
        device = query()
        require_hopper("moe", device)
        self.shape, self.build = shape, build or Build()
        routing = routing_record(shape, addresses)
        gate_up = gate_up_record(shape, addresses, plan, limit_ns)
        down = down_record(shape, addresses, plan, limit_ns)
        is_early = plan != PLANS[0]
        parts = -(-(shape.hidden // 8) // COMBINE_QUADS)
        before = [("moe_route", 1024, 1), ("moe_gather", 256, shape.tokens)]
        if shape.is_few:
            before = [("moe_route_few", 256, shape.tokens)]
        self._launches = [self._small(*launch, routing, is_early=is_early) for launch in before]
        if plan.schedule.is_fused:
            self._launches.append(self._grouped("moe_experts", (gate_up, down), device.sm_count, is_early))
        else:
            self._launches.append(self._grouped("moe_gate_up", (gate_up,), device.sm_count, is_early))
            self._launches.append(self._grouped("moe_down", (down,), device.sm_count, is_early))
        self._launches.append(
            self._small("moe_combine", COMBINE_QUADS, parts * shape.tokens, routing, is_early=is_early)
        )

    def enqueue(self, stream: Any) -> None:
        """One call, on CuPy's stream."""
        for function, launch, arguments in self._launches:
            launch_extended(function.function, launch, arguments, stream)

    def _small(
        self, name: str, threads: int, blocks: int, record: Any, *, is_early: bool
    ) -> tuple[Function, KernelLaunch, tuple[Any, ...]]:
        function = load_function(ROUTING_SOURCE, name, self.build)
        return function, KernelLaunch(name, threads, 0, blocks, is_dependent=is_early), (record,)

    def _grouped(
        self, name: str, records: tuple[Any, ...], sm_count: int, is_early: bool
    ) -> tuple[Function, KernelLaunch, tuple[Any, ...]]:
        config = self.shape.config
        expression, shared = f"{name}<{config.name}>", config.dynamic_shared_bytes
        function = load_function(GROUPED_SOURCE, expression, self.build, shared)
        if not function.blocks_per_sm(config.threads, shared):
            raise DeviceError(
                f"{expression} needs {shared} bytes of shared memory a block; this GPU has less"
            )
        launch = KernelLaunch(expression, config.threads, shared, sm_count, is_dependent=is_early)
        return function, launch, records


class MoeReport:
    """The first failure of any call since it was last looked at, on the current GPU."""

    def __init__(self) -> None:
        self._array = require_cupy().zeros(REPORT.itemsize // 4, "uint32")
        require_cupy().cuda.Device().synchronize()

    @property
    def address(self) -> int:
        """Of the device's record."""
        return int(self._array.data.ptr)

    def check(self, top_k: int = 1) -> None:
        """Waits for the GPU. Raises `DescriptionError` for an id out of range, `DeadlockError` for a wait."""
        require_cupy().cuda.Device().synchronize()
        (record,) = np.asarray(self._array.get(), np.uint32).view(REPORT)
        if not record["kind"]:
            return
        self._array[:] = 0
        require_cupy().cuda.Device().synchronize()
        raise failure_of(record)


def failure_of(record: Any) -> DescriptionError | DeadlockError:
    """What the device wrote, as the error that it stands for."""
    index, value, awaited = (int(record[name]) for name in ("index", "value", "awaited"))
    if record["kind"] == ID_OUT_OF_RANGE:
        return DescriptionError(
            f"topk_ids: element {index}, counted row by row, is {value}; the layer has experts 0 to "
            f"{awaited - 1}. That token's result is NaN: give ids in this range"
        )
    return DeadlockError(
        detail=f"MoE layer: a down tile waited too long for the gate-up tiles of its rows, semaphore {index} "
        f"(saw {value}, awaited {awaited}); its rows are NaN. Is the GPU shared with another program?"
    )
