"""`PlannedMlp` on a GPU: right eager, replayed, from threads and streams; NaN and named where it fails."""

import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
from test_gpu_library_mlp import FORMS, Case

from wavesim.plan.parsing import parse_plan
from wavesim_gpu.driver.element_types import TOLERANCE
from wavesim_gpu.layers.calls import FailedCallsError, check, process_log
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.description import MlpCall, MlpShape
from wavesim_gpu.layers.planned import PlannedMlp

pytestmark = pytest.mark.gpu

LIMIT_NS, TOO_SHORT_NS = 5_000_000_000, 1
CANDIDATES = (
    "portable stream row 64x64 64x64",
    "portable stream row 128x128 128x128/2",
    "hopper stream row 128x256 128x192",
    "hopper pdl row 64x256 64x128/2",
    "hopper pdl+row row 64x128 64x128",
    "hopper pdl+row grouped:4 64x256 64x192/3",
    "hopper pdl+row grouped:2 128x192 64x128",
    "hopper persistent+pdl+tile row 64x128 128x256",
    "hopper pdl+tile row 128x128 128x128",
    "hopper persistent-stream row 128x256 128x256",
    "hopper persistent+pdl+boundary row 128x256 128x256",
    "hopper persistent+pdl+row grouped:4 64x192 64x256",
    "hopper persistent:row row 128x192 128x192",
    "hopper persistent:tile grouped:2 64x192 64x192",
)
WAITING = tuple(text for text in CANDIDATES if "+row" in text or "+tile" in text or "persistent:" in text)
SHAPE = MlpShape(333, 512, 768, 520, "bf16", "gelu")
SLOW = MlpShape(256, 16384, 512, 512, "fp16")  # its first product takes far longer than a look at a semaphore


def is_waiting(text):
    return text in WAITING


class Calls:
    """A way of a candidate's, operands of its own, and calls on any stream."""

    def __init__(self, cupy, text, shape=SHAPE, seed=0, **options):
        self.cupy, self.shape = cupy, shape
        pipeline, plan = MlpCandidate.read(text).planned(shape)
        self.way = PlannedMlp(shape, pipeline, plan, **options)
        self.generator = cupy.random.RandomState(seed)
        self.x = self._random((shape.m, shape.k), 1.0)
        self.w1 = self._random((shape.k, shape.n1), shape.k**-0.5)
        self.w2 = self._random((shape.n1, shape.n2), shape.n1**-0.5)

    def _random(self, size, scale):
        return self._rounded(self.generator.standard_normal(size, dtype="float32") * self.cupy.float32(scale))

    def _rounded(self, values):
        if self.shape.dtype == "fp16":
            return values.astype("float16")
        bits = values.view("uint32")
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("uint16")

    def _exact(self, values):
        if self.shape.dtype == "fp16":
            return values.astype("float32")
        return (values.astype("uint32") << 16).view("float32")

    def buffers(self):
        """Output and scratch, all NaN."""
        cupy = self.cupy
        out = cupy.full((self.shape.m, self.shape.n2), 0x7FFF, "uint16").view(self.x.dtype)
        return SimpleNamespace(out=out, scratch=cupy.full(max(1, self.way.scratch_bytes), 0xFF, "uint8"))

    def run(self, buffers, x=None, stream=None, *, is_captured=False, limit_ns=LIMIT_NS):
        stream = stream or self.cupy.cuda.get_current_stream()
        k, n1, n2 = self.shape.k, self.shape.n1, self.shape.n2
        x = self.x if x is None else x
        arrays = (x.data.ptr, k, self.w1.data.ptr, n1, self.w2.data.ptr, n2, buffers.out.data.ptr)
        places = (buffers.scratch.data.ptr, stream.ptr, 0, is_captured, limit_ns)
        self.way.run(MlpCall(*arrays, *places))

    def error(self, buffers, x=None):
        """Relative to a float32 reference from the same rounded numbers."""
        cupy = self.cupy
        middle = self._exact(self.x if x is None else x) @ self._exact(self.w1)
        if self.shape.activation == "gelu":
            inner = cupy.float32(0.7978845608028654) * (middle + cupy.float32(0.044715) * middle**3)
            middle = cupy.float32(0.5) * middle * (cupy.float32(1) + cupy.tanh(inner))
        wanted = self._exact(self._rounded(middle)) @ self._exact(self.w2)
        return float(cupy.linalg.norm(self._exact(buffers.out) - wanted) / cupy.linalg.norm(wanted))

    def is_right(self, buffers, x=None):
        return self.error(buffers, x) <= TOLERANCE[self.shape.dtype]

    def is_nan(self, buffers):
        return bool(self.cupy.isnan(self._exact(buffers.out)).all())


