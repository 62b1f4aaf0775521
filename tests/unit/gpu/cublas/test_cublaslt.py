"""Products by cuBLAS: what is asked of it, what is refused, and what is kept."""

import ctypes
import gc
import re

import numpy as np
import pytest
from pretended_cublas import WORKSPACE, PretendedStream, pretend, stored

from wavesim.errors import DescriptionError, DeviceError
from wavesim_gpu.cublas import cublas_library, cublaslt
from wavesim_gpu.cublas.cublaslt import Product


@pytest.fixture
def cublas(monkeypatch):
    return pretend(monkeypatch)[0]


def aligned(count, offset=0):
    """Zeros of 16 bits that begin `offset` bytes behind a multiple of 256."""
    raw = np.zeros(2 * count + 512, np.uint8)
    start = -raw.ctypes.data % 256 + offset
    return raw[start : start + 2 * count].view(np.uint16)


def launch(product, a, b, c, bias=0, strides=None):
    n, k = product.n, product.k
    a_stride, b_stride, c_stride = strides or (k, n if product.order == "row" else k, n)
    matrices = [(one.ctypes.data, stride) for one, stride in ((a, a_stride), (b, b_stride), (c, c_stride))]
    product.launch(*matrices, bias, 0, 5)


@pytest.mark.parametrize(("offset", "alignment"), [(0, 256), (32, 32), (16, 16), (2, 2), (6, 2)])
def test_the_heuristic_hears_how_the_addresses_are_aligned(cublas, offset, alignment):
    product = Product(8, 16, 32, "bf16")
    launch(product, aligned(8 * 32), aligned(32 * 16, offset), aligned(8 * 16))
    assert cublas.alignments == [[alignment] * 4]


def test_it_is_asked_once_for_each_place_and_descriptors_go_with_the_product(cublas):
    product = Product(8, 16, 32, "bf16", "column", "gelu")
    bias = stored(np.ones(16), "bf16")
    a, b, c = aligned(8 * 40), aligned(32 * 16), aligned(8 * 16)
    for _ in range(3):
        launch(product, a, b, c)
        launch(product, a, b, c, strides=(40, 32, 16))
        launch(product, a, b, c, bias=bias.ctypes.data)
    # What fuses is looked for with little workspace first, where the heuristic does not split K.
    assert cublas.workspaces == [1 << 20, cublaslt.workspace_bytes()] * 3
    assert len(cublas.products) == 9
    kept = len(cublas.things)
    del product
    gc.collect()
    assert len(cublas.things) < kept
    assert len(cublas.things) == 1  # the handle


def test_no_more_places_are_kept_than_are_allowed(cublas, monkeypatch):
    monkeypatch.setattr(cublaslt, "MOST_PLACES", 4)
    product = Product(2, 8, 8, "bf16")
    a, b, c = aligned(100), aligned(64), aligned(16)
    for stride in range(8, 24):
        launch(product, a, b, c, strides=(stride, 8, 8))
    assert len(product._runs) <= 4


@pytest.mark.parametrize(
    ("strides", "words"),
    [((31, 16, 16), "A of"), ((32, 15, 16), "B of"), ((32, 16, 0), "C of")],
)
def test_rows_that_overlap_are_refused_by_name(cublas, strides, words):
    product = Product(8, 16, 32, "bf16")
    with pytest.raises(DescriptionError, match=rf"^{words} \(8, 32\) x \(32, 16\) bf16.* it must have"):
        launch(product, aligned(8 * 32), aligned(32 * 16), aligned(8 * 16), strides=strides)
    assert cublas.products == []


def test_one_row_may_have_any_stride(cublas):
    product = Product(1, 16, 32, "bf16")
    launch(product, aligned(32), aligned(32 * 16), aligned(16), strides=(0, 16, 0))
    assert cublas.products == [("gemm-ex", 16, 1, 32, (None, False))]


@pytest.mark.parametrize(("m", "activation", "has_bias"), [(2, None, 0), (1, "gelu", 0), (1, None, 1)])
def test_cublaslt_has_more_rows_and_what_it_can_fuse(cublas, m, activation, has_bias):
    product, bias = Product(m, 16, 32, "bf16", activation=activation), aligned(16)
    a, b, c = aligned(2 * 32), aligned(32 * 16), aligned(2 * 16)
    launch(product, a, b, c, bias=bias.ctypes.data * has_bias)
    assert cublas.products == [("lt 1", 16, m, 32, (activation, bool(has_bias)))]


