"""Little's law on an SM: what is simulated is what a hand can reckon, and what two formulas say."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.sm.loads import (
    LoadLoop,
    in_flight_bytes,
    littles_share,
    queued_share,
    simulated_share,
    warps_to_fill,
)
from wavesim.sm.machine import SmMachine, machine_of, memory_channels
from wavesim.sm.roofline import Roofline, TiledProduct
from wavesim.sm.sm_simulation import WarpSpan, simulate_sm
from wavesim.sm.warp_program import SmKernel

SM = SmMachine(latency_cycles=640, bytes_per_cycle=32)


def test_a_warp_issues_waits_for_the_latency_and_issues_again():
    run = simulate_sm(LoadLoop(1).kernel(2), SM, records=True)
    assert run.spans == [
        WarpSpan(0, 0, 1, "issue"),
        WarpSpan(0, 1, 640, "memory"),
        WarpSpan(0, 640, 641, "issue"),
        WarpSpan(0, 641, 1280, "memory"),
    ]
    assert (run.cycles, run.loaded_bytes, run.issued) == (1280, 1024, 2)
    assert run.served == [(0, 16), (640, 656)]


def test_loads_of_several_warps_follow_each_other_through_the_memory():
    run = simulate_sm(LoadLoop(3).kernel(1), SM, records=True)
    assert run.served == [(0, 16), (16, 32), (32, 48)]
    assert run.cycles == 640 + 32


def test_a_scheduler_issues_one_instruction_a_cycle():
    run = simulate_sm(LoadLoop(8).kernel(1), SM, records=True)
    issues = sorted((span.start, span.warp) for span in run.spans if span.doing == "issue")
    assert issues == [*((0, warp) for warp in range(4)), *((1, warp) for warp in range(4, 8))]


@pytest.mark.parametrize(("warps", "loads"), [(1, 1), (10, 1), (20, 1), (20, 2), (40, 1), (64, 1)])
def test_one_sm_alone_gets_what_littles_law_says(warps, loads):
    loop = LoadLoop(warps, loads)
    assert simulated_share(loop, SM) == pytest.approx(littles_share(loop.in_flight_bytes, SM), rel=0.03)


def test_loads_beyond_the_sms_own_limit_give_nothing():
    few = SmMachine(640, 32, most_loads=10)
    assert in_flight_bytes(LoadLoop(40), few) == 10 * 512
    assert simulated_share(LoadLoop(40), few) == pytest.approx(0.25, rel=0.03)
    assert simulated_share(LoadLoop(5, 2), few) == pytest.approx(0.25, rel=0.05)


@pytest.mark.parametrize("kib", [2, 8, 16, 32])
def test_queues_at_the_channels_cost_as_much_simulated_as_by_the_formula(kib):
    gpu = machine_of(load("h200")).slice_of(132, 192)
    assert (gpu.sms, gpu.channels) == (11, 16)
    loop = LoadLoop(2 * kib)
    found, law = simulated_share(loop, gpu), littles_share(loop.in_flight_bytes, gpu)
    assert found == pytest.approx(queued_share(loop.in_flight_bytes, 512, gpu), rel=0.03)
    assert found <= law * 1.01


def test_the_formula_holds_where_one_load_takes_as_long_as_two_latencies_too():
    for size in (64, 511, 512, 513, 4096):
        one = SmMachine(latency_cycles=size, bytes_per_cycle=1)
        shares = [queued_share(flying, 2 * size, one) for flying in (1, size, 4 * size, 100 * size)]
        assert shares == sorted(shares)
        assert 0 < shares[0] < shares[-1] <= 1


def test_how_many_warps_fill_an_sm():
    assert warps_to_fill(SM) == 40
    assert warps_to_fill(SM, loads=3) == 14
    assert warps_to_fill(SM, lane_bytes=4) == 160


def test_a_slice_keeps_the_memory_of_each_sm():
    whole = SmMachine(640, 32)
    for sms, channels in ((132, 192), (114, 160), (40, 32), (1, 1), (7, 500)):
        part = whole.slice_of(sms, channels)
        assert part.sms <= 12
        assert part.channels / part.sms == pytest.approx(channels / sms, rel=0.04)
        assert part.service_cycles(512) * part.sms / part.channels == pytest.approx(16)


def test_a_devices_sm_is_its_share():
    sm = machine_of(load("h200"), latency_ns=500, peak=4.4e12)
    assert sm.latency_cycles == 990
    assert sm.bytes_per_cycle == pytest.approx(16.8, rel=0.01)
    assert memory_channels(6144) == 192


def test_the_notes_tiles_on_the_roofline():
    small = Roofline(1000e9, 150e9)
    tiles = TiledProduct(16), TiledProduct(32)
    assert [small.attainable(tile.intensity) for tile in tiles] == [600e9, 1000e9]
    assert [tile.intensity * 150e9 for tile in tiles] == [600e9, 1200e9]
    assert [tile.shared_bytes for tile in tiles] == [2048, 8192]
    assert [tile.blocks_per_sm(65_536, 2048) for tile in tiles] == [8, 2]
    assert [tile.pending_loads(65_536, 2048) for tile in tiles] == [4096, 4096]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: LoadLoop(0), "warps is 0; it must be a whole number from 1 to 64"),
        (lambda: LoadLoop(4, 2.5), "loads is 2.5"),
        (lambda: LoadLoop(4, 1, 3), "a lane loads 4, 8 or 16 bytes"),
        (lambda: SmMachine(0, 32), "latency_cycles is 0; it must be a number from 1"),
        (lambda: SmMachine(640, float("nan")), "bytes_per_cycle is nan"),
        (lambda: SmMachine(640, 32, most_loads=0), "give at least 1, or None for no limit"),
        (lambda: SmKernel(()), "each must be at least 1"),
        (lambda: LoadLoop(64, 32).kernel(10_000), "5,000,000 are the most"),
        (lambda: TiledProduct(33), "so 1 to 32"),
        (lambda: Roofline(1, 0), "bytes_per_s is 0; it must be above 0"),
    ],
)
def test_what_no_sm_can_do_is_refused_in_a_line(make, said):
    with pytest.raises(DescriptionError, match=said) as caught:
        make()
    assert "\n" not in str(caught.value)