@pytest.mark.parametrize("text", CANDIDATES)
@pytest.mark.parametrize("follows_closely", [True, False], ids=["closely", "apart"])
def test_every_plan_is_right_call_after_call(cupy, text, follows_closely):
    calls = Calls(cupy, text, follows_closely=follows_closely)
    made = [calls.buffers() for _ in range(20)]
    for buffers in made:
        calls.run(buffers)
    check()
    assert all(calls.is_right(buffers) for buffers in made)


@pytest.mark.parametrize("plan", ["pdl+row grouped:2", "persistent:row row"])
@pytest.mark.parametrize(("activation", "gate"), FORMS)
@pytest.mark.parametrize("order", ["row", "column"])
def test_every_form_is_right_with_parameters_made_for_other_addresses(cupy, plan, activation, gate, order):
    candidate = MlpCandidate.read(f"hopper {plan} 128x256 128x256")
    for sizes in ((7, 328, 392, 136), (333, 512, 1024, 264)):
        shape = MlpShape(*sizes, "bf16", activation, gate, order, order, has_b1=True, has_b2=True)
        way = PlannedMlp(shape, *candidate.planned(shape))
        for seed in range(2):
            case = Case(cupy, shape, seed=seed, gap=8, offset=8).give_memory(way)
            case.call.limit_ns = LIMIT_NS
            way.run(case.call)
            assert case.is_right, (sizes, seed)
    check()


@pytest.mark.parametrize("text", CANDIDATES)
def test_one_set_of_buffers_serves_calls_that_follow_each_other_with_other_inputs(cupy, text):
    """Each overwrites what the one before read, on its heels."""
    calls, buffers = Calls(cupy, text), None
    inputs, kept = [calls._random((SHAPE.m, SHAPE.k), 1.0) for _ in range(4)], []
    buffers, x = calls.buffers(), calls.x.copy()
    for i in range(200):
        x[...] = inputs[i % 4]
        calls.run(buffers, x)
        kept.append(buffers.out.copy())
    check()
    for i in range(4):
        buffers.out = kept[i]
        assert calls.is_right(buffers, inputs[i])
        assert all(bool((kept[j] == kept[i]).all()) for j in range(i, 200, 4))


@pytest.mark.parametrize("text", CANDIDATES)
def test_graphs_are_right_with_eager_calls_between_their_replays(cupy, text):
    calls, stream = Calls(cupy, text), cupy.cuda.Stream(non_blocking=True)
    captured, eager = [calls.buffers() for _ in range(2)], calls.buffers()
    cupy.cuda.Device().synchronize()
    with stream:
        calls.run(eager)
        stream.begin_capture()
        for buffers in captured:  # behind a memset, then behind a kernel
            cupy.cuda.runtime.memsetAsync(buffers.out.data.ptr, 0xFF, buffers.out.nbytes, stream.ptr)
            calls.run(buffers, is_captured=True)
            calls.run(buffers, is_captured=True)
        graph = stream.end_capture()
        for _ in range(10):
            for buffers in captured:
                buffers.out.view("uint16")[...] = 0x7FFF
            graph.launch(stream)
            eager.out.view("uint16")[...] = 0x7FFF
            calls.run(eager)
            stream.synchronize()
            assert all(calls.is_right(buffers) for buffers in (*captured, eager))
    check()


