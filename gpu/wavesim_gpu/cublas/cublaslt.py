"""cuBLASLt's products on anybody's addresses, with bias and activation, whoever computes those.

Example: `Product(512, 14336, 4096, "bf16", "column", "gelu")` is gelu(x W^T + b), W stored (14336, 4096) as
in torch's `nn.Linear`. cuBLASLt counts columns first: a row-major C = A B is its C^T = B^T A^T, transposed
nowhere, and a bias for each of C's columns is one for each of its rows.
"""

import ctypes
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.cublas.cublas_library import (
    COMPUTE_FP32,
    FP32,
    TYPES,
    Descriptor,
    Found,
    check,
    current_device,
    gemm_handle,
    gemm_library,
    library,
    lt_handle,
    workspace_bytes,
)
from wavesim_gpu.driver.device import require_cupy
from wavesim_gpu.driver.tensors import allowed_while_capturing
from wavesim_gpu.kernels.elementwise.elementwise import Elementwise
from wavesim_gpu.run.timing import Contender, interleaved_ns

# cublasLt.h of CUDA 12 and 13.
TRANSPOSED = 1
DESC_TRANS_A, DESC_EPILOGUE, DESC_BIAS_POINTER = 3, 7, 8
LAYOUT_BATCH_COUNT, LAYOUT_BATCH_STEP = 5, 6
PREFERENCE_WORKSPACE, PREFERENCE_ALIGNMENTS = 1, (5, 6, 7, 8)
DEFAULT_ALGORITHM = -1
# What it does after the product: an activation, and before it the bias.
EPILOGUES = {
    (None, False): 1,
    ("relu", False): 2,
    (None, True): 4,
    ("relu", True): 6,
    ("gelu", False): 32,
    ("gelu", True): 36,
}
LARGEST_ALIGNMENT = 256  # bytes; more makes no difference to cuBLASLt
VECTOR_BYTES = 16  # no kernel of cuBLAS needs more
TRIED = 8  # algorithms asked for; the heuristic's own order is by estimated time
# Where something is fused, algorithms that do with so little come first. With more the heuristic splits K at
# few rows and adds the parts up in a kernel of its own: 3 to 5 us more, on an H200, at 16 and 100 rows.
SMALL_WORKSPACE_BYTES = 1 << 20
TRIAL_ROUNDS, TRIAL_REPEATS = 7, 8
MOST_PLACES = 4096  # strides, biases and alignments whose descriptors are kept
GEMM_EX = "gemm-ex"
ALGORITHM_BYTES = 64
ALGORITHM = re.compile(rf"[0-9a-f]{{{2 * ALGORITHM_BYTES}}}")
# A matrix's address, and its stride in elements as `Place` has it.
Matrix = tuple[int, int]
# A launch on the addresses of A, B, C and the workspace, and a stream.
Run = Callable[[int, int, int, int, int], None]
ONE, ZERO = ctypes.c_float(1), ctypes.c_float(0)
ALPHA, BETA = (ctypes.c_void_p(ctypes.addressof(factor)) for factor in (ONE, ZERO))


@dataclass(frozen=True)
class Place:
    """Where a product's matrices lie, as far as its kernel depends on it.

    Strides in elements: of A and C from row to row, of B from row to row or, with order "column", from column
    to column. `bias` is its address, 0 without one. `alignment` in bytes divides all addresses. Where
    `b_step` is not 0 there is a second B so far behind the first, and its product goes `c_step` behind C.
    """

    a_stride: int
    b_stride: int
    c_stride: int
    bias: int
    alignment: int
    b_step: int = 0
    c_step: int = 0


# A place, and the addresses there of A, B, C and the workspace.
Turn = tuple[Place, tuple[int, int, int, int]]


