"""A call of `mlp` from its arguments to the launch: the way it takes, the addresses, what stands in."""

import math
import warnings
from types import SimpleNamespace

import pytest
from noted_gpu import NotedGpu

import wavesim_gpu
from wavesim.errors import CompileError, DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim_gpu.driver import cubin_cache
from wavesim_gpu.layers import mlp, prepared, tuning
from wavesim_gpu.layers import tuning_cache as kept
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.choose import LIBRARY, Choice
from wavesim_gpu.layers.description import MlpShape

WORD = "hopper persistent+pdl+row grouped:8 128x256 128x256"


class Way:
    """Notes the calls that it is given."""

    def __init__(self, label, shape):
        self.label, self.shape, self.scratch_bytes, self.calls = label, shape, 4096, []

    def run(self, call):
        self.calls.append(call)


@pytest.fixture
def ways():
    """Every way that was made, in order."""
    return []


@pytest.fixture
def gpu(monkeypatch, tmp_path, ways):
    gpu = NotedGpu()
    gpu.install(monkeypatch)
    for name in ("_chosen", "_forced"):
        monkeypatch.setattr(prepared, name, {})
    monkeypatch.setattr(prepared, "_said", set())
    monkeypatch.setattr(prepared, "_launched_by_graphs", [])
    monkeypatch.setattr(prepared, "raise_known_failures", lambda: None)
    prepared.layouts.clear()
    monkeypatch.setattr(cubin_cache, "_chosen", tmp_path)

    def made(label):
        def make(shape, *how):
            ways.append(Way(label, shape))
            return ways[-1]

        return make

    monkeypatch.setattr(prepared, "library_way", made(LIBRARY))
    monkeypatch.setattr(prepared, "planned_way", made("ours"))
    return gpu


def arrays(gpu, m=512, k=256, n1=512, n2=128):
    return [gpu.array((m, k)), gpu.array((k, n1)), gpu.array((n1, n2))]


def column_major(array):
    """The transposed view of an array (columns, rows)."""
    rows, columns = array.shape[::-1]
    return SimpleNamespace(
        **{**vars(array), "shape": (rows, columns), "strides": (array.dtype.itemsize, 2 * rows)}
    )


def fail(error):
    def make(*how):
        raise error

    return make


def test_the_call_has_the_arrays_addresses_and_strides_and_returns_what_it_writes(gpu, ways):
    x, w1, w2 = arrays(gpu)
    b1, b2 = gpu.array((512,)), gpu.array((128,))
    result = wavesim_gpu.mlp(x, w1, w2, activation="gelu", b1=b1, b2=b2)
    (way,) = ways
    (call,) = way.calls
    assert result.shape == (512, 128)
    assert (call.x, call.w1, call.w2, call.out) == tuple(a.data.ptr for a in (x, w1, w2, result))
    assert (call.b1, call.b2, call.w_gate, call.b_gate) == (b1.data.ptr, b2.data.ptr, 0, 0)
    assert (call.x_stride, call.w1_stride, call.w2_stride) == (256, 512, 128)
    assert (call.stream, call.device, call.is_captured) == (gpu.stream.ptr, 0, False)
    assert call.limit_ns == 30 * 10**9
    assert call.scratch % 256 == 0
    assert way.shape == MlpShape(512, 256, 512, 128, "fp16", "gelu", has_b1=True, has_b2=True)


def test_packed_gates_are_the_first_half_and_values_the_second(gpu, ways):
    x, w1, w2 = gpu.array((8, 64)), gpu.array((64, 256)), gpu.array((128, 32))
    b1 = gpu.array((256,))
    wavesim_gpu.mlp(x, w1, w2, activation="swiglu", b1=b1)
    columns = column_major(gpu.array((256, 64)))
    wavesim_gpu.mlp(x, columns, w2, activation="swiglu", b1=b1)
    rows, turned = (way.calls[0] for way in ways)
    assert (rows.w_gate, rows.w1, rows.w1_stride) == (w1.data.ptr, w1.data.ptr + 2 * 128, 256)
    assert (rows.b_gate, rows.b1) == (b1.data.ptr, b1.data.ptr + 2 * 128)
    start = columns.data.ptr
    assert (turned.w_gate, turned.w1, turned.w1_stride) == (start, start + 2 * 128 * 64, 64)


def test_a_shape_chooses_once_and_other_strides_take_the_same_way(gpu, ways):
    x, w1, w2 = arrays(gpu)
    for given in (x, gpu.array((2, 256, 256)), x):
        wavesim_gpu.mlp(given, w1, w2)
    wide = SimpleNamespace(**{**vars(x), "strides": (1024, 2)})
    wavesim_gpu.mlp(wide, w1, w2)
    (way,) = ways
    assert [call.x_stride for call in way.calls] == [256, 256, 256, 512]


