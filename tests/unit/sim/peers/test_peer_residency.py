"""No program of several GPUs that is called safe can hang: every state of small ones, whatever devices do."""

from collections import Counter

import pytest
from peer_search import PeerSearch, TooLargeError

from wavesim.costs.peer_costs import peer_costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model.kernel import Block
from wavesim.model.link import load_link
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.policy import GridSync, TileSync
from wavesim.sim.peers.launches import launches_of
from wavesim.sim.peers.program import PeerTimes
from wavesim.sim.peers.simulation import require_room
from wavesim.sim.peers.way import parse_way
from wavesim.work.collective import Collective
from wavesim.work.collective.host import Host
from wavesim.work.gemm import Gemm

DEVICE = load("h200")
BLOCK = Block(threads=384, registers=168, dynamic_shared_bytes=200_000)
TIMES = PeerTimes({"gemm": 10_000}, {"gemm": (40_000, 2)}, peer_costs_of("h200"))
WAYS = ("plain-stores", "stores", "stores:1", "stores:2", "exchange", "blocks:2", "copies:2")
KINDS = (Collective(), Collective("all-reduce", "one-shot"), Collective("reduce-scatter"))
SIZES = ((1, (2, 2)), (2, (2, 1)), (2, (2, 2)), (3, (2, 1)))  # SMs, tiles
MOST_STATES = 2_000


def program_of(way: str, collective: Collective, unit, sms: int, grid: tuple[int, int]):
    gemm = Gemm("gemm", 128 * grid[1], 256 * grid[0], 64, 128, 256, 64, block=BLOCK)
    host = Host(2, load_link("h200"), {"gemm": collective})
    one = Pipeline("one", [Stage("gemm", gemm)])
    device = DEVICE.with_sm_count(sms)
    return launches_of(one, host, parse_way(way), device, TIMES, unit), device


@pytest.fixture(scope="module")
def outcomes() -> Counter[str | tuple[bool, bool]]:
    """(called safe, can hang) of every case that is small enough."""
    found: Counter[str | tuple[bool, bool]] = Counter()
    for way in WAYS:
        for collective in KINDS:
            for unit in (TileSync(), GridSync()):
                for sms, grid in SIZES:
                    try:
                        program, device = program_of(way, collective, unit, sms, grid)
                    except DescriptionError:
                        continue
                    try:
                        require_room(program, device)
                        is_safe = True
                    except DescriptionError:
                        is_safe = False
                    try:
                        hangs = PeerSearch(program, device).finds_hang(MOST_STATES)
                    except TooLargeError:
                        found["too large"] += 1
                        continue
                    found[is_safe, hangs] += 1
    return found


def test_no_program_that_is_called_safe_can_hang_and_none_is_refused_that_cannot(outcomes):
    assert outcomes == {(True, False): 62, (False, True): 49, "too large": 17}
