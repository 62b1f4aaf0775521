"""Selecting: which elements a key means, by slices, indices, masks and arrays of indices.

Example: `grid[:, 0]` of 4 rows and 6 columns is the elements 0, 6, 12 and 18, of shape (4,).
"""

import math
import operator
from itertools import compress, product
from typing import Any

from ._array import array, ndarray, stretched
from ._shapes import Shape, broadcast_shape, strides_of
from ._types import BOOL, INT


def check_mask(key: ndarray, shape: Shape) -> None:
    """Raises `IndexError` where a mask is not of the array's shape."""
    if key.dtype is BOOL and key.shape != shape[: key.ndim]:
        raise IndexError(f"boolean index has shape {key.shape}; the array has {shape}")


def places_of(shape: Shape, key: Any) -> tuple[list[int], Shape | None]:
    """Where the selected elements are in `flat`, and the selection's shape; None for a single element."""
    keys = list(key) if isinstance(key, tuple) else [key]
    keys = [array(one) if isinstance(one, list) else one for one in keys]
    if len(keys) == 1 and isinstance(keys[0], ndarray) and keys[0].dtype is BOOL:
        check_mask(keys[0], shape)
        inner = math.prod(shape[keys[0].ndim :])
        starts = [index * inner for index in compress(range(keys[0].size), keys[0].flat)]
        places = starts if inner == 1 else [start + one for start in starts for one in range(inner)]
        return places, (len(starts), *shape[keys[0].ndim :])
    for at, one in enumerate(keys):
        if one is Ellipsis:
            keys[at : at + 1] = [slice(None)] * (len(shape) - sum(one is not None for one in keys) + 1)
            break
    keys += [slice(None)] * (len(shape) - sum(one is not None for one in keys))
    return _selected(shape, keys)


def _selected(shape: Shape, keys: list[Any]) -> tuple[list[int], Shape | None]:
    """Places and shape of a selection by one key per axis, and None for a new one."""
    lists = [one for one in keys if isinstance(one, ndarray)]
    lists = [
        array(list(compress(range(one.size), one.flat)), INT) if one.dtype is BOOL else one for one in lists
    ]
    joint = broadcast_shape(*(one.shape for one in lists)) if lists else ()
    steps, axes, found, chosen = iter(zip(shape, strides_of(shape), strict=True)), [], [], iter(lists)
    together: list[int] | None = None
    start = at = 0
    for one in keys:
        if one is None:
            axes.append([0])
            found.append(1)
            continue
        count, step = next(steps)
        if isinstance(one, slice):
            axes.append([index * step for index in range(count)[one]])
            found.append(len(axes[-1]))
        elif isinstance(one, ndarray):
            places = [range(count)[index] * step for index in stretched(next(chosen), joint).flat]
            if together is None:
                together, at = places, len(axes)
            else:
                together = list(map(operator.add, together, places))
        else:
            start += range(count)[operator.index(one)] * step
    if together is not None:
        axes.insert(at, together)
        found[at:at] = joint
    if not axes:
        return [start], None
    if len(axes) == 1:
        return [start + one for one in axes[0]], tuple(found)
    return [start + sum(parts) for parts in product(*axes)], tuple(found)
