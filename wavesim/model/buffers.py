"""The buffers of a pipeline: which operands of which stages lie in them, and where.

Example: the packed output "qkv" of a product is one buffer with four uses: the product writes it, and
attention reads its q, k and v at columns 0, 4096 and 5120 of it. Of a pipeline in which nobody names a
buffer, a GEMM's A is its producer's C, a convolution's residual that of the second producer it names, and
every other operand has a buffer of its own.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from wavesim.errors import DescriptionError
from wavesim.model.pipeline import Pipeline
from wavesim.model.regions import ELEMENT_BYTES, MOST_INDEX, Element, Matrix, Region, View
from wavesim.model.stage import Stage
from wavesim.safe_io.bounds import whole

ALIGNMENT = 16  # bytes of one asynchronous copy, and of where a tensor map begins


@dataclass(frozen=True)
class Use:
    """An operand of a stage, and where it lies in its buffer."""

    stage: str
    operand: str
    view: View
    matrix: Matrix

    @property
    def region(self) -> Region:
        """All of it, in the buffer's rows and columns."""
        return Region(0, self.matrix.rows, 0, self.matrix.columns).moved(self.view.row, self.view.column)


@dataclass(frozen=True)
class Buffer:
    """Device memory of `rows` x `columns` elements, row-major: the union of its uses, in the stages'
    order.
    """

    name: str
    rows: int
    columns: int
    dtype: Element
    uses: tuple[Use, ...]

    @property
    def is_written(self) -> bool:
        """Whether a stage writes it."""
        return any(use.matrix.is_written for use in self.uses)

    @property
    def bytes(self) -> int:
        """Of all its elements."""
        return self.rows * self.columns * ELEMENT_BYTES[self.dtype]


def buffers_of(pipeline: Pipeline) -> dict[str, Buffer]:
    """All buffers by name, in the order in which stages come to use them.

    Raises `DescriptionError`, by stage and operand, for a name that is no operand, two element types in one
    buffer, and a view that does not begin at a multiple of 16 bytes.
    """
    uses: dict[str, list[Use]] = {}
    for use in uses_of(pipeline):
        uses.setdefault(use.view.buffer, []).append(use)
    return {name: _buffer(name, tuple(found)) for name, found in uses.items()}


def uses_of(pipeline: Pipeline) -> Iterator[Use]:
    """Every operand of every stage with its place, checked each for itself."""
    for stage in pipeline.stages:
        operands = stage.tiled.operands
        for name in stage.buffers:
            if name not in operands:
                raise DescriptionError(
                    f"stage {stage.name}: buffers names {name!r}, which is no operand of its "
                    f"{type(stage.work).__name__}; it has {', '.join(operands)}"
                )
        for name, matrix in operands.items():
            view = _view(pipeline, stage, name)
            _check_view(f"stage {stage.name}: operand {name!r}", view, matrix)
            yield Use(stage.name, name, view, matrix)


def written_operands(stage: Stage) -> tuple[str, ...]:
    """Names of the operands that a stage writes."""
    return tuple(name for name, matrix in stage.tiled.operands.items() if matrix.is_written)


def names_buffers(pipeline: Pipeline) -> bool:
    """Whether any stage says where its operands lie."""
    return any(stage.buffers for stage in pipeline.stages)


def _view(pipeline: Pipeline, stage: Stage, operand: str) -> View:
    """As the stage says, or where nobody says anything, what a producer makes where that producer puts it."""
    producer = None if names_buffers(pipeline) else _maker(pipeline, stage, operand)
    if producer is None:
        return stage.view(operand)
    if "c" not in (written := written_operands(producer)) and len(written) > 1:
        return stage.view(operand)
    made_as = "c" if "c" in written else written[0]
    made, read = producer.tiled.operands[made_as], stage.tiled.operands[operand]
    if (made.rows, made.columns, made.dtype) != (read.rows, read.columns, read.dtype):
        raise DescriptionError(
            f"{stage.name} reads {operand.upper() if operand == 'a' else operand} ({read.rows}, "
            f"{read.columns}) {read.dtype} but {producer.name} makes ({made.rows}, {made.columns}) "
            f"{made.dtype}; they must be equal, or name a buffer that holds both"
        )
    return producer.view(made_as)


def _maker(pipeline: Pipeline, stage: Stage, operand: str) -> Stage | None:
    """Who makes an operand of a stage, by what its kind of work says of its producers."""
    dependency = pipeline.dependency_of(stage.name)
    if dependency is None:
        return None
    makers = [need.stage for need in dependency.needs]
    return stage.work.made_operands(makers).get(operand)


def _check_view(owner: str, view: View, matrix: Matrix) -> None:
    whole(f"{owner}: row", view.row, 0, MOST_INDEX - matrix.rows)
    whole(f"{owner}: column", view.column, 0, MOST_INDEX - matrix.columns)
    size = ELEMENT_BYTES[matrix.dtype]
    if view.column * size % ALIGNMENT:
        raise DescriptionError(
            f"{owner} begins at column {view.column} of {view.buffer!r}, {view.column * size} bytes into a "
            "row; "
            f"it must be a multiple of {ALIGNMENT // size} columns, {ALIGNMENT} bytes"
        )


def _buffer(name: str, uses: tuple[Use, ...]) -> Buffer:
    first = uses[0]
    for use in uses:
        if use.matrix.dtype != first.matrix.dtype:
            raise DescriptionError(
                f"buffer {name!r} holds {first.matrix.dtype} as {first.operand!r} of stage {first.stage} and "
                f"{use.matrix.dtype} as {use.operand!r} of stage {use.stage}; give one of them another buffer"
            )
    rows, columns = max(use.region.bottom for use in uses), max(use.region.right for use in uses)
    return Buffer(name, rows, columns, first.matrix.dtype, uses)
