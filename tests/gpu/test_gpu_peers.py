"""Products over two GPUs of one host, or by two ranks on one GPU: results, bits, replays under skew, and a
rank that does not come.

On one GPU each rank has half of the SMs and streams of its own, and "the other GPU's" memory is its own: all
runs but the link.
"""

import time

import numpy as np
import pytest

from wavesim.errors import DeadlockError, DescriptionError
from wavesim.trace.trace import Trace
from wavesim.work.collective import Collective
from wavesim_gpu.bench.kinds.two_gpus.cases import (
    SharedCase,
    expected_of,
    expected_of_chain,
    operands_of,
    relative_error,
)
from wavesim_gpu.bench.kinds.two_gpus.turns import TOLERANCE
from wavesim_gpu.driver.compiler import Build
from wavesim_gpu.driver.element_types import from_float32, to_float32
from wavesim_gpu.peers.clock_offset import measured_offset
from wavesim_gpu.peers.exchange_linear import ExchangeLinear
from wavesim_gpu.peers.groups import LocalPeers
from wavesim_gpu.peers.options import CallOptions
from wavesim_gpu.peers.peer_trace import recorded_call
from wavesim_gpu.peers.problem import NormedGemm, SharedGemm
from wavesim_gpu.peers.programs import SharedGemmProgram
from wavesim_gpu.peers.push import PushedSums
from wavesim_gpu.peers.sends import ANY_DIRECTION
from wavesim_gpu.peers.workspace import Workspace

pytestmark = pytest.mark.gpu

ALL_REDUCE, ONE_SHOT = Collective("all-reduce"), Collective("all-reduce", "one-shot")
SCATTER, GATHER = Collective("reduce-scatter"), Collective("all-gather")
HALF = -1  # rows of tiles in a chunk: half of all
# By name: collective, way, rows of tiles in a chunk, type, splits of K.
KINDS = {
    "two-shot": (ALL_REDUCE, "stores", 0, "bf16", 1),
    "two-shot, fp16, splits": (ALL_REDUCE, "stores", 0, "fp16", 2),
    "two-shot, blocks": (ALL_REDUCE, "blocks", 0, "bf16", 1),
    "two-shot, copies": (ALL_REDUCE, "copies", 2, "bf16", 1),
    "two-shot, rows": (ALL_REDUCE, "stores", 2, "bf16", 1),
    "two-shot, exchange": (ALL_REDUCE, "exchange", HALF, "bf16", 1),
    "two-shot, exchange, fp16, splits": (ALL_REDUCE, "exchange", HALF, "fp16", 2),
    "one-shot": (ONE_SHOT, "stores", 0, "bf16", 1),
    "two-shot, exchange in turns": (ALL_REDUCE, "exchange", HALF, "bf16", 1),
    "reduce-scatter": (SCATTER, "stores", 0, "bf16", 1),
    "reduce-scatter, blocks": (SCATTER, "blocks", 0, "bf16", 1),
    "reduce-scatter, copies": (SCATTER, "copies", 2, "bf16", 1),
    "reduce-scatter, exchange": (SCATTER, "exchange", 0, "bf16", 1),
    "all-gather": (GATHER, "stores", 0, "bf16", 1),
    "all-gather, copies": (GATHER, "copies", 0, "bf16", 1),
    "all-gather, fp16, splits": (GATHER, "stores", 0, "fp16", 2),
}
KINDS_THAT_WAIT = [
    *("two-shot", "two-shot, copies", "two-shot, exchange", "reduce-scatter, exchange"),
    *("all-gather", "all-gather, copies"),
]


@pytest.fixture(scope="module", params=[(0, 0), (0, 1)], ids=["one GPU", "two GPUs"])
def group(request):
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.runtime.getDeviceCount() <= max(request.param):
        pytest.skip("needs two GPUs of one host")
    return LocalPeers(request.param)


