"""Shapes: where elements lie, and which shape two arrays stretch to."""

import math

Shape = tuple[int, ...]


def strides_of(shape: Shape) -> Shape:
    """Elements from one index of each axis to the next."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast_shape(*shapes: Shape) -> Shape:
    """The shape that all stretch to. Raises `ValueError` if there is none."""
    most = max(map(len, shapes))
    found = []
    for sizes in zip(*((1,) * (most - len(shape)) + shape for shape in shapes), strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            raise ValueError(f"arrays of shapes {shapes} do not go together")
        found.append(wanted.pop() if wanted else 1)
    return tuple(found)
