"""What a call of `mlp` is given: checked, and described without its addresses.

Example: `x` (4, 128, 4096) of PyTorch with `nn.Linear` weights seen as `weight.t()` is an `MlpShape` of 512
rows with column-major weights, and an output of (4, 128, n2). Every later call with such arrays has the same
`Layout`, so all that depends on it is prepared once.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, get_args

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import shown
from wavesim_gpu.driver.tensors import ELEMENT_BYTES, Tensor
from wavesim_gpu.layers.description import GATED, MlpShape, Order, Word

ACTIVATIONS = (None, *get_args(Word))
LARGEST_SIDE = 2**31 - 1  # rows, columns and strides, as kernels and cuBLAS count them
ALIGNMENT = 16  # bytes: addresses and rows of what TMA moves


@dataclass(frozen=True)
class Layout:
    """What arrays look like wherever they are. Strides are in elements, offsets in bytes.

    `values_offset` and `values_bias_offset`: from packed weights, and their bias, to the values' half. With
    `copies_x` the rows of x have no common stride: it is copied first, by its own library.
    `has_aligned_rows`: every row, or column, starts at a multiple of 16 bytes from its array's address.
    """

    shape: MlpShape
    device: int
    out_shape: tuple[int, ...]
    x_stride: int
    w1_stride: int
    w2_stride: int
    copies_x: bool = False
    values_offset: int = 0
    values_bias_offset: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether there are no rows, and so nothing to compute."""
        return self.shape.m == 0

    @property
    def has_aligned_rows(self) -> bool:
        """See the class."""
        strides = (self.x_stride, self.w1_stride, self.w2_stride, self.shape.n2)
        offsets = (self.values_offset, self.values_bias_offset)
        return not any(s * ELEMENT_BYTES % ALIGNMENT for s in strides) and not any(
            offset % ALIGNMENT for offset in offsets
        )


def layout_of(given: Mapping[str, Tensor], activation: Any) -> Layout:
    """The layout of x, w1, w2 and, where given, gate, b1, b_gate, b2 and out, by their names.

    Raises `DescriptionError` that names the argument, the value, what it must be and the fix.
    """
    _require_activation(activation, "gate" in given)
    x, w1, w2 = given["x"], given["w1"], given["w2"]
    _require_alike(given)
    if not x.shape:
        raise DescriptionError("x has no sides; give (..., k), such as (1, k)")
    gate = None if activation not in GATED else "separate" if "gate" in given else "packed"
    k, columns = _sides("w1", w1)
    _require_side("w1", "rows", k, x.shape[-1], "the last side of x")
    n1 = _values(columns) if gate == "packed" else columns
    rows, n2 = _sides("w2", w2)
    _require_side(
        "w2", "rows", rows, n1, "the columns of w1" + (" that are values" if gate == "packed" else "")
    )
    w1_order, w1_stride = _order("w1", w1)
    w2_order, w2_stride = _order("w2", w2)
    if gate == "separate":
        _require_like_w1(given["gate"], w1, w1_order, w1_stride)
    _require_biases(given, gate, columns, n2)
    x_stride = _row_stride(x)
    shape = MlpShape(
        prod(x.shape[:-1]),
        k,
        n1,
        n2,
        "fp16" if x.dtype == "fp16" else "bf16",
        activation,
        gate,  # type: ignore[arg-type]
        w1_order,
        w2_order,
        "b1" in given,
        "b2" in given,
    )
    _require_bounded(shape)
    packed = n1 * ELEMENT_BYTES if gate == "packed" else 0
    layout = Layout(
        shape,
        x.device,
        (*x.shape[:-1], n2),
        x_stride or k,
        w1_stride,
        w2_stride,
        copies_x=x_stride is None,
        values_offset=packed * (w1_stride if w1_order == "column" else 1),
        values_bias_offset=packed,
    )
    _require_out(given, layout)
    return layout


def _require_activation(activation: Any, has_gate: bool) -> None:
    known = activation is None or (isinstance(activation, str) and activation in ACTIVATIONS)
    if not known:
        raise DescriptionError(
            f"activation is {shown(activation)}; known are None, {', '.join(map(repr, get_args(Word)))}"
        )
    if has_gate and activation not in GATED:
        raise DescriptionError(
            f"gate is given with activation {activation!r}; it needs a gated one: {', '.join(GATED)}"
        )


def _require_alike(given: Mapping[str, Tensor]) -> None:
    x = given["x"]
    for name, tensor in given.items():
        if tensor.device != x.device:
            raise DescriptionError(
                f"{name} is on GPU {tensor.device} and x on GPU {x.device}; they must be on the same"
            )
        if tensor.dtype != x.dtype:
            raise DescriptionError(
                f"{name} is of {tensor.dtype}, x of {x.dtype}; they must be the same: cast one of them"
            )
        if tensor.library != x.library:
            raise DescriptionError(f"{name} is not of x's library ({x.library}); give arrays of one library")


