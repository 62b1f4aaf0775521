"""cuBLAS and a launcher that read host memory as the real ones read a GPU's, through the same C signatures.

What a product or an element-wise launch was told by address, size, order and stride is computed with NumPy,
as cuBLAS's documentation says: columns first, and one bias for each row.
"""

import ctypes
import struct
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np

from wavesim_gpu.cublas import cublas_library, cublaslt, product_pair
from wavesim_gpu.driver import driver_api
from wavesim_gpu.driver.element_types import from_float32, to_float32
from wavesim_gpu.kernels.elementwise import elementwise

WORKSPACE = 1 << 20
KINDS = {number: name for name, number in cublas_library.TYPES.items()}
EPILOGUES = {number: what for what, number in cublaslt.EPILOGUES.items()}
ALL = tuple(EPILOGUES.values())
ALGORITHM_BYTES = 64
PARAMETERS = struct.Struct("=5Q5qi4x")


def stored(values, dtype):
    """Floats as fp16, or as bf16's bits."""
    return from_float32(np.asarray(values, np.float32), dtype)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def erf(x):
    """Abramowitz and Stegun 7.1.26, within 1.5e-7."""
    t = 1 / (1 + 0.3275911 * np.abs(x))
    powers = ((((1.061405429 * t - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
    return np.sign(x) * (1 - powers * np.exp(-x * x))


ACTIVATED = {
    None: lambda x: x,
    "relu": lambda x: np.maximum(x, 0),
    "gelu": gelu,
    "gelu-exact": lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


def matrix_at(address, rows, columns, stride, dtype, *, is_writeable=False):
    """(rows, columns) elements, `stride` elements from row to row."""
    element = np.float16 if dtype == "fp16" else np.uint16
    raw = (ctypes.c_uint16 * ((rows - 1) * stride + columns)).from_address(address)
    flat = np.frombuffer(raw, element)
    flat.flags.writeable = is_writeable
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (2 * stride, 2), writeable=is_writeable)


class PretendedCublas:
    """Both libraries. `products` notes each one's function, its m, n, k as cuBLAS has them, its epilogue."""

    def __init__(self, epilogues=ALL, offers=3):
        self.epilogues, self.offers = epilogues, offers
        self.things, self.products, self.alignments, self.streams = {}, [], [], []
        self.workspaces = []  # that the heuristic was told of
        self.version = 130101
        self.status = 0
        for table in (cublas_library.LT_FUNCTIONS, cublas_library.FUNCTIONS):
            for name, types in table.items():
                result = ctypes.c_size_t if name.endswith("GetVersion") else ctypes.c_int
                setattr(self, name, ctypes.CFUNCTYPE(result, *types)(self._called(name)))

    def _called(self, name):
        if name.endswith("Create") or name == "cublasCreate_v2":
            return self._create
        if name.endswith("SetAttribute"):
            return self._set
        if name.endswith("Destroy"):
            return self._destroy
        return getattr(self, f"_{name.removeprefix('cublas').removesuffix('_v2')}")

    def _create(self, out, *arguments):
        number = (max(self.things, default=0) or 4096) + 16
        self.things[number] = {"made": arguments}
        ctypes.c_void_p.from_address(out).value = number
        return 0

    def _set(self, thing, attribute, value, size):
        self.things[thing][attribute] = int.from_bytes(ctypes.string_at(value, size), "little")
        return 0

    def _destroy(self, thing):
        del self.things[thing]
        return 0

    def _LtGetVersion(self):  # cuBLASLt's name
        return self.version

    def _LtMatmulAlgoGetHeuristic(self, handle, desc, a, b, c, d, preference, wanted, results, count):  # noqa: PLR0917
        wish = self.things[preference]
        self.workspaces.append(wish[1])
        self.alignments.append([wish[attribute] for attribute in (5, 6, 7, 8)])
        offers = min(wanted, self.offers) if EPILOGUES[self.things[desc][7]] in self.epilogues else 0
        ctypes.c_int.from_address(count).value = offers
        for index in range(offers):
            one = cublas_library.Found.from_address(results + index * ctypes.sizeof(cublas_library.Found))
            one.algo[0], one.state = index + 1, 0
        return 0 if offers else 15

    def _LtMatmulAlgoCheck(self, handle, desc, a, b, c, d, algo, found):
        is_known = ctypes.string_at(algo, ALGORITHM_BYTES)[0] in range(1, self.offers + 1)
        return 0 if is_known and EPILOGUES[self.things[desc][7]] in self.epilogues else 15

    def _LtMatmul(self, *arguments):
        (
            _,
            desc,
            alpha,
            a,
            a_layout,
            b,
            b_layout,
            beta,
            c,
            c_layout,
            d,
            d_layout,
            algo,
            _,
            size,
            stream,
        ) = arguments
        assert (c, c_layout, size) == (d, d_layout, WORKSPACE)
        assert (ctypes.c_float.from_address(alpha).value, ctypes.c_float.from_address(beta).value) == (1, 0)
        told = self.things[desc]
        layouts = [(*self.things[one]["made"], one) for one in (a_layout, b_layout, c_layout)]
        (kind, rows, depth, a_ld, _), (_, k, m, b_ld, _), (_, n, _, c_ld, _) = layouts
        if told[3]:
            assert (rows, depth) == (k, n)
        else:
            assert (rows, depth) == (n, k)
        activation, has_bias = EPILOGUES[told[7]]
        bias = told[8] if has_bias else 0
        self.streams.append(stream)
        word = ctypes.string_at(algo, ALGORITHM_BYTES)[0]
        self.products.append((f"lt {word}", n, m, k, (activation, has_bias)))
        told_layouts = [self.things[one] for one in (a_layout, b_layout, c_layout)]
        counts, steps = ([one.get(attribute, 0) for one in told_layouts] for attribute in (5, 6))
        assert counts in ([0, 0, 0], [2, 2, 2])
        for turn in range(max(1, counts[0])):
            at = [address + 2 * turn * step for address, step in zip((a, b, c), steps, strict=True)]
            matrices = list(zip(at, (a_ld, b_ld, c_ld), strict=True))
            self._multiply(KINDS[kind], told[3], (n, m, k), *matrices, bias, activation)
        return self.status

    def _SetStream(self, handle, stream):
        self.things[handle]["stream"] = stream
        self.things[handle].pop("workspace", None)  # as documented
        return 0

    def _SetWorkspace(self, handle, address, size):
        self.things[handle]["workspace"] = address, size
        return 0

    def _GemmEx(self, handle, trans_a, trans_b, n, m, k, alpha, a, kind, a_ld, b, _, b_ld, beta, c, *rest):  # noqa: PLR0917
        _, c_ld, compute, algorithm = rest
        assert (trans_b, compute, algorithm) == (0, 68, -1)
        assert self.things[handle]["workspace"][1] == WORKSPACE
        self.streams.append(self.things[handle]["stream"])
        self.products.append(("gemm-ex", n, m, k, (None, False)))
        self._multiply(KINDS[kind], trans_a, (n, m, k), (a, a_ld), (b, b_ld), (c, c_ld), 0, None)
        return self.status

    def _multiply(self, dtype, is_transposed, sizes, a, b, c, bias, activation):
        """Columns first, so that each matrix is read as the transpose of a row-major one."""
        n, m, k = sizes
        first = to_float32(matrix_at(a[0], *((n, k) if is_transposed else (k, n)), a[1], dtype), dtype)
        second = to_float32(matrix_at(b[0], m, k, b[1], dtype), dtype)
        out = matrix_at(c[0], m, n, c[1], dtype, is_writeable=True)
        product = second @ (first.T if is_transposed else first)
        if bias:
            product = product + to_float32(matrix_at(bias, 1, n, n, dtype), dtype)
        out[:] = stored(ACTIVATED[activation](product), dtype)


class PretendedLauncher:
    """`cuLaunchKernel` for the element-wise kernels; `launches` notes name and grid of each."""

    def __init__(self):
        self.launches, self.streams, self.names = [], [], {}

    def load(self, source, name, build):
        return SimpleNamespace(function=SimpleNamespace(ptr=self.names.setdefault(name, len(self.names) + 1)))

    def cuLaunchKernelEx(self, config, kernel, pointers, extra):  # the driver's name
        assert extra is None
        assert pointers[0] == config.value + elementwise.CONFIG_BYTES
        told = driver_api.LaunchConfig.from_address(config.value)
        (blocks, rows_at_once, depth), (threads, *ones) = told.grid, told.block
        assert (depth, ones, told.dynamic_shared_bytes, told.attribute_count) == (1, [1, 1], 0, 0)
        name = next(name for name, number in self.names.items() if number == kernel.value)
        self.launches.append((name, blocks, rows_at_once))
        self.streams.append(told.stream)
        text = ctypes.string_at(pointers[0], PARAMETERS.size)
        gate, value, out, b_gate, b_value, *strides, rows, columns, activation = PARAMETERS.unpack(text)
        width = 1 if name.endswith("unaligned") else elementwise.WIDTH
        assert (blocks - 1) * threads * width < columns <= blocks * threads * width
        if width > 1:
            assert not (gate | value | out | b_gate | b_value) % 16
            assert rows == 1 or not any(stride % 8 for stride in strides)
        dtype = name.split("_")[1]
        word = next(word for word, number in elementwise.ACTIVATIONS.items() if number == activation)

        def biased(address, stride, bias):
            found = to_float32(matrix_at(address, rows, columns, stride, dtype), dtype)
            return found + to_float32(matrix_at(bias, 1, columns, columns, dtype), dtype) if bias else found

        result = biased(value, strides[1], b_value)
        result = (
            result * ACTIVATED[word](biased(gate, strides[0], b_gate)) if gate else ACTIVATED[word](result)
        )
        matrix_at(out, rows, columns, strides[2], dtype, is_writeable=True)[:] = stored(result, dtype)
        return 0


class PretendedStream:
    """One of CuPy's that captures nothing: what is launched on it runs at once. `cupy` makes others."""

    ptr = 77

    def __init__(self, non_blocking=False):
        self.cupy = SimpleNamespace(cuda=SimpleNamespace(Stream=PretendedStream))

    def __enter__(self):
        return self

    def __exit__(self, *caught):
        return False

    def synchronize(self):
        pass

    def begin_capture(self):
        pass

    def end_capture(self):
        return SimpleNamespace(launch=lambda stream: None)


def pretend(monkeypatch, **how):
    """Puts both in place; returns them."""
    cublas, launcher = PretendedCublas(**how), PretendedLauncher()
    for module in (cublas_library, cublaslt):
        for name in ("library", "gemm_library"):
            monkeypatch.setattr(module, name, lambda: cublas)
        monkeypatch.setattr(module, "workspace_bytes", lambda: WORKSPACE)
        monkeypatch.setattr(module, "current_device", lambda: 0)
    monkeypatch.setattr(cublas_library, "_lt_handles", {})
    monkeypatch.setattr(cublas_library, "_handles", {})
    for module in (cublaslt, product_pair):
        monkeypatch.setattr(module, "allowed_while_capturing", nullcontext)
    monkeypatch.setattr(elementwise, "load_function", launcher.load)
    monkeypatch.setattr(elementwise, "require_driver", lambda: launcher)
    monkeypatch.setattr(elementwise, "current_context", lambda: 0)
    return cublas, launcher