class Product:
    """C (m, n) = activation(A (m, k) x B (k, n) + bias), fp16 or bf16, A and C row-major.

    B is row-major, or with `order` "column" stored (n, k). What cuBLASLt does not fuse is a kernel of ours in
    place on C, behind it. Made for the current GPU, launched from any thread. An algorithm is a word:
    cuBLASLt's own 64 bytes in hexadecimal digits, or "gemm-ex", for which `cublasGemmEx` chooses. The one
    given is used where it does, or else the first of `algorithms`.
    """

    def __init__(
        self,
        m: int,
        n: int,
        k: int,
        dtype: str,
        order: str = "row",
        activation: str | None = None,
        algorithm: str | None = None,
    ) -> None:
        self.m, self.n, self.k = m, n, k
        self.dtype, self.order, self.activation = dtype, order, activation
        self.algorithm = algorithm
        self.device = current_device()
        # For one row, with nothing to fuse, `cublasGemmEx` has kernels of its own, and PyTorch calls it.
        self._is_vector = m == 1 and (activation, False) not in EPILOGUES.keys() - {(None, False)}
        if self._is_vector:
            gemm_handle(self.device)  # not while a graph is captured
        self._runs: dict[tuple[int, int, int, int, int], Run] = {}
        self._offered: dict[Place, list[str]] = {}

    def launch(self, a: Matrix, b: Matrix, c: Matrix, bias: int, workspace: int, stream: int) -> None:
        """Starts it on a stream; capturable. `bias`, 0 for none, and `workspace` are addresses.

        The workspace has `workspace_bytes()`. Raises `DeviceError` where cuBLAS refuses, `DescriptionError`
        for rows that overlap.
        """
        (a_address, a_stride), (b_address, b_stride), (c_address, c_stride) = a, b, c
        low = a_address | b_address | c_address | bias | LARGEST_ALIGNMENT
        run = self._runs.get((a_stride, b_stride, c_stride, bias, low & -low))
        if run is not None:
            run(a_address, b_address, c_address, workspace, stream)
            return
        place = place_of(a, b, c, bias)
        with allowed_while_capturing():  # its descriptors are made, and the first launch loads its kernel
            run = self.run_at(place)
            run(a_address, b_address, c_address, workspace, stream)
        if len(self._runs) >= MOST_PLACES:
            self._runs = {}
        self._runs[a_stride, b_stride, c_stride, bias, place.alignment] = run

    def algorithms(self, place: Place) -> list[str]:
        """Those that do for the place, the most promising first; "gemm-ex" where there is one B."""
        key = replace(place, bias=min(place.bias, 1))
        if key not in self._offered:
            offers = (problem.offered() for problem in self._problems(place))
            result = next(filter(None, offers), [])
            by_cublas = [] if place.b_step else [GEMM_EX]
            is_its_own = self._is_vector and not place.bias
            self._offered[key] = [*by_cublas, *result] if is_its_own else [*result, *by_cublas]
        return self._offered[key]

    def run_at(self, place: Place) -> Run:
        """The launch for a place by the algorithm that was chosen, where that does."""
        return self.prepared(place, self._chosen(place))

    def prepared(self, place: Place, algorithm: str) -> Run:
        """The launch for a place by an algorithm. Raises `DeviceError` where it does not do."""
        if algorithm == GEMM_EX and not place.b_step:
            return self._followed(_gemm_ex(self, place), place, None, has_bias=False)
        for problem in self._problems(place):
            if problem.does(algorithm):
                run = problem.run(algorithm)
                return self._followed(run, place, problem.activation, has_bias=problem.has_bias)
        raise DeviceError(f"cuBLASLt's algorithm {algorithm} does not do for {self} at {place}")

    def tune(self, a: Matrix, bs: Sequence[Matrix], c: Matrix, bias: int, workspace: int, stream: Any) -> str:
        """Times the algorithms as `timed` does, keeps the fastest and returns it."""
        times = self.timed(a, bs, c, bias, workspace, stream)
        best = min(times, key=times.__getitem__)
        self.choose(best)
        return best

    def choose(self, algorithm: str) -> None:
        """Has later launches use the algorithm where it does."""
        self.algorithm = algorithm
        self._runs = {}

    def timed(
        self, a: Matrix, bs: Sequence[Matrix], c: Matrix, bias: int, workspace: int, stream: Any
    ) -> dict[str, float]:
        """Median ns of each algorithm, in turns, on what `launch` takes; `bs` are used one after the other.

        With more bytes of B than the L2 holds none finds its own there. On CuPy's `stream`, of which nothing
        may be captured, behind what is on it; as graphs, so that short products are timed and not launches.
        """
        return self.timed_at([(place_of(a, b, c, bias), (a[0], b[0], c[0], workspace)) for b in bs], stream)

    def timed_at(self, turns: Sequence[Turn], stream: Any) -> dict[str, float]:
        """As `timed`, on the places and addresses of each turn."""
        cupy = require_cupy()
        least = min((place for place, _ in turns), key=lambda place: place.alignment)
        repeated = [*turns] * -(-TRIAL_REPEATS // len(turns))
        beside = cupy.cuda.Stream(non_blocking=True)
        stream.synchronize()
        contenders = []
        for word in self.algorithms(least):
            graph = _graph([(self.prepared(place, word), at) for place, at in repeated], beside)
            contenders.append(Contender(partial(graph.launch, beside), beside, len(repeated)))
        result = interleaved_ns(contenders, TRIAL_ROUNDS) if contenders else []
        return {word: median(own) for word, own in zip(self.algorithms(least), result, strict=True)}

    def __repr__(self) -> str:
        sizes = f"({self.m}, {self.k}) x ({self.k}, {self.n})"
        return f"{sizes} {self.dtype} {self.order} {self.activation or 'no activation'}"

    def _chosen(self, place: Place) -> str:
        word = self.algorithm
        if word is None:
            return self.algorithms(place)[0]
        # One that was timed on aligned addresses may need them.
        is_usable = place.alignment >= VECTOR_BYTES and any(
            problem.does(word) for problem in self._problems(place)
        )
        return word if word == GEMM_EX or is_usable else self.algorithms(place)[0]

    def _problems(self, place: Place) -> Iterator["_Problem"]:
        """The product with as much fused as cuBLASLt has an epilogue for, then with less and less."""
        has_bias = place.bias != 0
        wanted = dict.fromkeys([(self.activation, has_bias), (None, has_bias), (None, False)])
        return (_Problem(self, place, *fused) for fused in wanted if fused in EPILOGUES)

    def _followed(self, run: Run, place: Place, activation: str | None, *, has_bias: bool) -> Run:
        """The launch and, where it did not fuse everything, our kernel behind it."""
        bias = 0 if has_bias else place.bias
        if activation == self.activation and not bias:
            return run
        strides = (place.c_stride, place.c_stride, place.c_stride)
        rest = Elementwise(self.dtype, self.activation, self.m, self.n, strides)

        def both(a: int, b: int, c: int, workspace: int, stream: int) -> None:
            run(a, b, c, workspace, stream)
            rest.run(0, c, c, 0, bias, stream)

        return both


class _Problem:
    """A product at a place as cuBLASLt is told of it, with one of its epilogues."""

    def __init__(self, product: Product, place: Place, activation: str | None, has_bias: bool) -> None:
        self.activation, self.has_bias = activation, has_bias
        self._product, self._place = product, place
        self._handle = lt_handle(product.device)
        self._layouts = [
            Descriptor("MatrixLayout", TYPES[product.dtype], *sizes) for sizes in _layouts(product, place)
        ]
        if place.b_step:
            for layout, step in zip(self._layouts, (place.b_step, 0, place.c_step), strict=True):
                layout.set(LAYOUT_BATCH_COUNT, ctypes.c_int(2))
                layout.set(LAYOUT_BATCH_STEP, ctypes.c_int64(step))
        self._desc = Descriptor("MatmulDesc", COMPUTE_FP32, FP32)
        self._desc.set(DESC_TRANS_A, ctypes.c_int(TRANSPOSED if product.order == "column" else 0))
        self._desc.set(DESC_EPILOGUE, ctypes.c_int(EPILOGUES[activation, has_bias]))
        if has_bias:
            self._desc.set(DESC_BIAS_POINTER, ctypes.c_uint64(place.bias))

    def offered(self) -> list[str]:
        """Algorithms of the heuristic, the most promising first; none where it has none."""
        most = workspace_bytes()
        limits = (SMALL_WORKSPACE_BYTES, most) if self.has_bias or self.activation else (most,)
        return list(dict.fromkeys(word for limit in limits for word in self._offered_within(limit)))

    def _offered_within(self, workspace: int) -> list[str]:
        """Up to eight that need no larger workspace."""
        preference = Descriptor("MatmulPreference")
        preference.set(PREFERENCE_WORKSPACE, ctypes.c_uint64(workspace))
        for attribute in PREFERENCE_ALIGNMENTS:
            preference.set(attribute, ctypes.c_uint32(self._place.alignment))
        results, count = (Found * TRIED)(), ctypes.c_int(0)
        library().cublasLtMatmulAlgoGetHeuristic(
            self._handle,
            *self._addresses,
            preference.address,
            TRIED,
            ctypes.addressof(results),
            ctypes.addressof(count),
        )
        return [bytes(result.algo).hex() for result in results[: count.value] if result.state == 0]

    def does(self, algorithm: str) -> bool:
        """Whether it computes this, in the workspace that there is."""
        if not ALGORITHM.fullmatch(algorithm):
            return False
        algo, result = _algo(algorithm), Found()
        status = library().cublasLtMatmulAlgoCheck(
            self._handle, *self._addresses, ctypes.addressof(algo), ctypes.addressof(result)
        )
        return status == 0 and result.workspace_bytes <= workspace_bytes()

    def run(self, algorithm: str) -> Run:
        """The launch by an algorithm."""
        descriptors, algo = (self._desc, *self._layouts), _algo(algorithm)
        kept = descriptors, algo, self._product  # as long as the launch that has their addresses
        matmul, alpha, beta = library().cublasLtMatmul, ALPHA, BETA
        # What is made once here is not converted anew at each launch.
        desc, b_layout, a_layout, c_layout = (
            ctypes.c_void_p(descriptor.address) for descriptor in descriptors
        )
        handle, size = ctypes.c_void_p(self._handle), ctypes.c_size_t(workspace_bytes())
        algo_address = ctypes.c_void_p(ctypes.addressof(algo))

        def launch(a: int, b: int, c: int, workspace: int, stream: int) -> None:
            status = matmul(
                handle, desc, alpha, b, b_layout, a, a_layout, beta, c, c_layout, c, c_layout,
                algo_address, workspace, size, stream,
            )  # fmt: skip
            if status:
                check(status, str(kept[-1]))

        return launch

    @property
    def _addresses(self) -> tuple[int, ...]:
        """Descriptor, then layouts of A, B, C and D as cuBLASLt names them."""
        first, second, out = (layout.address for layout in self._layouts)
        return self._desc.address, first, second, out, out


def _layouts(product: Product, place: Place) -> list[tuple[int, int, int]]:
    """Rows, columns and leading dimension of B, A and C as cuBLASLt counts, columns first.

    Raises `DescriptionError` where columns overlap.
    """
    m, n, k = product.m, product.n, product.k
    b = (n, k) if product.order == "row" else (k, n)
    layouts = []
    for name, (rows, columns), stride in (
        ("B", b, place.b_stride),
        ("A", (k, m), place.a_stride),
        ("C", (n, m), place.c_stride),
    ):
        if columns > 1 and stride < rows:
            raise DescriptionError(
                f"{name} of {product} has a stride of {stride} elements; it must have {rows} or more"
            )
        layouts.append((rows, columns, max(stride, rows)))
    return layouts


def _gemm_ex(product: Product, place: Place) -> Run:
    """The product alone, by the kernel that `cublasGemmEx` chooses."""
    (_, _, b_stride), (k, m, a_stride), (n, _, c_stride) = _layouts(product, place)
    handle, gemm = gemm_handle(product.device), gemm_library().cublasGemmEx
    address, kind, said = ctypes.c_void_p(handle.address), TYPES[product.dtype], str(product)
    transposed = TRANSPOSED if product.order == "column" else 0

    def launch(a: int, b: int, c: int, workspace: int, stream: int) -> None:
        with handle.lock:
            status = handle.set(stream, workspace) or gemm(
                address, transposed, 0, n, m, k, ALPHA, b, kind, b_stride, a, kind, a_stride,
                BETA, c, kind, c_stride, COMPUTE_FP32, DEFAULT_ALGORITHM,
            )  # fmt: skip
        if status:
            check(status, said)

    return launch


def _algo(word: str) -> Any:
    return (ctypes.c_uint8 * ALGORITHM_BYTES).from_buffer_copy(bytes.fromhex(word))


def place_of(a: Matrix, b: Matrix, c: Matrix, bias: int) -> Place:
    """Where these matrices and the bias at that address lie."""
    low = a[0] | b[0] | c[0] | bias | LARGEST_ALIGNMENT
    return Place(a[1], b[1], c[1], bias, low & -low)


def _graph(turns: Sequence[tuple[Run, tuple[int, int, int, int]]], stream: Any) -> Any:
    """Runs, each on its addresses, one after the other, as a CUDA graph."""
    first, addresses = turns[0]
    first(*addresses, int(stream.ptr))  # loads the kernel, which a capture could not
    with stream:
        stream.begin_capture()
        for run, addresses in turns:
            run(*addresses, int(stream.ptr))
        return stream.end_capture()
