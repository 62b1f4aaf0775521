"""GPUs that compute together: what crosses, in which order, what waits, and what is said of a hang."""

from dataclasses import replace

import numpy as np
import pytest
from simpy import Environment

from wavesim.costs.peer_costs import peer_costs_of
from wavesim.errors import DeadlockError, DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import Device, load
from wavesim.model.kernel import Block
from wavesim.model.link import load_link
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.policy import GridSync, RowSync, TileSync
from wavesim.sim.peers.program import PeerTimes
from wavesim.sim.peers.simulation import latencies_of, simulate_peers
from wavesim.sim.peers.traffic import Traffic
from wavesim.sim.peers.way import WORDS, PeerWay, parse_way
from wavesim.trace.metrics import link_rates
from wavesim.trace.trace import Trace
from wavesim.work.collective import Collective
from wavesim.work.collective.host import Host
from wavesim.work.gemm import Gemm
from wavesim.work.rows import Norm

DEVICE = load("h200")
FOUR = DEVICE.with_sm_count(4)
LINK = load_link("h200")
COSTS = peer_costs_of("h200")
BLOCK = Block(threads=384, registers=168, dynamic_shared_bytes=200_000)
GEMM = Stage("gemm", Gemm("gemm", 512, 1024, 256, 128, 256, 64, block=BLOCK))  # 4 x 4 tiles of 64 KB
ONE = Pipeline("one", [GEMM])
TIMES = PeerTimes({"gemm": 10_000, "norm": 1_000}, {"gemm": (40_000, 4)}, COSTS)
TILE_WAYS = ("plain-stores", "stores", "stores:1", "exchange", "blocks:2", "copies:2")
KINDS = [
    Collective(),
    Collective("all-reduce", "one-shot"),
    Collective("reduce-scatter"),
    Collective("all-gather"),
]


def host(collective: Collective = KINDS[0], gpus: int = 2, late: tuple[int, ...] = ()) -> Host:
    return Host(gpus, LINK, {"gemm": collective}, late)


def run(way: str, one: Host | None = None, device: Device = FOUR, **options) -> Trace:
    return simulate_peers(ONE, one or host(), parse_way(way), device, times=TIMES, **options)


def moved(trace: Trace, source: int, target: int) -> int:
    transfers = trace.transfers
    return int(transfers.bytes[(transfers.source == source) & (transfers.target == target)].sum())


def ends_of(traffic: Traffic, env: Environment) -> list[int]:
    env.run()
    return [one.end_ns for one in traffic.done]


def test_one_tile_after_the_other_waits_for_the_link_only_where_it_is_full():
    env, size = Environment(), 65_536
    alone = round(size / 20.2)
    traffic = Traffic(env, LINK, 3)
    for _ in range(18):
        traffic.store(0, 0, 1, size)
    traffic.store(0, 1, 0, size)  # the other direction is its own
    assert ends_of(traffic, env) == [alone] * 18 + [2 * alone]


def test_what_waits_for_one_receiver_does_not_hold_up_what_goes_to_another():
    env, size = Environment(), 65_536
    alone = round(size / 20.2)
    traffic = Traffic(env, LINK, 4)
    for source in (0, 1):
        for _ in range(10):
            traffic.store(0, source, 2, size)
    traffic.store(0, 1, 3, size)
    assert ends_of(traffic, env) == [alone] * 18 + [2 * alone] * 3


def test_a_copy_engine_moves_one_thing_at_a_time_at_the_full_rate():
    env, once = Environment(), round(1_000_000 / 374)
    traffic = Traffic(env, LINK, 2)
    for _ in range(2):
        traffic.copy(0, 0, 1, 1_000_000)
    assert ends_of(traffic, env) == [once, 2 * once]


def test_a_tile_that_is_stored_is_added_no_sooner_than_its_bytes_and_its_flag_take():
    trace = run("stores:1", device=FOUR)
    sums = trace.rows_of("gemm.sum@1")
    latencies = latencies_of(FOUR)
    tile = round(65_536 / 20.2)
    first = latencies.start_ns + 10_000 + tile + LINK.flag_ns
    assert int((trace.start_ns + trace.wait_ns)[sums].min()) == first
    assert int(trace.end_ns[sums].min()) == first + COSTS.add_ns(3 * 65_536) + tile
    # The last sum is there on both; the call is over once its blocks have retired.
    last = int(trace.transfers.end_ns.max()) + LINK.flag_ns
    assert int(trace.end_ns.max()) == last + COSTS.call_ns["stores"]


