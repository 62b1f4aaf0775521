"""The recorder in kernels that are not ours: it compiles for every GPU, and records on this one."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from trace_invariants import violations

from wavesim.errors import DeviceError, RecordingError
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync
from wavesim_gpu.driver.compiler import compile_cubin
from wavesim_gpu.driver.device import query, require_cupy
from wavesim_gpu.record import INCLUDE, Recording, records_of, trace_of
from wavesim_gpu.record.layout import HEADER, MAGIC, RECORD, recording_bytes

EXAMPLES = Path(__file__).parents[2] / "gpu" / "examples"
HEADER_FILE = INCLUDE / "wavesim_recorder.cuh"
ARCHITECTURES = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_120"]
INCLUDE_LINE = '#include "wavesim_recorder.cuh"\n'
NVCC = shutil.which("nvcc")
# Its blocks go on by themselves: each takes tiles until none is left, and waits once per tile.
PERSISTENT = """
__device__ unsigned long long now_ns() {
    unsigned long long ns;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
    return ns;
}
__device__ void spend_20_us() {  // __nanosleep may last anything up to twice its argument, or nothing
    const unsigned long long began = now_ns();
    while (now_ns() - began < 20000) {}
}
extern "C" __global__ void persistent(int* next, const volatile int* ready, int tiles, void* recording) {
    __shared__ int tile;
    wavesim::Recorder recorder(recording);
    for (;;) {
        const bool is_recorder = threadIdx.x == blockDim.x - 1;
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        if (tile >= tiles) return;
        recorder.begin(is_recorder);
        recorder.begin_wait();
        while (*ready == 0) __nanosleep(100);
        spend_20_us();
        recorder.end_wait();
        spend_20_us();
        __syncthreads();
        recorder.end(0, tile % 8, tile / 8);
        __syncthreads();
    }
}
"""


def one_file(text: str, folder: Path, switch: int = 1) -> Path:
    """The kernels with the header inside them, as NVRTC takes them without a search path."""
    path = folder / f"recorded{switch}.cu"
    path.write_text(
        f"#define WAVESIM_RECORD {switch}\n" + HEADER_FILE.read_text() + text.replace(INCLUDE_LINE, "")
    )
    return path


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_recorded_kernels_compile_under_nvrtc_for(arch, tmp_path):
    source = one_file((EXAMPLES / "recorded_pair.cu").read_text() + PERSISTENT, tmp_path)
    assert compile_cubin(source, [], arch).data[:4] == b"\x7fELF"


@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
@pytest.mark.parametrize(
    "options", [[], ["-DWAVESIM_RECORD=0"], ["-std=c++20"]], ids=lambda o: " ".join(o) or "plain"
)
def test_the_plain_cuda_program_compiles_under_nvcc_without_a_warning(options, tmp_path):
    flags = ["-Werror", "all-warnings", "-arch=sm_90", f"-I{INCLUDE}", "-o", tmp_path / "program"]
    done = subprocess.run(
        [NVCC, *flags, *options, EXAMPLES / "recorded_program.cu"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_is_left_of_it_when_it_is_compiled_out(tmp_path):
    text = (EXAMPLES / "recorded_pair.cu").read_text()
    removed, recorded = (
        compile_cubin(one_file(text, tmp_path, switch), [], "sm_90").ptx for switch in (0, 1)
    )
    for trace_of_it in ("globaltimer", "clock64", "smid", "atom"):
        assert trace_of_it in recorded
        assert trace_of_it not in removed


def test_the_header_includes_nothing_and_host_and_device_agree_on_the_layout():
    text = HEADER_FILE.read_text()
    assert "#include <" not in text
    assert f"recording_magic = {MAGIC:#x}u" in text
    fields = re.search(r"struct __align__\(16\) TileRecord \{(.*?)\};", text, re.DOTALL).group(1)
    members = fields.partition("__device__")[0]  # before the functions
    names = re.findall(r"(\w+)(?=[,;])", re.sub(r"//.*", "", members))
    assert names == list(RECORD.names)
    assert (HEADER.itemsize, recording_bytes(1)) == (64, 128)


@pytest.fixture(scope="module")
def cupy():
    try:
        return require_cupy()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def pair(cupy):
    """The recorded textbook pair, compiled as a user would: CuPy's NVRTC with the header's folder."""
    code = (EXAMPLES / "recorded_pair.cu").read_text() + PERSISTENT
    return cupy.RawModule(code=code, options=("--std=c++17", f"-I{INCLUDE}"))


def launch_pair(cupy, pair, recording, m=512, n=768, k=1024):
    generator = cupy.random.RandomState(5)
    a = generator.standard_normal((m, k), dtype="float32")
    b = generator.standard_normal((k, n), dtype="float32")
    c, out = cupy.full((m, n), np.nan, np.float32), cupy.full((m, n), np.nan, np.float32)
    first, second = pair.get_function("matmul"), pair.get_function("normalise_rows")
    first((n // 16, m // 16), (16, 16), (a, b, c, np.int32(n), np.int32(k), recording))
    second((1, m // 16), (16, 16), (c, out, np.int32(n), recording))
    product = (a.astype("float64") @ b.astype("float64")) ** 2
    assert float(abs(out - product / product.sum(axis=1, keepdims=True)).max()) < 1e-4


@pytest.mark.gpu
def test_a_plain_pair_is_recorded_and_is_an_ordinary_trace(cupy, pair):
    recording = Recording(["matmul", "normalise_rows"], capacity=48 * 32 + 32)
    launch_pair(cupy, pair, recording.buffer)
    trace = recording.trace(plan=StreamSync())
    assert [info.grid for info in trace.header.stages] == [(48, 32, 1), (1, 32, 1)]
    assert {info.threads for info in trace.header.stages} == {256}
    assert violations(trace) == []
    assert trace.start_ns[trace.stage == 1].min() >= trace.end_ns[trace.stage == 0].max()
    assert 300 < trace.header.clock_mhz < 2500


@pytest.mark.gpu
def test_overflow_is_counted_and_writes_nothing_beyond_the_buffer(cupy, pair):
    words = recording_bytes(100) // 4
    fence = cupy.full(words + 4096, 0x5A5A5A5A, np.int32)
    recording = Recording(["matmul", "normalise_rows"], capacity=100, buffer=fence)
    launch_pair(cupy, pair, recording.buffer)
    with pytest.raises(RecordingError, match="1568 tiles began, there was room for 100; 1468 were counted"):
        recording.records()
    assert bool((fence[words:] == 0x5A5A5A5A).all())


@pytest.mark.gpu
def test_a_buffer_without_a_header_is_left_alone_but_for_its_count(cupy, pair):
    buffer = cupy.zeros(recording_bytes(2000) // 4, np.int32)
    launch_pair(cupy, pair, buffer)
    assert int(buffer[2]) == 1568
    buffer[2] = 0
    assert not bool(buffer.any())


@pytest.mark.gpu
def test_null_records_nothing(cupy, pair):
    launch_pair(cupy, pair, np.uint64(0))


@pytest.mark.gpu
def test_a_persistent_kernel_records_every_tile_and_its_waits(cupy, pair):
    recording = Recording(["persistent"], capacity=64)
    next_tile, ready = cupy.zeros(1, np.int32), cupy.ones(1, np.int32)
    pair.get_function("persistent")((10,), (64,), (next_tile, ready, np.int32(64), recording.buffer))
    trace = recording.trace()
    assert trace.header.stages[0].grid == (8, 8, 1)
    assert len(np.unique(trace.sm)) == 10
    assert violations(trace) == []
    assert ((trace.wait_ns > 15_000) & (trace.wait_ns < trace.end_ns - trace.start_ns)).all()
    rate = trace.wait_cycles / trace.wait_ns
    assert ((rate > 0.3) & (rate < 2.5)).all()


@pytest.mark.gpu
@pytest.mark.skipif(NVCC is None, reason="there is no nvcc")
def test_the_plain_cuda_program_writes_what_python_reads(cupy, tmp_path):
    program, dump = tmp_path / "program", tmp_path / "recording.bin"
    subprocess.run(
        [NVCC, "-std=c++17", "-arch=native", f"-I{INCLUDE}", "-o", program, EXAMPLES / "recorded_program.cu"],
        check=True,
    )
    subprocess.run([program, dump], check=True)
    trace = trace_of(records_of(dump.read_bytes()), ["matmul", "normalise_rows"], query(), plan=StreamSync())
    assert [info.grid for info in trace.header.stages] == [(48, 32, 1), (1, 32, 1)]
    assert violations(trace) == []


@pytest.fixture
def triton_pair(cupy, monkeypatch):
    pytest.importorskip("triton")
    pytest.importorskip("torch")
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import triton_pair

    yield triton_pair
    sys.modules.pop("triton_pair", None)


def relative_error(got, want) -> float:
    return float((got.double() - want).norm() / want.norm())


@pytest.mark.gpu
@pytest.mark.parametrize("is_synchronised", [False, True], ids=["stream", "row"])
def test_a_triton_pair_is_right_and_recorded(triton_pair, is_synchronised):
    import torch

    pair = triton_pair.TritonPair(1024, 2048, 3072, 4096)
    operands = pair.operands(seed=3)
    recording = Recording(pair.pipeline, capacity=pair.tiles, library="torch")
    if is_synchronised:
        streams, semaphores = (
            [torch.cuda.Stream() for _ in range(2)],
            torch.zeros(64, dtype=torch.int32, device="cuda"),
        )
        pair.run_synchronised(operands, streams, semaphores, recording.buffer)
    else:
        pair.run_stream(operands, recording.buffer)
    torch.cuda.synchronize()
    source, w1, w2, middle, out = operands
    assert relative_error(middle, source.double() @ w1.double()) < 1e-3
    assert relative_error(out, middle.double() @ w2.double()) < 1e-3
    plan = SemaphoreSync(RowSync(), wait_kernel=False) if is_synchronised else StreamSync()
    trace = recording.trace(plan=plan)
    assert violations(trace, pair.pipeline) == []
    if not is_synchronised:
        assert not trace.wait_ns.any()


@pytest.mark.gpu
@pytest.mark.parametrize("n2", [4096, None], ids=["matmul", "gelu"])
def test_a_triton_wait_acquires_in_the_code_that_the_compiler_emits(triton_pair, n2):
    """An acquire whose result is not used is deleted: then nothing orders the loads behind the wait."""
    import torch

    pair = triton_pair.TritonPair(1024, 2048, 3072, n2)
    operands = pair.operands(seed=3)
    semaphores = torch.full((64,), 1 << 20, dtype=torch.int32, device="cuda")  # all tiles are there
    acquires = re.compile(r"^\s*(?:@\S+ )?(?:ld|atom)\.\S*acquire", re.MULTILINE)
    waiting = pair.launch(operands, 1, None, semaphores)
    plain = pair.launch(operands, 1, None)
    torch.cuda.synchronize()
    assert acquires.search(waiting.asm["ptx"])
    assert not acquires.search(plain.asm["ptx"])


@pytest.mark.gpu
def test_reset_and_kernels_in_a_graph_record_every_replay_afresh(triton_pair):
    import torch

    pair = triton_pair.TritonPair(512, 1024, 1024, 1024)
    operands = pair.operands()
    recording = Recording(pair.pipeline, capacity=pair.tiles, library="torch")
    pair.run_stream(operands, recording.buffer)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recording.reset()
        pair.run_stream(operands, recording.buffer)
    starts = set()
    for _ in range(3):
        graph.replay()
        starts.add(int(recording.records()["start_ns"].min()))
    assert len(starts) == 3


def test_recording_costs_under_one_percent_at_tiles_of_100_microseconds():
    newest = json.loads(max((EXAMPLES.parent / "results" / "recorder").glob("*.json")).read_text())
    for case in newest["cases"]:
        assert 80_000 <= case["tile_ns"] <= 120_000, case["kernel"]
        assert case["overhead_percent"] < 1, case["kernel"]
