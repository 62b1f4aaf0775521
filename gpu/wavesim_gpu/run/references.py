"""What a pipeline's buffers must hold after a run: each stage's float32 reference from those of its
producers.

Example: a stage that reads fp16 gets its producers' results rounded to fp16, as they are stored. What a later
stage writes over an earlier one's output is expected in both.
"""

from collections.abc import Mapping
from typing import Any

from wavesim.model.buffers import Buffer, buffers_of, uses_of
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.element_types import TOLERANCE, from_float32, to_float32
from wavesim_gpu.kernels.backends import DEFAULT, backends_of
from wavesim_gpu.run.operands import Operands, part_of, written, written_name


def reference(operands: Operands, default: str = DEFAULT) -> dict[str, Any]:
    """All written operands in float32 as they are after a run, by `written_name`, from the same inputs.

    Intermediates are rounded as stored, results are not. `default` is the backend of stages that name none.
    """
    pipeline = operands.pipeline
    backends, made = backends_of(pipeline, default), _Made(operands)
    for stage in pipeline.stages:
        given = {name: made.read(stage.name, name) for name in stage.tiled.operands}
        for name, values in backends[stage.name].reference(stage.work, given).items():
            made.view(stage.name, name)[...] = values
    return {written_name(pipeline, *key): made.view(*key) for key in written(pipeline)}


def relative_errors(
    operands: Operands, expected: Mapping[str, Any], outputs: Mapping[str, Any] | None = None
) -> dict[str, float]:
    """|out - ref| / |ref| per result, in the Frobenius norm; NaN where an output holds one.

    `outputs` are another's results, float32; by default what lies in the operands.
    """
    norm = require_cupy().linalg.norm
    got = operands.outputs() if outputs is None else outputs
    return {
        name: float(norm((got[name] - want).ravel()) / norm(want.ravel())) for name, want in expected.items()
    }


def is_right(operands: Operands, errors: Mapping[str, float]) -> bool:
    """Whether every result's error is within its element type's tolerance; NaN never is."""
    pipeline = operands.pipeline
    return all(
        errors[written_name(pipeline, *key)] <= TOLERANCE[matrix.dtype]
        for key, matrix in written(pipeline).items()
    )


class _Made:
    """The buffers that stages write, in float32, from what is in them before a run."""

    def __init__(self, operands: Operands) -> None:
        self._operands = operands
        self._uses = {(use.stage, use.operand): use for use in uses_of(operands.pipeline)}
        self._buffers = {
            name: self._before(buffer)
            for name, buffer in buffers_of(operands.pipeline).items()
            if buffer.is_written
        }

    def view(self, stage: str, operand: str) -> Any:
        """Where a written operand's values go."""
        use = self._uses[stage, operand]
        return part_of(self._buffers[use.view.buffer], use.region)

    def read(self, stage: str, operand: str) -> Any:
        """An operand as its stage reads it, float32 (int32 stays)."""
        use = self._uses[stage, operand]
        dtype = use.matrix.dtype
        if use.view.buffer not in self._buffers:
            values = self._operands.arrays[stage, operand]
        else:
            values = require_cupy().ascontiguousarray(self.view(stage, operand))
            values = from_float32(values, dtype)
        return values if dtype == "int32" else to_float32(values, dtype)

    def _before(self, buffer: Buffer) -> Any:
        values = require_cupy().zeros((buffer.rows, buffer.columns), "float32")
        for use in buffer.uses:
            array = self._operands.arrays[use.stage, use.operand]
            part_of(values, use.region)[...] = to_float32(array, buffer.dtype)
        for (name, region), array in self._operands.saved.items():
            if name == buffer.name:
                part_of(values, region)[...] = to_float32(array, buffer.dtype)
        return values
