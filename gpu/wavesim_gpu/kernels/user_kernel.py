"""Kernels of a user's own, as `OwnKernel` describes them: compiled with their stage's generated header.

Example: `gpu/examples/own_stage.py` puts a kernel between two products and runs all three under every plan.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from wavesim.errors import DescriptionError
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.work.own_kernel import OwnKernel
from wavesim_gpu.driver.kernel_launch import KernelLaunch
from wavesim_gpu.kernels.stage_backend import OperandPlace, Scratch, StageBackend, combinations

PLACE = [("address", "<u8"), ("row_stride", "<i8")]


class UserKernelBackend(StageBackend):
    """A block per tile and split, one after another as the launch of the GPU's own grid would have them."""

    name = "own"
    source = Path(__file__)  # each kernel has its own, KernelLaunch.source
    works = (OwnKernel,)
    runs = combinations("tile")
    reasons: ClassVar = {"persistent": "a user's own kernel computes a tile per block"}

    def check(self, work: OwnKernel, plan: Plan | None = None) -> None:
        """Raises `DescriptionError` for a kernel without source or reference, or not to be launched early."""
        start = f"OwnKernel {work.name}:"
        if work.source is None or not work.expression or work.reference is None:
            raise DescriptionError(
                f"{start} on the GPU it needs a source, an expression and a reference; give all three"
            )
        if not work.source.is_file():
            raise DescriptionError(f"{start} source is {str(work.source)!r}, which is no file; give its path")
        if plan is not None and plan.launch.is_dependent and not work.is_launched_early:
            raise DescriptionError(
                f"{start} {plan.label} launches it before the kernel ahead has ended; call "
                "cusync::launch_dependents and wait_for_previous_grid in it and give "
                "is_launched_early=True, or "
                "use another launch"
            )

    def launch(self, work: OwnKernel, plan: Plan, device: Device) -> KernelLaunch:
        """As the work describes it."""
        self.check(work, plan)
        block = work.launch.block
        return KernelLaunch(
            work.expression,
            block.threads,
            block.dynamic_shared_bytes,
            work.launch.grid.size,
            source=work.source,
        )

    def stage_arguments(
        self, work: OwnKernel, plan: Plan, places: Mapping[str, OperandPlace], scratch: Scratch
    ) -> tuple[Any, ...]:
        """Address and row stride of every operand, in the order in which the work names them."""
        record = np.zeros(1, np.dtype([(name, PLACE) for name in work.operands]))[0]
        for name in work.operands:
            record[name]["address"] = places[name].address
            record[name]["row_stride"] = places[name].row_stride
        return (record,)

    def reference(self, work: OwnKernel, arrays: Mapping[str, Any]) -> Mapping[str, Any]:
        """The work's own."""
        assert work.reference is not None, "checked before any launch"
        return work.reference(arrays)