def _sides(name: str, tensor: Tensor) -> tuple[int, int]:
    """Of a weight (in, out)."""
    if len(tensor.shape) != 2 or 0 in tensor.shape:
        raise DescriptionError(
            f"{name} has shape {tensor.shape}; it must be a matrix (in, out) that is not empty"
        )
    return tensor.shape[0], tensor.shape[1]


def _values(columns: int) -> int:
    if columns % 2:
        raise DescriptionError(
            f"w1 has {columns} columns; with a gated activation and no gate it is packed, gates first and "
            "then as many values: an even number"
        )
    return columns // 2


def _require_side(name: str, side: str, size: int, wanted: int, other: str) -> None:
    if size != wanted:
        raise DescriptionError(
            f"{name} has {size} {side}; it must have {wanted}, {other}. A weight of nn.Linear is (out, in): "
            f"pass its transposed view, {name}.t()"
        )


def _order(name: str, matrix: Tensor) -> tuple[Order, int]:
    """Which elements are neighbours, and the stride of the other side."""
    (rows, columns), (down, across) = matrix.shape, matrix.strides
    if (across == 1 or columns == 1) and (rows == 1 or LARGEST_SIDE >= down >= columns):
        return "row", down if rows > 1 else columns
    if (down == 1 or rows == 1) and (columns == 1 or LARGEST_SIDE >= across >= rows):
        return "column", across if columns > 1 else rows
    raise DescriptionError(
        f"{name} has strides {matrix.strides}; it must be row-major or column-major, with strides of at most "
        f"{LARGEST_SIDE:,}: pass a copy"
    )


def _require_like_w1(gate: Tensor, w1: Tensor, order: Order, stride: int) -> None:
    if gate.shape != w1.shape:
        raise DescriptionError(f"gate has shape {gate.shape}; it must be {w1.shape}, as w1")
    if _order("gate", gate) != (order, stride):
        raise DescriptionError(
            f"gate has strides {gate.strides}; they must be {w1.strides}, as of w1: pass a copy"
        )


def _require_biases(given: Mapping[str, Tensor], gate: str | None, columns: int, n2: int) -> None:
    for name, length in (("b1", columns), ("b_gate", columns), ("b2", n2)):
        bias = given.get(name)
        if bias is not None and (bias.shape != (length,) or (bias.strides[0] != 1 and length > 1)):
            raise DescriptionError(
                f"{name} has shape {bias.shape} and strides {bias.strides}; it must be ({length},), dense"
            )
    if "b_gate" in given and gate != "separate":
        fix = "b1 holds both, gates first" if gate == "packed" else "it needs a gate"
        raise DescriptionError(f"b_gate is given without a gate of its own; {fix}")
    if gate == "separate" and ("b1" in given) != ("b_gate" in given):
        missing = "b_gate" if "b1" in given else "b1"
        raise DescriptionError(f"{missing} is missing; give both b1 and b_gate, or none: zeros do")


def _row_stride(x: Tensor) -> int | None:
    """From one row of x to the next, in elements; None if the leading sides have none in common."""
    *leading, k = x.shape
    *strides, across = x.strides
    if 0 in x.shape:
        return k
    if across != 1 and k > 1:
        return None
    sides = [(side, stride) for side, stride in zip(leading, strides, strict=True) if side > 1]
    for (_, outer), (side, inner) in pairwise(sides):
        if outer != side * inner:
            return None
    stride = sides[-1][1] if sides else k
    return stride if k <= stride <= LARGEST_SIDE else None


def _require_bounded(shape: MlpShape) -> None:
    for name, side in (("k", shape.k), ("n1", shape.products), ("n2", shape.n2), ("rows of x", shape.m)):
        if side > LARGEST_SIDE or (side == 0 and name == "k"):
            raise DescriptionError(f"{name} is {side}; it must be from 1 to {LARGEST_SIDE:,}")


def _require_out(given: Mapping[str, Tensor], layout: Layout) -> None:
    """Right shape, dense, and no byte of it belongs to what is read."""
    out = given.get("out")
    if out is None:
        return
    if out.shape != layout.out_shape or not out.is_dense:
        raise DescriptionError(
            f"out has shape {out.shape} and strides {out.strides}; it must be {layout.out_shape}, row-major "
            "and dense"
        )
    require_apart(given)


def require_apart(given: Mapping[str, Tensor]) -> None:
    """Raises `DescriptionError` if `out` overlaps an array that is read: kernels write it while they read."""
    out = given["out"]
    for name, tensor in given.items():
        if name != "out" and out.address < tensor.end and tensor.address < out.end:
            raise DescriptionError(f"out overlaps {name} in memory; give an array of its own")