def test_rows_without_a_stride_in_common_are_copied(gpu, ways):
    _, w1, w2 = arrays(gpu)
    x = SimpleNamespace(**{**vars(gpu.array((2, 8, 256))), "strides": (512, 1024, 2)})
    result = wavesim_gpu.mlp(x, w1, w2)
    (call,) = ways[0].calls
    assert call.x != x.data.ptr
    assert (call.x_stride, result.shape) == (256, (2, 8, 128))


def test_no_rows_launch_nothing(gpu, ways):
    _, w1, w2 = arrays(gpu)
    assert wavesim_gpu.mlp(gpu.array((0, 256)), w1, w2).shape == (0, 128)
    assert ways == []


def test_out_is_written_and_returned_and_must_lie_apart(gpu, ways):
    x, w1, w2 = arrays(gpu)
    out = gpu.array((512, 128))
    assert wavesim_gpu.mlp(x, w1, w2, out=out) is out
    assert ways[0].calls[0].out == out.data.ptr
    inside = SimpleNamespace(**{**vars(out), "data": SimpleNamespace(ptr=x.data.ptr + 64)})
    with pytest.raises(DescriptionError, match="out overlaps x"):
        wavesim_gpu.mlp(x, w1, w2, out=inside)


def test_what_is_simulated_fastest_is_launched(gpu, ways):
    x, w1, w2 = arrays(gpu, 3328, 12288, 6144, 12288)
    wavesim_gpu.mlp(x, w1, w2, activation="gelu")
    assert [way.label for way in ways] == ["ours"]
    found = mlp.way_of(x, w1, w2, activation="gelu")
    assert found.basis == "estimated"
    assert "128x256" in found.label
    assert found.gain_points > 2
    assert len(ways[0].calls) == 1


def test_our_kernels_get_no_odd_address_cublaslt_does(gpu, ways):
    prepared.force(MlpShape(512, 256, 512, 128, "fp16"), MlpCandidate.read(WORD))
    x, w1, w2 = arrays(gpu)
    odd = SimpleNamespace(**{**vars(x), "data": SimpleNamespace(ptr=x.data.ptr + 2)})
    odd_rows = SimpleNamespace(**{**vars(x), "strides": (514, 2)})
    for given in (x, odd, odd_rows):
        wavesim_gpu.mlp(given, w1, w2)
    assert [(way.label, len(way.calls)) for way in ways] == [("ours", 1), (LIBRARY, 2)]


@pytest.mark.parametrize("error", [CompileError("no wgmma"), DeviceError("no Hopper"), ImportError("gone")])
def test_a_way_of_ours_that_cannot_be_had_is_told_once_and_cublaslt_stands_in(gpu, ways, monkeypatch, error):
    monkeypatch.setattr(prepared, "planned_way", fail(error))
    for m in (512, 1024):
        prepared.force(MlpShape(m, 256, 512, 128, "fp16"), MlpCandidate.read(WORD))
    with pytest.warns(RuntimeWarning, match=f"uses cublaslt: hopper .* cannot run: {error}") as told:
        wavesim_gpu.mlp(*arrays(gpu))
    assert len(told) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wavesim_gpu.mlp(*arrays(gpu, 1024))
    assert [way.label for way in ways] == [LIBRARY, LIBRARY]
    assert mlp.way_of(*arrays(gpu)).label == LIBRARY


def test_where_nothing_can_be_had_cupys_arrays_get_an_error_that_says_both_reasons(gpu, monkeypatch):
    monkeypatch.setattr(prepared, "planned_way", fail(CompileError("no wgmma")))
    monkeypatch.setattr(prepared, "library_way", fail(DeviceError("no libcublasLt")))
    prepared.force(MlpShape(512, 256, 512, 128, "fp16"), MlpCandidate.read(WORD))
    with (
        pytest.warns(RuntimeWarning, match="operations of the arrays' own library"),
        pytest.raises(DeviceError, match=r"no wgmma; cuBLASLt neither: no libcublasLt"),
    ):
        wavesim_gpu.mlp(*arrays(gpu))


def test_a_capture_needs_one_call_before_and_none_of_another_layout(gpu, ways):
    x, w1, w2 = arrays(gpu)
    gpu.is_capturing = True
    with pytest.raises(
        DescriptionError, match=r"mlp of \(512, 256, 512, 128\) fp16 is captured .* call it once"
    ):
        wavesim_gpu.mlp(x, w1, w2)
    gpu.is_capturing = False
    wavesim_gpu.mlp(x, w1, w2)
    gpu.is_capturing = True
    wavesim_gpu.mlp(gpu.array((2, 256, 256)), w1, w2)
    (way,) = ways
    assert [call.is_captured for call in way.calls] == [False, True]
    assert [chosen.way for chosen in prepared._launched_by_graphs] == [way]


