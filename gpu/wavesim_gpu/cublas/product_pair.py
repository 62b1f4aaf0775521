"""Two products of one A in one launch of cuBLASLt, as a batch of two, however far apart their matrices lie.

Example: the gate and up projections of Llama, 11,008 columns each, take two waves of tiles each for 512
tokens, of which the second is a third full; as one launch they take three.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wavesim.errors import DeviceError
from wavesim_gpu.cublas.cublaslt import (
    LARGEST_ALIGNMENT,
    MOST_PLACES,
    VECTOR_BYTES,
    Matrix,
    Place,
    Product,
    Run,
    Turn,
    place_of,
)
from wavesim_gpu.driver.tensors import allowed_while_capturing

ELEMENT_BYTES = 2
LEAST_GAIN = 0.005  # of the time of two launches


class ProductPair:
    """C1 = A B1 and C2 = A B2, each a `Product` without bias and activation, C2 `c_step` behind C1.

    `algorithm` is a word that `tune` returned, or "" where one launch was not faster than two.
    """

    def __init__(self, product: Product, c_step: int, algorithm: str) -> None:
        self._product, self._c_step = product, c_step
        self.algorithm = algorithm
        self._runs: dict[tuple[int, int, int, int, int], Run | None] = {}

    def launch(self, a: Matrix, b: Matrix, b_step: int, c: Matrix, workspace: int, stream: int) -> bool:
        """Starts it on a stream; the second B is `b_step` elements behind the first. Capturable.

        Returns False, with nothing started, where its algorithm does not do for such matrices.
        """
        (a_address, a_stride), (b_address, b_stride), (c_address, c_stride) = a, b, c
        low = a_address | b_address | c_address | b_step * ELEMENT_BYTES | LARGEST_ALIGNMENT
        key = (a_stride, b_stride, c_stride, b_step, low & -low)
        if key in self._runs:
            run = self._runs[key]
            if run is not None:
                run(a_address, b_address, c_address, workspace, stream)
            return run is not None
        if len(self._runs) >= MOST_PLACES:
            self._runs = {}
        with allowed_while_capturing():  # its descriptors are made, and the first launch loads its kernel
            run = self._prepared(self.place(a, b, b_step, c))
            if run is not None:
                run(a_address, b_address, c_address, workspace, stream)
        self._runs[key] = run
        return run is not None

    def place(self, a: Matrix, b: Matrix, b_step: int, c: Matrix) -> Place:
        """Where these matrices and the second ones lie."""
        place = place_of(a, b, c, 0)
        low = place.alignment | b_step * ELEMENT_BYTES | self._c_step * ELEMENT_BYTES
        return replace(place, alignment=low & -low, b_step=b_step, c_step=self._c_step)

    def tune(self, turns: Sequence[Turn], apart_ns: float, stream: Any) -> str:
        """Times the algorithms as `Product.timed_at`; keeps and returns the fastest, "" if two launches are.

        `apart_ns` is what these take, both.
        """
        try:
            times = self._product.timed_at(turns, stream)
        except DeviceError:  # an algorithm that does for the first of the turns only
            times = {}
        best = min(times, key=times.__getitem__, default="")
        self.algorithm = best if best and times[best] < apart_ns * (1 - LEAST_GAIN) else ""
        self._runs = {}
        return self.algorithm

    def _prepared(self, place: Place) -> Run | None:
        try:
            return self._product.prepared(place, self.algorithm) if place.alignment >= VECTOR_BYTES else None
        except DeviceError:  # it was timed on other matrices
            return None
