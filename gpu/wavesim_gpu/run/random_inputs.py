"""Random inputs and weights: normal numbers, and rotations for RoPE.

Example: weights (4096, 1024) have a standard deviation of 1/64, so that outputs are near one.
"""

from typing import Any

from wavesim.model.buffers import Buffer
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.element_types import element_type, from_float32

_FIRST_DRAWN = ("a", "b", "b_values", "bias", "values_bias")
_ROTATIONS = "rope"


def drawing_turn(buffer: Buffer) -> int:
    """Sorts buffers into the order in which their data are drawn."""
    name = buffer.uses[0].operand
    return _FIRST_DRAWN.index(name) if name in _FIRST_DRAWN else len(_FIRST_DRAWN)


def random_data(generator: Any, buffer: Buffer) -> Any:
    """For the whole buffer, of which the first use may be a part; zeros where random data make no sense.

    A table for RoPE holds cosines and sines of random angles. Other numbers would not rotate heads but scale
    them, and with normal ones scores are nearly twice as large, and so is what each rounding of Q and K
    makes of them.
    """
    cupy, shape = require_cupy(), (buffer.rows, buffer.columns)
    if buffer.uses[0].operand == _ROTATIONS:
        return _rotations(cupy, generator, shape)
    # A float32 scalar: a Python float would be fine too, but must not promote the array.
    scale = cupy.float32(max(use.matrix.scale for use in buffer.uses))
    if not scale:
        return cupy.zeros(shape, element_type(buffer.dtype))
    return from_float32(generator.standard_normal(shape, dtype="float32") * scale, buffer.dtype)


def _rotations(cupy: Any, generator: Any, shape: tuple[int, int]) -> Any:
    """Cosines and sines in turn, of angles all around the circle."""
    angles = generator.standard_normal((shape[0], shape[1] // 2), dtype="float32") * cupy.float32(cupy.pi)
    table = cupy.empty(shape, "float32")
    table[:, ::2], table[:, 1::2] = cupy.cos(angles), cupy.sin(angles)
    return table
