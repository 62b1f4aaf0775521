"""What a user would run instead: the strongest things that are not ours, as contenders."""

from typing import Any

from wavesim_gpu.driver.element_types import to_float32
from wavesim_gpu.run.operands import Operands, poison


class GemmOutputs:
    """What a chain of GEMMs has computed, by stage."""

    stream: Any
    outputs: dict[str, Any]
    operands: Operands

    def results(self) -> dict[str, Any]:
        """Float32."""
        stages = self.operands.pipeline.stage
        return {name: to_float32(array, stages(name).gemm.dtype) for name, array in self.outputs.items()}

    def spoil(self) -> None:
        """Overwrites what a run must write, in the stream's order."""
        poison(self.outputs, self.stream)