@pytest.mark.parametrize("text", WAITING)
def test_a_call_is_captured_where_two_streams_have_joined(cupy, text):
    calls, buffers = Calls(cupy, text), Calls(cupy, text).buffers()
    stream, other = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
    x = cupy.empty_like(calls.x)
    cupy.cuda.Device().synchronize()
    with stream:
        calls.run(buffers)
        stream.synchronize()
        stream.begin_capture()
        forked, joined = (cupy.cuda.Event(disable_timing=True) for _ in range(2))
        forked.record(stream)
        other.wait_event(forked)
        cupy.cuda.runtime.memcpyAsync(x.data.ptr, calls.x.data.ptr, x.nbytes, 3, other.ptr)
        cupy.cuda.runtime.memsetAsync(buffers.out.data.ptr, 0xFF, buffers.out.nbytes, stream.ptr)
        joined.record(other)
        stream.wait_event(joined)
        calls.run(buffers, x, is_captured=True)
        graph = stream.end_capture()
        for _ in range(5):
            x[...] = 0
            graph.launch(stream)
            stream.synchronize()
            assert calls.is_right(buffers)
    check()


@pytest.mark.parametrize("text", WAITING)
def test_two_graphs_and_eager_calls_on_three_streams_at_once_do_not_meet(cupy, text):
    calls = Calls(cupy, text)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(3)]
    made, graphs = [calls.buffers() for _ in streams], []
    cupy.cuda.Device().synchronize()
    for stream, buffers in zip(streams[:2], made, strict=False):
        with stream:
            stream.begin_capture()
            calls.run(buffers, is_captured=True)
            graphs.append(stream.end_capture())
    for _ in range(50):
        for graph, stream in zip(graphs, streams, strict=False):
            graph.launch(stream)
        calls.run(made[2], stream=streams[2])
    check()
    assert all(calls.is_right(buffers) for buffers in made)


@pytest.mark.parametrize("text", WAITING)
def test_threads_on_two_streams_are_right_and_one_that_used_no_gpu_before_too(cupy, text):
    calls = Calls(cupy, text)
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    made = [[calls.buffers() for _ in range(25)] for _ in range(4)]
    cupy.cuda.Device().synchronize()

    def work(thread):
        for buffers in made[thread]:
            calls.run(buffers, stream=streams[thread % 2])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    check()
    assert all(calls.is_right(buffers) for own in made for buffers in own)


def test_streams_that_come_and_go_and_may_have_an_address_again(cupy):
    calls, made = Calls(cupy, CANDIDATES[4]), []
    for _ in range(200):
        stream = cupy.cuda.Stream(non_blocking=True)
        made.append(calls.buffers())
        cupy.cuda.get_current_stream().synchronize()
        calls.run(made[-1], stream=stream)
        del stream
    check()
    assert all(calls.is_right(buffers) for buffers in made)


@pytest.mark.parametrize("text", WAITING)
def test_a_call_that_gives_up_is_nan_and_named_and_the_next_on_the_same_state_is_right(cupy, text):
    calls, stream = Calls(cupy, text, SLOW), cupy.cuda.Stream(non_blocking=True)
    failing, after = calls.buffers(), [calls.buffers() for _ in range(10)]
    cupy.cuda.Device().synchronize()
    calls.run(failing, stream=stream, limit_ns=TOO_SHORT_NS)
    number = process_log().latest
    for buffers in after:
        calls.run(buffers, stream=stream)
    with pytest.raises(FailedCallsError) as caught:
        check()
    (failure,) = caught.value.failures
    assert failure.call.number == number
    assert f"on stream {stream.ptr:#x}, made at " in str(caught.value)
    assert "test_gpu_planned.py:" in str(caught.value)
    assert "gemm1" in str(caught.value)
    assert calls.is_nan(failing)
    assert all(calls.is_right(buffers) for buffers in after)
    check()


@pytest.mark.parametrize("text", WAITING)
def test_a_graphs_call_that_gives_up_is_nan_in_every_replay_and_counted(cupy, text):
    calls, stream = Calls(cupy, text, SLOW), cupy.cuda.Stream(non_blocking=True)
    failing, eager = calls.buffers(), calls.buffers()
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        calls.run(failing, is_captured=True, limit_ns=TOO_SHORT_NS)
        number = process_log().latest
        graph = stream.end_capture()
        for _ in range(5):
            failing.out.view("uint16")[...] = 0
            graph.launch(stream)
            calls.run(eager)
            stream.synchronize()
            assert calls.is_nan(failing)
            assert calls.is_right(eager)
    with pytest.raises(FailedCallsError, match="graph captured at") as caught:
        check()
    assert [(one.call.number, one.replays) for one in caught.value.failures] == [(number, 5)]