def test_two_gpus_that_exchange_make_the_others_rows_first_and_add_in_their_own_tiles():
    trace = run("exchange")
    start, tile = latencies_of(FOUR).start_ns, round(65_536 / 20.2)
    for rank in (0, 1):
        rows = np.flatnonzero(trace.rows_of(f"gemm@{rank}"))
        order = trace.y[rows[np.argsort(trace.start_ns[rows], kind="stable")]]
        assert [y // 2 for y in order] == [1 - rank] * 8 + [rank] * 8
    # Four SMs, 16 tiles: nothing waits for what comes, as it came under the next tile's multiply-adds.
    retired = LINK.flag_ns + COSTS.call_ns["exchange"]
    assert trace.makespan_ns == pytest.approx(4 * 10_000 + tile + retired, abs=start)
    assert not (trace.wait_ns > 0).any()


def test_with_a_number_ahead_the_others_tiles_and_own_ones_take_turns():
    trace = run("exchange:4", device=DEVICE.with_sm_count(1))
    rows = np.flatnonzero(trace.rows_of("gemm@0"))
    order = [int(trace.y[row]) // 2 for row in rows[np.argsort(trace.start_ns[rows], kind="stable")]]
    assert order == [1, 1, 1, 1, *[1, 0] * 4, 0, 0, 0, 0]


def test_a_tile_that_is_made_before_the_other_gpus_has_come_is_added_once_it_has():
    trace = run("exchange", device=FOUR.with_sm_count(16))
    tile = round(65_536 / 20.2)
    own = trace.rows_of("gemm@0") & (trace.y < 2)
    # All tiles at once: the other's come a tile's store and a flag later, then sums go back and are copied.
    made, copied = round(10_000 * COSTS.exchange_ratio), round(16 * 65_536 / COSTS.copied_bytes_per_s * 1e9)
    ends = made + tile + LINK.flag_ns + tile + LINK.flag_ns + COSTS.call_ns["exchange"] + copied
    assert int(trace.end_ns[own].max() - trace.issue_ns.min()) == ends


@pytest.mark.parametrize("kind", KINDS, ids=lambda one: f"{one.kind} {one.shots}")
@pytest.mark.parametrize("way", TILE_WAYS)
def test_every_way_moves_the_bytes_that_the_collective_needs(way: str, kind: Collective):
    if way == "exchange" and (kind.kind == "all-gather" or kind.shots == "one-shot"):
        with pytest.raises(DescriptionError, match="two-shot all-reduce or a reduce-scatter"):
            run(way, host(kind))
        return
    trace = run(way, host(kind), device=DEVICE)
    whole, tile = 16 * 65_536, 512 * 256 * 2
    expected = {"reduce-scatter": whole // 2, "all-gather": tile // 2}.get(kind.kind, whole)
    assert moved(trace, 0, 1) == moved(trace, 1, 0) == expected
    again = run(way, host(kind), device=DEVICE)
    assert np.array_equal(trace.end_ns, again.end_ns)


@pytest.mark.parametrize("way", ["stores:1", "blocks:2"])
@pytest.mark.parametrize("unit", [TileSync(), RowSync(), GridSync()], ids=lambda unit: unit.name)
def test_no_sm_holds_two_blocks_of_a_kernel_that_fills_it_and_no_tile_is_added_before_it_came(way, unit):
    trace = run(way, unit=unit)
    for sm in range(8):
        rows = np.flatnonzero(trace.sm == sm)
        rows = rows[np.argsort(trace.start_ns[rows], kind="stable")]
        assert (trace.start_ns[rows][1:] >= trace.end_ns[rows][:-1]).all()
    assert (trace.device == trace.sm // 4).all()
    transfers = trace.transfers
    names = [info.name for info in trace.header.stages]
    came: dict[tuple[int, int], int] = {}
    for row, end in zip(transfers.block, transfers.end_ns, strict=True):
        if "sum" not in names[trace.stage[row]] and way == "stores:1":
            came[int(trace.x[row]), int(trace.y[row])] = int(end)
    for tile, end in came.items():
        rank = tile[0] % 2
        row = np.flatnonzero(
            trace.rows_of(f"gemm.sum@{rank}") & (trace.x == tile[0] // 2) & (trace.y == tile[1])
        )[0]
        assert trace.start_ns[row] + trace.wait_ns[row] >= end + LINK.flag_ns


def test_no_direction_of_the_link_carries_more_than_it_can():
    trace = run("stores:8", device=DEVICE)
    for source in (0, 1):
        rates = link_rates(trace, source, 1 - source)
        assert 0 < max(rate for _, rate in rates) <= LINK.most("write") / 1e9
        assert rates[-1][1] == pytest.approx(0, abs=1e-6)


def test_finer_units_are_never_later_than_coarser_ones():
    tile, row, grid = (run("stores:1", unit=unit).makespan_ns for unit in (TileSync(), RowSync(), GridSync()))
    assert tile <= row <= grid


def test_a_library_takes_its_gemm_and_then_its_all_reduce():
    trace = run("sequence", device=DEVICE)
    latencies = latencies_of(DEVICE)
    size = 2 * 512 * 1024
    expected = 40_000 + latencies.boundary_ns + LINK.flag_ns + COSTS.time_ns("all-reduce", size, 2)
    assert trace.makespan_ns == expected


def test_a_librarys_chunks_overlap_only_where_its_gemm_leaves_sms():
    """Four SMs compute and 24 communicate: on 28 they do so at once, on 24 they take turns."""
    taken = [run("chunks:2", device=DEVICE.with_sm_count(sms)).makespan_ns for sms in (28, 24)]
    assert taken[1] - taken[0] > COSTS.time_ns("all-reduce", 2 * 256 * 1024, 2)


def test_a_rank_that_starts_late_makes_the_other_wait_and_no_more():
    both, late = run("stores:1"), run("stores:1", host(late=(0, 500_000)))
    assert late.makespan_ns <= 500_000 + both.makespan_ns
    assert int(late.wait_ns[late.rows_of("gemm.sum@0")].max()) > 400_000


@pytest.mark.parametrize("way", ["sequence", "stores:1", "blocks:2"])
def test_a_rank_that_never_begins_is_named_with_tile_and_semaphore(way: str):
    with pytest.raises(DeadlockError) as caught:
        run(way, device=DEVICE, never=(1,))
    text = str(caught.value)
    assert "on rank 0" in text or "blocks of all ranks" in text
    assert "rank 1 never began" in text
    assert caught.value.waiters[0].seen < caught.value.waiters[0].awaited


def test_a_wait_beyond_the_time_limit_is_named_with_rank_tile_and_semaphore():
    with pytest.raises(DeadlockError, match="the time limit is 100 us") as caught:
        run("stores:1", host(late=(0, 5_000_000)), limit_ns=100_000)
    first = "gemm.sum@0 block (0, 0, 0) on SM 0 slot 0 waits for gemm@1"
    assert str(caught.value.waiters[0]).startswith(first)
    assert str(caught.value.waiters[0]).endswith("on rank 0: seen 0, awaited 1")


def test_a_chain_goes_on_with_rows_that_all_ranks_have_added():
    norm = Stage("norm", Norm("norm", 512, 1024, tile_m=128))
    chain = Pipeline("chain", [GEMM, norm], [Dependency(norm[x, y], [GEMM[:, y]])])
    trace = simulate_peers(chain, host(), parse_way("stores:1"), FOUR, times=TIMES)
    for rank in (0, 1):
        for tile_row in range(4):
            row = np.flatnonzero(trace.rows_of(f"norm@{rank}") & (trace.y == tile_row))[0]
            other = trace.rows_of(f"gemm.sum@{1 - rank}") & (trace.y == tile_row)
            assert trace.end_ns[row] > trace.end_ns[other].max()


def test_eight_gpus_store_to_seven():
    gemm = replace(GEMM, work=replace(GEMM.gemm, n=2048))
    one = Pipeline("one", [gemm])
    trace = simulate_peers(one, host(gpus=8), parse_way("stores:1"), FOUR, times=TIMES)
    assert trace.header.device_count == 8
    assert moved(trace, 3, 6) == 2 * 4 * 65_536  # a column of what others own, and its own column's sums


def test_a_trace_of_two_devices_is_saved_and_read(tmp_path):
    trace = run("stores:1")
    read = Trace.load(trace.save(tmp_path / "two.npz"))
    assert np.array_equal(read.device, trace.device)
    assert np.array_equal(read.transfers.end_ns, trace.transfers.end_ns)
    assert read.header.device_count == 2


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: parse_way("nccl"), f"way is 'nccl'; known are {WORDS}"),
        (lambda: parse_way("chunks:x"), "way is 'chunks:x'; write a number after the colon"),
        (lambda: parse_way("blocks:0"), "way blocks: SMs is 0; it must be 1 to 128"),
        (lambda: PeerWay("sequence", 3), "way sequence has no number, and 3 is given"),
        (lambda: run("stores:4"), "blocks that wait may hold 4 SMs of rank 0 (4 of gemm.sum@0)"),
        (lambda: run("exchange", host(gpus=4)), "way exchange is for one GEMM on 2 GPUs"),
        (
            lambda: simulate_peers(
                Pipeline("one", [Stage("gemm", replace(GEMM.gemm, m=128))]),
                host(),
                parse_way("exchange"),
                FOUR,
                times=TIMES,
            ),
            "one row of tiles, for 2 GPUs. Use stores",
        ),
        (
            lambda: simulate_peers(ONE, Host(2, LINK), parse_way("chunks"), FOUR, times=TIMES),
            "is simulated of one GEMM with one collective",
        ),
        (
            lambda: simulate_peers(ONE, host(), parse_way("stores"), load("a10")),
            "no products were timed on a10",
        ),
        (lambda: peer_costs_of("a10"), "no collective was measured on 'a10'; known are h200"),
    ],
)
def test_ways_that_cannot_be_are_refused_by_name(build, words: str):
    with pytest.raises(DescriptionError) as caught:
        build()
    assert words in str(caught.value)
