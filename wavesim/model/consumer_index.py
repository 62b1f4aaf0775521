"""The consumer's side of a dependency: which expression of its tile's coordinates x and y stand for.

Example: in `Dependency(scores[y, x], [keys[x, y]])` the letters name positions the other way round:
x stands for the consumer's row. In `gemm2[2 * x : 2 * x + 2, y]` x stands for half its column.
"""

from collections.abc import Sequence

from wavesim.errors import DescriptionError
from wavesim.model.index import Index, x, y
from wavesim.model.stage import Axis, TileSet

DIMENSIONS = {"x": x, "y": y}
PROBES = ((0, 0), (1, 0), (0, 1), (7, 11), (16, 5))  # where an affine expression is compared with its formula


def consumer_coordinates(consumer: TileSet, needs: Sequence[TileSet]) -> dict[str, Index]:
    """What x and y of a dependency are, as expressions of the consumer tile's own coordinates.

    Raises `DescriptionError` if the consumer's indices do not name each of its tiles exactly once.
    """
    found: dict[str, Index] = {}
    for axis, own, extent in (
        (consumer.columns, x, consumer.stage.grid.x),
        (consumer.rows, y, consumer.stage.grid.y),
    ):
        meaning = _meaning(axis, own, extent, consumer)
        for name, value in meaning.items():
            if name in found:
                raise DescriptionError(f"consumer is {consumer}; {name} stands for its column and its row")
            found[name] = value
    for need in needs:
        for name in DIMENSIONS:
            if need.uses(name) and name not in found:
                raise DescriptionError(f"{need}: {name} is not an index of the consumer {consumer}")
    return found


def _meaning(axis: Axis, own: Index, extent: int, consumer: TileSet) -> dict[str, Index]:
    """Which dimension an index of the consumer names, and what that dimension then is."""
    if axis.is_slice and axis.stop is None and str(axis) == ":":
        return {}
    name, scale, offset = _linear(axis.start, consumer)
    if not axis.is_slice and scale == 1:
        return {name: own - offset if offset else own}
    if not axis.is_slice and scale == -1:
        return {name: offset - own}
    is_run = axis.is_slice and axis.stop is not None and axis.step == 1 and offset == 0 and scale > 0
    if is_run and axis.stop is not None and _linear(axis.stop, consumer) == (name, scale, scale):
        if extent % scale:
            raise DescriptionError(
                f"consumer is {consumer}: runs of {scale} tiles do not fill its grid {consumer.stage.grid}"
            )
        return {name: own // scale}
    fix = f"[{scale} * {name} : {scale} * {name} + {scale}]" if scale > 1 else "[x, y]"
    raise DescriptionError(
        f"consumer is {consumer}; it must name each of its tiles once. Write x or y, n - x, a run such as "
        f"{fix}, or :, and put other scales on the needs"
    )


def _linear(index: Index, consumer: TileSet) -> tuple[str, int, int]:
    """(dimension, scale, offset) of `scale * dimension + offset`. Raises `DescriptionError`."""
    offset = index.evaluate(0, 0)
    scales = {"x": index.evaluate(1, 0) - offset, "y": index.evaluate(0, 1) - offset}
    is_linear = all(
        index.evaluate(px, py) == scales["x"] * px + scales["y"] * py + offset for px, py in PROBES
    )
    used = [name for name, scale in scales.items() if scale]
    if not is_linear or len(used) != 1:
        raise DescriptionError(
            f"consumer is {consumer}; each index must be one of x and y with a scale and an offset, such as "
            f"{consumer.stage.name}[x, y]"
        )
    return used[0], scales[used[0]], offset
