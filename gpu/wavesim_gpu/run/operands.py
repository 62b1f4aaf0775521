"""A pipeline's buffers on the GPU: random inputs and weights, poisoned outputs, and what is there in the end.

Example: attention reads q, k and v where the product before it wrote them, in one packed buffer. Buffers are
allocated once; an operand is a view of its buffer, known by stage and name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.accesses import Accesses
from wavesim.model.buffers import ALIGNMENT, Buffer, Use, buffers_of, names_buffers
from wavesim.model.contents import Contents, contents_of
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import Region
from wavesim.plan.coverage import Precedence
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.element_types import element_type, to_float32
from wavesim_gpu.kernels.gemm.gemm_backend import Addresses
from wavesim_gpu.kernels.stage_backend import OperandPlace
from wavesim_gpu.run.random_inputs import drawing_turn, random_data

Key = tuple[str, str]  # stage, operand


@dataclass(frozen=True)
class Operands:
    """Every operand of every stage, by (stage, operand): arrays (rows, columns), perhaps views of one buffer.

    A column-major B is stored as (n, k). With gates in halves `b` and `bias` are the gates', `b_values` and
    `values_bias` the values', of n/2 columns each. `saved` is what was in regions that a run reads and then
    writes; `poison` puts it back. Without `contents`, operands lie where their arrays do and nothing is
    poisoned.
    """

    pipeline: Pipeline
    arrays: Mapping[Key, Any]
    contents: Mapping[str, Contents] = field(default_factory=dict)
    storage: Mapping[str, Any] = field(default_factory=dict)
    saved: Mapping[tuple[str, Region], Any] = field(default_factory=dict)
    order: Precedence | None = None  # what all plans of the pipeline share

    def of(self, operand: str) -> dict[str, Any]:
        """By stage, of those that have an operand of that name."""
        return {stage: array for (stage, name), array in self.arrays.items() if name == operand}

    @property
    def a(self) -> dict[str, Any]:
        """Each GEMM's A (m, k)."""
        return self.of("a")

    @property
    def b(self) -> dict[str, Any]:
        """Each GEMM's B as it is stored."""
        return self.of("b")

    @property
    def c(self) -> dict[str, Any]:
        """Each GEMM's C (m, columns)."""
        return self.of("c")

    def addresses(self, stage: str, partials: int = 0, tickets: int = 0) -> Addresses:
        """Where a GEMM's operands are, and how far apart their rows."""
        places = self.places(stage)
        strides = {f"{name}_stride": places[name].row_stride for name in ("a", "b", "c")}
        known = {name: place.address for name, place in places.items()}
        return Addresses(**known, **strides, partials=partials, tickets=tickets)

    def places(self, stage: str) -> dict[str, OperandPlace]:
        """Where each operand of a stage is, and how far apart its rows."""
        return {
            name: OperandPlace(array.data.ptr, array.strides[0] // array.itemsize)
            for (owner, name), array in self.arrays.items()
            if owner == stage
        }

    def poison(self, stream: Any = None) -> None:
        """Fills all that the run makes with NaN, so that what is not written, or read too early, shows.

        What it reads before it writes it is put back as it was.
        """
        cupy = require_cupy()
        for name, contents in self.contents.items():
            buffer = self.storage[name]
            for region in contents.made:
                _fill_with_nan(cupy, part_of(buffer, region), stream)
            for region in contents.updated:
                _copy(cupy, part_of(buffer, region), self.saved[name, region], stream)

    def outputs(self) -> dict[str, Any]:
        """What lies in all written operands, as float32, by `written_name`."""
        return {
            written_name(self.pipeline, *key): to_float32(self.arrays[key], matrix.dtype)
            for key, matrix in written(self.pipeline).items()
        }


def written(pipeline: Pipeline) -> dict[Key, Any]:
    """The operands that stages write, and their `Matrix`."""
    return {
        (stage.name, name): matrix
        for stage in pipeline.stages
        for name, matrix in stage.tiled.operands.items()
        if matrix.is_written
    }


def written_name(pipeline: Pipeline, stage: str, operand: str) -> str:
    """A result's name: the stage's, or "stage.operand" of a stage that writes several."""
    several = sum(owner == stage for owner, _ in written(pipeline)) > 1
    return f"{stage}.{operand}" if several else stage


def poison(outputs: Mapping[str, Any], stream: Any = None) -> None:
    """Fills arrays with NaN, in a stream's order."""
    cupy = require_cupy()
    for array in outputs.values():
        _fill_with_nan(cupy, array, stream)


def random_operands(
    pipeline: Pipeline, seed: int = 0, partial_bytes: int = 0, given: Mapping[Key, Any] | None = None
) -> Operands:
    """Fresh normal inputs and weights of each operand's `Matrix.scale`, so that outputs are near one.

    `given` arrays stay as they are; operands without a scale that nobody gives are zero. `partial_bytes` is
    what the kernels need besides. Raises `DeviceError` if all that does not fit in the GPU's free memory.
    """
    cupy, accesses = require_cupy(), Accesses(pipeline)
    buffers = buffers_of(pipeline)
    _require_memory(cupy, pipeline, buffers, partial_bytes)
    contents = {name: contents_of(accesses, buffer) for name, buffer in buffers.items()}
    generator = cupy.random.RandomState(seed)
    arrays = dict(given or {})
    drawn = [buffer for name, buffer in buffers.items() if contents[name].has_inputs]
    for buffer in sorted(drawn, key=drawing_turn):
        use = next((use for use in buffer.uses if (use.stage, use.operand) in arrays), None)
        if use is None:
            arrays[buffer.uses[0].stage, buffer.uses[0].operand] = random_data(generator, buffer)
    return operands_of(pipeline, arrays)


def operands_of(pipeline: Pipeline, given: Mapping[Key, Any]) -> Operands:
    """A pipeline's buffers, with arrays for its inputs: of an operand's shape, or of its whole buffer's.

    An array that fills its buffer becomes it; others are copied into theirs. Raises `DescriptionError` for
    arrays that are missing or have another shape or type, before any launch.
    """
    cupy, accesses = require_cupy(), Accesses(pipeline)
    _require_single_producers(pipeline)
    buffers = buffers_of(pipeline)
    contents = {name: contents_of(accesses, buffer) for name, buffer in buffers.items()}
    storage = {
        name: _storage(cupy, buffer, given, contents[name].has_inputs) for name, buffer in buffers.items()
    }
    arrays = {
        (use.stage, use.operand): part_of(storage[name], use.region)
        for name, buffer in buffers.items()
        for use in buffer.uses
    }
    saved = {
        (name, region): part_of(storage[name], region).copy()
        for name, content in contents.items()
        for region in content.updated
    }
    return Operands(pipeline, arrays, contents, storage, saved, Precedence(accesses))


def bind(
    pipeline: Pipeline,
    inputs: Mapping[str, Any],
    weights: Mapping[str, Any],
    *,
    values: Mapping[str, Any] | None = None,
    bias: Mapping[str, Any] | None = None,
    values_bias: Mapping[str, Any] | None = None,
) -> Operands:
    """Given arrays as the operands of a pipeline of GEMMs: A of the first stages, B of all, by stage.

    `values` and `values_bias` are those of stages with gates in halves, whose gates' are in the others.
    Raises as `operands_of` does.
    """
    groups = {"a": inputs, "b": weights, "b_values": values, "bias": bias, "values_bias": values_bias}
    given = {
        (stage.name, operand): group[stage.name]
        for operand, group in groups.items()
        for stage in pipeline.stages
        if group and group.get(stage.name) is not None and operand in stage.tiled.operands
    }
    return operands_of(pipeline, given)


def _storage(cupy: Any, buffer: Buffer, given: Mapping[Key, Any], has_inputs: bool) -> Any:
    """The buffer's array: the one that is given and fills it, or a new one with all that is given."""
    known = [(use, given[use.stage, use.operand]) for use in buffer.uses if (use.stage, use.operand) in given]
    if has_inputs and not known:
        first = buffer.uses[0]
        raise DescriptionError(
            f"{_what(first)} is missing; give a CuPy array {(first.matrix.rows, first.matrix.columns)} of "
            f"{element_type(buffer.dtype)}"
        )
    whole = buffer.rows, buffer.columns
    checked = [(use, _checked(cupy, use, array, whole)) for use, array in known]
    for _, array in checked:
        if array.shape == whole:
            return array
    made = cupy.zeros(whole, element_type(buffer.dtype))  # of a cache a run may leave rows as they were
    for use, array in checked:
        part_of(made, use.region)[...] = array
    return made


def _what(use: Use) -> str:
    words = {"a": "input", "b": "weights"}
    return f"{words.get(use.operand, use.operand)} of {use.stage}"


def _checked(cupy: Any, use: Use, array: Any, whole: tuple[int, int]) -> Any:
    wanted, shape = element_type(use.matrix.dtype), (use.matrix.rows, use.matrix.columns)
    what = _what(use)
    if not isinstance(array, cupy.ndarray):
        raise DescriptionError(f"{what} is a {type(array).__name__}; give a CuPy array: cupy.asarray(...)")
    if array.shape == shape[1:] and shape[0] == 1:
        array = array.reshape(shape)
    if array.shape not in (shape, whole) or array.dtype != wanted:
        raise DescriptionError(f"{what} is {array.shape} of {array.dtype}; it must be {shape} of {wanted}")
    if not array.flags.c_contiguous or array.data.ptr % ALIGNMENT:
        raise DescriptionError(
            f"{what} must be row-major and aligned to {ALIGNMENT} bytes; use cupy.ascontiguousarray"
        )
    return array


def part_of(buffer: Any, region: Region) -> Any:
    """A region of an array."""
    return buffer[region.top : region.bottom, region.left : region.right]


def _fill_with_nan(cupy: Any, array: Any, stream: Any) -> None:
    """All bits of each element: NaN of every floating-point type, -1 of integers."""
    if array.flags.c_contiguous:
        stream_ptr = stream.ptr if stream is not None else 0
        cupy.cuda.runtime.memsetAsync(array.data.ptr, 0xFF, array.nbytes, stream_ptr)
        return
    with stream if stream is not None else cupy.cuda.Stream.null:
        array.view(f"uint{8 * array.itemsize}").fill(2 ** (8 * array.itemsize) - 1)


def _copy(cupy: Any, target: Any, source: Any, stream: Any) -> None:
    with stream if stream is not None else cupy.cuda.Stream.null:
        target[...] = source


def _require_single_producers(pipeline: Pipeline) -> None:
    """Of a pipeline that names no buffers: only then a GEMM's A is its producer's C, which must be one."""
    if names_buffers(pipeline):
        return
    for stage in pipeline.stages:
        dependency = pipeline.dependency_of(stage.name)
        if dependency is not None and stage.work.reads_in_step and len(dependency.producers) > 1:
            raise DescriptionError(
                f"{dependency}: a GEMM reads A from one producer; {len(dependency.producers)} are named. "
                "Name "
                "the buffers (Stage.buffers), or split the stage"
            )


def _require_memory(cupy: Any, pipeline: Pipeline, buffers: Mapping[str, Buffer], partial_bytes: int) -> None:
    """Raises `DeviceError` unless buffers, partial sums and the generator's float32 copies fit."""
    stored = partial_bytes + sum(buffer.bytes for buffer in buffers.values())
    largest = max(8 * buffer.rows * buffer.columns for buffer in buffers.values())
    free, total = cupy.cuda.runtime.memGetInfo()
    free += cupy.get_default_memory_pool().free_bytes()
    if stored + largest > free:
        raise DeviceError(
            f"pipeline {pipeline.name} needs {(stored + largest) / 1e9:.1f} GB of GPU memory; "
            f"{free / 1e9:.1f} of {total / 1e9:.1f} GB are free. Use fewer tokens"
        )
