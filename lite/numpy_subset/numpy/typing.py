"""Annotations."""

from ._array import ndarray


class NDArray:
    """`NDArray[int64]`, in annotations only: the array, whatever its elements."""

    def __class_getitem__(cls, _: object) -> type[ndarray]:
        return ndarray