def program_of(group, kind, seed, limit_s=2.0, m=1024):
    collective, way, chunk_rows, dtype, split_k = KINDS[kind]
    if chunk_rows == HALF:
        chunk_rows = -(-m // 128 // 2)
    problem = SharedGemm(
        m, 1536, 1408, collective, dtype=dtype, split_k=split_k, chunk_rows=chunk_rows
    )  # fmt: skip
    case = SharedCase(problem, seed)
    options = CallOptions(way, copies=2, ahead=3 if "turns" in kind else 0, limit_s=limit_s)
    return case, SharedGemmProgram(group, problem, operands_of(group, case), options)


def require_right(group, case, program):
    dtype = case.problem.dtype
    for rank in group.ranks:
        with group.on(rank) as cupy:
            expected = expected_of(cupy, case, rank)
            assert relative_error(cupy, program.outs[rank], expected, dtype) < TOLERANCE[dtype]


@pytest.mark.parametrize("kind", KINDS)
def test_results_are_right_on_every_rank_and_in_every_call(group, kind):
    case, program = program_of(group, kind, seed=1)
    for _ in range(3):
        program.poison()
        program.enqueue()
        program.check()
        require_right(group, case, program)


@pytest.mark.parametrize(
    "kind",
    [
        *("two-shot", "two-shot, blocks", "two-shot, copies", "two-shot, exchange", "one-shot"),
        *("two-shot, exchange in turns", "reduce-scatter, exchange", "all-gather", "all-gather, copies"),
    ],
)
def test_the_bits_stay_the_same_in_replays_under_skew(group, kind):
    case, program = program_of(group, kind, seed=2, limit_s=5)
    replay, delays = program.launchers(repeats=3), np.random.default_rng(0)
    first = None
    for turn in range(60):
        for rank in (0, 1) if turn % 2 else (1, 0):
            replay[rank]()
            if delays.random() < 0.2:
                time.sleep(delays.random() * 0.005)
        program.check()
        bits = [program.outs[rank].get().view(np.uint16) for rank in group.ranks]
        first = bits if first is None else first
        assert all(np.array_equal(*one) for one in zip(bits, first, strict=True))
        if kind.startswith(("two-shot", "one-shot")):
            np.testing.assert_array_equal(*bits)
    require_right(group, case, program)


def test_a_product_an_all_reduce_a_norm_and_a_product_run_as_a_chain(group):
    following = NormedGemm(1024, unit_rows=8)
    problem = SharedGemm(1024, 1536, 1408, ALL_REDUCE, chunk_rows=2, following=following)
    case = SharedCase(problem, 4)
    program = SharedGemmProgram(group, problem, operands_of(group, case), CallOptions(limit_s=2))
    for _ in range(3):
        program.poison()
        program.enqueue()
        program.check()
        for rank in group.ranks:
            with group.on(rank) as cupy:
                sums, product = expected_of_chain(cupy, case, rank)
                assert relative_error(cupy, program.outs[rank], sums, "bf16") < TOLERANCE["bf16"]
                assert relative_error(cupy, program.next_outs[rank], product, "bf16") < TOLERANCE["bf16"]


@pytest.mark.parametrize("m", [128 * 3, 1000])
def test_ranks_add_halves_of_odd_rows_and_of_a_last_row_of_tiles_that_is_cut_off(group, m):
    case, program = program_of(group, "two-shot, exchange", seed=6, m=m)
    program.poison()
    program.enqueue()
    program.check()
    require_right(group, case, program)


def test_what_the_epilogue_adds_has_the_bits_of_the_blocks_that_add(group):
    """Both add two rounded outputs and round once."""
    _, stores = program_of(group, "two-shot", seed=7)
    _, exchange = program_of(group, "two-shot, exchange", seed=7)
    for program in (stores, exchange):
        program.enqueue()
        program.check()
    for rank in group.ranks:
        bits = [program.outs[rank].get().view(np.uint16) for program in (stores, exchange)]
        assert (bits[0] != bits[1]).mean() == 0


@pytest.mark.parametrize("kind", KINDS_THAT_WAIT)
def test_a_rank_that_does_not_come_is_named_and_the_other_ends(group, kind):
    _, program = program_of(group, kind, seed=3, limit_s=0.2, m=512)
    replay = program.launchers()
    for rank in (0, 1, 0):  # the second time rank 1 does not come
        replay[rank]()
    with pytest.raises(DeadlockError, match=r"\] of rank 1"):
        program.check()
    with group.on(0) as cupy:
        assert int(cupy.arange(4).sum()) == 6  # the context is alive
        if "exchange" in kind:  # rank 0's rows lack what rank 1 adds, and rank 1's never came
            assert bool(cupy.isnan(to_float32(program.outs[0], "bf16")).all())


def test_ranks_whose_blocks_would_not_all_be_resident_are_refused():
    pytest.importorskip("cupy")
    crowded = LocalPeers((0,) * 8)
    problem = SharedGemm(1024, 1536, 1408, ALL_REDUCE, ranks=8)
    with pytest.raises(DescriptionError, match="8 ranks share a GPU"):
        SharedGemmProgram(
            crowded, problem, operands_of(crowded, SharedCase(problem, 1)), CallOptions("blocks")
        )


def test_two_ranks_on_one_gpu_find_that_their_clock_is_the_same():
    pytest.importorskip("cupy")
    offset = measured_offset(LocalPeers((0, 0)), 1)
    assert abs(offset.ns) <= offset.error_ns < 100_000


def test_a_recorded_call_is_one_trace_of_all_ranks(group, tmp_path):
    problem = SharedGemm(1024, 1536, 1408, ALL_REDUCE, chunk_rows=2, following=NormedGemm(1024))
    options = CallOptions(limit_s=2, build=Build(is_recording=True))
    program = SharedGemmProgram(group, problem, operands_of(group, SharedCase(problem, 5)), options)
    trace = Trace.load(recorded_call(program).save(tmp_path / "ranks.npz"))
    names = [info.name for info in trace.header.stages]
    assert names == [f"{name}@{rank}" for rank in (0, 1) for name in ("gemm", "next", "gemm.sum")]
    counts = np.bincount(trace.stage).tolist()
    units = 1024 // 8 // 2
    assert counts == [problem.tiles, problem.next_gemm.grid.tiles, units] * 2
    assert trace.header.device_count == len({group.device_of(rank) for rank in group.ranks})
    # No rows are normed before the last tile of theirs was made, on either rank, within the clocks' error.
    made = trace.rows_of("gemm@0") | trace.rows_of("gemm@1")
    for rank in (0, 1):
        for row in np.flatnonzero(trace.rows_of(f"gemm.sum@{rank}")):
            ready = trace.end_ns[made & (trace.y == trace.y[row])].max()
            assert trace.end_ns[row] >= ready - trace.header.parameters["clock_error_ns"]


def test_prepared_layers_of_two_shapes_share_a_workspace_and_write_where_the_caller_wants(group):
    shapes = [("two-shot, exchange", 1000), ("reduce-scatter, exchange", 1024), ("two-shot, exchange", 640)]
    layers = []
    for seed, (kind, m) in enumerate(shapes):
        case, program = program_of(group, kind, seed, m=m)
        layers.append((case, program.problem, program.operands))
    workspace = Workspace(group, (4 << 20, 1024))
    options = CallOptions("exchange", limit_s=2.0)
    prepared = [
        {
            rank: ExchangeLinear(workspace, rank, problem, options, int(operands[rank].b.data.ptr))
            for rank in group.ranks
        }
        for _, problem, operands in layers
    ]
    for _ in range(50):
        outs = []
        for _, problem, _ in layers:
            rows = problem.m // (2 if problem.collective.kind == "reduce-scatter" else 1)
            outs.append({})
            for rank in group.ranks:
                with group.on(rank) as cupy:
                    outs[-1][rank] = cupy.full((rows, problem.n), 0x7FFF, np.uint16)
                    cupy.cuda.Device().synchronize()  # before any launch, for ranks that share a GPU
        for (_, _, operands), calls, out in zip(layers, prepared, outs, strict=True):
            for rank in group.ranks:
                with group.on(rank):
                    stream = group.streams_of(rank)[0].ptr
                    calls[rank].launch(int(operands[rank].a.data.ptr), int(out[rank].data.ptr), stream)
        group.barrier()
        for (case, problem, _), out in zip(layers, outs, strict=True):
            for rank in group.ranks:
                with group.on(rank) as cupy:
                    error = relative_error(cupy, out[rank], expected_of(cupy, case, rank), problem.dtype)
                    assert error < TOLERANCE[problem.dtype]
    for rank in group.ranks:
        workspace.check(rank)


def test_a_prepared_call_whose_other_rank_does_not_come_is_told_by_the_next(group):
    _, program = program_of(group, "two-shot, exchange", 0)
    operands, workspace = program.operands[0], Workspace(group, (4 << 20, 1024))
    call = ExchangeLinear(
        workspace, 0, program.problem, CallOptions("exchange", limit_s=0.5), int(operands.b.data.ptr)
    )
    with group.on(0) as cupy:
        out = cupy.zeros((program.problem.m, program.problem.n), np.uint16)
        addresses = int(operands.a.data.ptr), int(out.data.ptr), group.streams_of(0)[0].ptr
        call.launch(*addresses)
        group.streams_of(0)[0].synchronize()
        with pytest.raises(DeadlockError, match="of rank 1"):
            call.launch(*addresses)


def floats(group, rank, values, dtype):
    with group.on(rank):
        return to_float32(values, dtype).get()


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
@pytest.mark.parametrize(("scatters", "dtype"), [(False, "bf16"), (True, "fp16")])
def test_pushed_sums_of_many_sizes_share_a_workspace_and_repeat_bit_by_bit(ranks, scatters, dtype):
    cupy = pytest.importorskip("cupy")
    group = LocalPeers([rank % cupy.cuda.runtime.getDeviceCount() for rank in range(ranks)])
    workspace, state = Workspace(group, (4 << 20, 1024)), np.random.default_rng(0)
    # The largest is shared out among three ranks and more.
    for elements in (8, 8 * 513, 8 * 512 * 40 + 8, 3 << 18):
        shape = (ranks, elements) if scatters else (elements,)
        calls, given, outs = {}, {}, {}
        for rank in group.ranks:
            with group.on(rank):
                calls[rank] = PushedSums(workspace, rank, elements, dtype, scatters=scatters, limit_s=2.0)
        values = [state.standard_normal(shape, dtype=np.float32) for _ in group.ranks]
        first = None
        for _ in range(3):
            for rank in group.ranks:
                with group.on(rank):
                    given[rank] = from_float32(cupy.asarray(values[rank]), dtype)
                    outs[rank] = cupy.full(elements, 0x7FFF, np.uint16) if scatters else given[rank]
                    cupy.cuda.Device().synchronize()  # before any launch, for ranks that share a GPU
            rounded = sum(floats(group, rank, given[rank], dtype) for rank in group.ranks)
            for rank in group.ranks:
                with group.on(rank):
                    addresses = int(given[rank].data.ptr), int(outs[rank].data.ptr)
                    calls[rank].launch(*addresses, group.streams_of(rank)[0].ptr)
            group.barrier()
            kind = given[0].dtype
            results = [floats(group, rank, outs[rank].view(kind), dtype) for rank in group.ranks]
            for rank, result in enumerate(results):
                expected = rounded[rank] if scatters else rounded
                assert np.abs(result - expected).max() <= TOLERANCE[dtype] * np.abs(expected).max()
            if not scatters:
                assert all(np.array_equal(result, results[0]) for result in results)
            first = first or [result.copy() for result in results]
            assert all(np.array_equal(*pair) for pair in zip(results, first, strict=True))
    for rank in group.ranks:
        workspace.check(rank)


@pytest.mark.parametrize("scatters", [False, True])
def test_halves_that_the_copy_engine_has_taken_to_each_other_are_added_call_after_call(group, scatters):
    workspace, state = Workspace(group, (8 << 20, 2048)), np.random.default_rng(0)
    for share in (8, 8 * 513, 3 << 17):
        calls = {
            rank: PushedSums(
                workspace, rank, share if scatters else 2 * share, "bf16",
                scatters=scatters, in_halves=True, limit_s=2.0,
            )
            for rank in group.ranks
        }  # fmt: skip
        for _ in range(4):
            given, outs = {}, {}
            values = [state.standard_normal((2, share), dtype=np.float32) for _ in group.ranks]
            for rank in group.ranks:
                with group.on(rank) as cupy:
                    given[rank] = from_float32(cupy.asarray(values[rank]), "bf16")
                    outs[rank] = cupy.full(share, 0x7FFF, np.uint16) if scatters else given[rank]
                    cupy.cuda.Device().synchronize()
            rounded = sum(floats(group, rank, given[rank], "bf16") for rank in group.ranks)
            for rank in group.ranks:
                with group.on(rank) as cupy:
                    stream, half = group.streams_of(rank)[0].ptr, given[rank][1 - rank]
                    cupy.cuda.runtime.memcpyAsync(
                        calls[rank].half_there, int(half.data.ptr), half.nbytes, ANY_DIRECTION, stream
                    )
                    calls[rank].launch(int(given[rank].data.ptr), int(outs[rank].data.ptr), stream)
            group.barrier()
            results = [floats(group, rank, outs[rank].view(given[0].dtype), "bf16") for rank in group.ranks]
            for rank, result in enumerate(results):
                expected = rounded[rank] if scatters else rounded
                assert np.abs(result - expected).max() <= TOLERANCE["bf16"] * np.abs(expected).max()
    for rank in group.ranks:
        workspace.check(rank)


@pytest.mark.parametrize("elements", [8192, 1 << 20], ids=["few", "many"])
def test_pushed_sums_whose_other_rank_does_not_come_are_told_by_the_next_call(group, elements):
    workspace = Workspace(group, (4 << 20, 1024))
    with group.on(0) as cupy:
        call = PushedSums(workspace, 0, elements, "bf16", limit_s=0.5)
        out = cupy.zeros(elements, np.uint16)
        addresses = int(out.data.ptr), int(out.data.ptr), group.streams_of(0)[0].ptr
        call.launch(*addresses)
        group.streams_of(0)[0].synchronize()
        assert np.isnan(to_float32(out, "bf16").get()).all()
        with pytest.raises(DeadlockError, match="of rank 1"):
            call.launch(*addresses)
    with pytest.raises(DescriptionError, match="vectors of 8"):
        PushedSums(workspace, 0, 12, "bf16")