@pytest.mark.parametrize("algorithm", [None, "gemm-ex"])
def test_a_refusal_names_status_and_product(cublas, algorithm):
    product = Product(8, 16, 32, "bf16", "column", algorithm=algorithm)
    cublas.status = 13
    words = "cuBLAS refused (8, 32) x (32, 16) bf16 column no activation with status 13 (execution failed)"
    with pytest.raises(DeviceError, match=f"^{re.escape(words)}$"):
        launch(product, aligned(8 * 32), aligned(32 * 16), aligned(8 * 16))


def test_an_unknown_algorithm_is_refused_where_it_is_asked_for(cublas):
    place = cublaslt.Place(32, 16, 16, 0, 256)
    with pytest.raises(DeviceError, match="does not do for"):
        Product(8, 16, 32, "bf16").prepared(place, "ff" * 64)


def test_the_algorithms_of_a_place_end_with_that_of_cublas(cublas):
    found = Product(8, 16, 32, "bf16").algorithms(cublaslt.Place(32, 16, 16, 0, 256))
    assert [word[:2] for word in found] == ["01", "02", "03", "ge"]


def test_without_cublas_the_error_names_the_package(monkeypatch):
    def missing(name, mode=0):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(DeviceError, match=r"^libcublasLt\.so cannot be loaded .*pip install nvidia-cublas"):
        cublas_library._loaded("cublasLt", cublas_library.LT_FUNCTIONS)


def test_a_library_that_lacks_a_function_is_too_old(monkeypatch):
    monkeypatch.setattr(cublas_library, "_in_process", lambda name: ctypes.pythonapi)
    with pytest.raises(DeviceError, match=r"^libcublasLt\.so is too old \(.*pip install nvidia-cublas"):
        cublas_library._loaded("cublasLt", cublas_library.LT_FUNCTIONS)


def test_a_library_that_the_process_has_loaded_is_taken_first(monkeypatch):
    asked = []

    class Loaded:
        def __init__(self, name, mode=0):
            asked.append((name, bool(mode & 4)))  # RTLD_NOLOAD
            if name.endswith("13"):
                raise OSError("not loaded")

        def __getattr__(self, name):
            function = lambda *args: 0  # noqa: E731  # takes attributes, as a function of a library does
            setattr(self, name, function)
            return function

    monkeypatch.setattr(ctypes, "CDLL", Loaded)
    found = cublas_library._loaded("cublasLt", cublas_library.LT_FUNCTIONS)
    assert asked == [("libcublasLt.so.13", True), ("libcublasLt.so.12", True)]
    assert found.cublasLtMatmul.argtypes == cublas_library.LT_FUNCTIONS["cublasLtMatmul"]
    assert found.cublasLtGetVersion.restype is ctypes.c_size_t


def test_the_structure_of_a_result_is_as_long_as_the_headers_say():
    assert ctypes.sizeof(cublas_library.Found) == 96
    assert WORKSPACE % 256 == 0


@pytest.fixture
def timing(monkeypatch):
    """Times of 4, 2, 3 and 5 us; notes how often each contender repeats its product."""
    repeats = []

    def interleaved(contenders, rounds):
        repeats.extend(one.repeats for one in contenders)
        return [[1000 * time] * rounds for time in (4, 2, 3, 5)]

    monkeypatch.setattr(cublaslt, "require_cupy", lambda: PretendedStream().cupy)
    monkeypatch.setattr(cublaslt, "interleaved_ns", interleaved)
    return repeats


@pytest.mark.parametrize(("count", "repeats"), [(1, 8), (3, 9), (16, 16)])
def test_tuning_keeps_the_fastest_and_takes_all_weights_in_turns(cublas, timing, count, repeats):
    product = Product(8, 16, 32, "bf16")
    a, c = aligned(8 * 32), aligned(8 * 16)
    weights = [aligned(32 * 16) for _ in range(count)]
    matrices = [(one.ctypes.data, 16) for one in weights]
    best = product.tune((a.ctypes.data, 32), matrices, (c.ctypes.data, 16), 0, 0, PretendedStream())
    assert best == product.algorithm == "02" + "00" * 63
    assert timing == [repeats] * 4
    assert [one[0] for one in cublas.products].count("gemm-ex") == repeats + 1
    launch(product, a, weights[0], c)
    assert cublas.products[-1][0] == "lt 2"


def test_tuning_allows_only_what_all_weights_are_aligned_for(cublas, timing):
    product = Product(8, 16, 32, "bf16")
    a, c = aligned(8 * 32), aligned(8 * 16)
    weights = [aligned(32 * 16), aligned(32 * 16, 32)]
    matrices = [(one.ctypes.data, 16) for one in weights]
    product.tune((a.ctypes.data, 32), matrices, (c.ctypes.data, 16), 0, 0, PretendedStream())
    assert cublas.alignments == [[32] * 4]