def test_failures_of_earlier_calls_are_raised_first_but_not_while_a_graph_is_captured(gpu, ways, monkeypatch):
    x, w1, w2 = arrays(gpu)
    wavesim_gpu.mlp(x, w1, w2)
    monkeypatch.setattr(prepared, "raise_known_failures", fail(DeviceError("an earlier call")))
    with pytest.raises(DeviceError, match="an earlier call"):
        wavesim_gpu.mlp(x, w1, w2)
    gpu.is_capturing = True
    wavesim_gpu.mlp(x, w1, w2)
    assert len(ways[0].calls) == 2


@pytest.mark.parametrize("limit_s", [0, -1, math.nan, math.inf, 1e9, 10**400, "3 s", None])
def test_a_limit_that_is_none_is_refused_in_one_line(gpu, limit_s):
    with pytest.raises(DescriptionError, match=r"limit_s is .*; it must be a number from") as caught:
        wavesim_gpu.mlp(*arrays(gpu), limit_s=limit_s)
    assert "\n" not in str(caught.value)


def test_the_time_limit_reaches_the_launch(gpu, ways):
    x, w1, w2 = arrays(gpu)
    wavesim_gpu.mlp(x, w1, w2, limit_s=0.25)
    wavesim_gpu.mlp(x, w1, w2)
    assert [call.limit_ns for call in ways[0].calls] == [250_000_000, 30_000_000_000]


def test_tuning_is_asked_for_once_and_not_in_a_capture(gpu, ways, monkeypatch):
    tuned = Way("tuned", None)

    def tune(layout):
        prepared.pin_choice(layout, Choice("tuned", 90.0, 100.0, "measured"), tuned)

    monkeypatch.setattr(tuning, "tune", tune)
    x, w1, w2 = arrays(gpu)
    wavesim_gpu.mlp(x, w1, w2)
    gpu.is_capturing = True
    with pytest.raises(DescriptionError, match="tuned while a graph is captured"):
        wavesim_gpu.mlp(x, w1, w2, tune=True)
    gpu.is_capturing = False
    for tune_too in (True, True, False):
        wavesim_gpu.mlp(x, w1, w2, tune=tune_too)
    assert len(tuned.calls) == 3
    assert mlp.way_of(x, w1, w2).basis == "measured"


def test_what_another_process_tuned_is_taken_at_once(gpu, ways, monkeypatch):
    monkeypatch.setattr(prepared, "used_software", lambda: {"driver": "1"})
    shape, device = MlpShape(512, 256, 512, 128, "fp16"), prepared.query()
    choice = Choice(WORD, 90.0, 100.0, "measured", MlpCandidate.read(WORD))
    kept.keep(choice, shape, device, {"driver": "1"})
    assert mlp.way_of(*arrays(gpu)) == choice
    assert [way.label for way in ways] == ["ours"]


def test_a_plan_that_could_hold_the_gpu_for_ever_is_not_run_whoever_names_it(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(prepared, "query", lambda: load("h200"))
    shape = MlpShape(512, 256, 512, 128, "fp16")
    for reason, is_safe, basis in (("it can starve", False, "cuda"), ("it was seen", True, "seen")):
        verdict = SimpleNamespace(is_safe=is_safe, basis=basis, reason=reason)
        monkeypatch.setattr(prepared, "launched_safety", lambda *how, verdict=verdict: verdict)
        with pytest.raises(DescriptionError, match=reason):
            prepared.planned_way(shape, MlpCandidate.read(WORD))


def test_many_shapes_are_forgotten_but_for_what_a_graph_launches(gpu, ways, monkeypatch):
    monkeypatch.setattr(prepared, "MOST_KEPT", 3)
    _, w1, w2 = arrays(gpu)
    wavesim_gpu.mlp(gpu.array((1, 256)), w1, w2)
    gpu.is_capturing = True
    wavesim_gpu.mlp(gpu.array((1, 256)), w1, w2)
    gpu.is_capturing = False
    for m in range(2, 7):
        wavesim_gpu.mlp(gpu.array((m, 256)), w1, w2)
    assert len(prepared._chosen) == 3
    assert prepared._launched_by_graphs[0].way is ways[0]


def test_a_call_that_goes_well_warns_of_nothing(gpu):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wavesim_gpu.mlp(*arrays(gpu))