def test_of_many_queued_calls_all_that_gave_up_are_named_and_no_other(cupy):
    calls = [Calls(cupy, text, SLOW) for text in WAITING[:3]]
    stream = cupy.cuda.Stream(non_blocking=True)
    made = [(calls[i % 3], calls[i % 3].buffers(), i % 4 == 1) for i in range(150)]
    cupy.cuda.Device().synchronize()
    failing = []
    for own, buffers, is_short in made:
        own.run(buffers, stream=stream, limit_ns=TOO_SHORT_NS if is_short else LIMIT_NS)
        failing += [process_log().latest] * is_short
    with pytest.raises(FailedCallsError) as caught:
        check()
    assert [failure.call.number for failure in caught.value.failures] == failing
    judged = [(own.is_nan if is_short else own.is_right)(buffers) for own, buffers, is_short in made]
    assert all(judged)


def test_an_exception_between_the_kernels_leaves_the_next_calls_right(cupy):
    calls, launched = Calls(cupy, CANDIDATES[4], SLOW), []
    launch = calls.way._launch

    def failing(*arguments):
        launched.append(arguments)
        if len(launched) == 2:
            raise KeyboardInterrupt
        return launch(*arguments)

    calls.way._launch = failing
    with pytest.raises(KeyboardInterrupt):
        calls.run(calls.buffers())
    calls.way._launch = launch
    made = [calls.buffers() for _ in range(5)]
    for buffers in made:
        calls.run(buffers)
    check()
    assert all(calls.is_right(buffers) for buffers in made)


def test_a_call_waits_for_what_another_library_does_before_it_on_the_stream(cupy):
    """A kernel that writes x late, half of whose blocks leave early: what follows must not read the old x."""
    source = """extern "C" __global__ void late(unsigned short* x, const unsigned short* from, int count) {
        if (blockIdx.x % 2) return;
        const long long began = clock64();
        while (clock64() - began < 50000) {}
        for (int i = (blockIdx.x / 2) * blockDim.x + threadIdx.x; i < count; i += gridDim.x / 2 * blockDim.x)
            x[i] = from[i];
    }"""
    late = cupy.RawKernel(source, "late")
    for text in ("hopper pdl+row row 64x128 64x128", "hopper persistent:row row 128x192 128x192"):
        calls = Calls(cupy, text)
        made, x = [calls.buffers() for _ in range(20)], cupy.zeros_like(calls.x)
        for buffers in made:
            cupy.cuda.runtime.memsetAsync(x.data.ptr, 0xFF, x.nbytes, cupy.cuda.get_current_stream().ptr)
            late((64,), (256,), (x, calls.x, cupy.int32(x.size)))
            calls.run(buffers, x)
        check()
        assert all(calls.is_right(buffers) for buffers in made)


def test_a_lock_is_enough_for_threads_that_share_a_stream_with_different_plans(cupy):
    calls = [Calls(cupy, text, seed=i) for i, text in enumerate(WAITING)]
    stream, gate = cupy.cuda.Stream(non_blocking=True), threading.Barrier(len(calls))
    made = [[own.buffers() for _ in range(20)] for own in calls]
    cupy.cuda.Device().synchronize()

    def work(index):
        gate.wait()
        for buffers in made[index]:
            calls[index].run(buffers, stream=stream)

    with ThreadPoolExecutor(len(calls)) as pool:
        list(pool.map(work, range(len(calls))))
    check()
    assert all(own.is_right(one) for own, buffers in zip(calls, made, strict=True) for one in buffers)


def test_plans_that_wait_are_those_with_semaphores():
    for text in CANDIDATES:
        assert is_waiting(text) == parse_plan(MlpCandidate.read(text).plan_word).sync.has_semaphores
