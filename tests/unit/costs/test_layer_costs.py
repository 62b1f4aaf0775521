"""Costs of stages that are no GEMM, per tile, and what a stage's kernels have of their own."""

import pytest
from both_simulators import check_equal

from wavesim.costs.attention_costs import AttentionCosts
from wavesim.costs.cost_model import CostModel
from wavesim.costs.layer_costs import costs_of_stages
from wavesim.costs.streaming_costs import StreamingCosts
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.attention import Attention
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.rows import Norm
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.sim.simulation import simulate
from wavesim.workloads.layers import transformer_layer

COSTS = AttentionCosts(block_cycles=3_000, small_head_cycles=2_000, tile_cycles=6_000, clock_ghz=1.5)


def test_an_attention_tile_takes_as_long_as_the_blocks_of_keys_that_it_sees():
    causal = Attention("attention", 1, 512, 2, 2)
    assert COSTS.tile_ns(causal) == [6_000, 6_000, 8_000, 8_000, 10_000, 10_000, 12_000, 12_000]
    assert COSTS.tile_ns(Attention("all", 1, 256, 1, 1, is_causal=False)) == [8_000, 8_000]
    small = Attention("small", 1, 256, 1, 1, head_dim=64)
    assert COSTS.tile_ns(small) == [5_333, 6_667]


def test_blocks_that_move_bytes_share_the_bandwidth_or_are_bound_by_their_own_loads():
    device = devices.load("toy")  # 4 SMs
    costs = StreamingCosts(bytes_per_s=4e9, block_bytes_per_s=2e9, block_ns=100)
    block = Block(device.max_threads_per_sm)
    assert costs.tile_ns(Kernel("few", Grid(1), block, bytes_per_block=2_000), device) == 100 + 1_000
    assert costs.tile_ns(Kernel("many", Grid(40), block, bytes_per_block=2_000), device) == 100 + 2_000


def test_every_stage_of_a_layer_has_costs_on_the_device_whose_file_has_them():
    layer = transformer_layer("qwen2.5-0.5b", 512)
    costs = costs_of_stages(layer, devices.load("h200"))
    assert set(costs.tile_ns) == {stage.name for stage in layer.stages}
    assert len(set(costs.tile_times(layer.stage("attention")))) == 4  # rows of a causal mask
    assert costs.stays == {"qkv", "out", "up", "down"}


def test_work_of_which_nothing_is_known_is_refused_by_name():
    layer = Pipeline("norm", [Stage("norm", Norm("norm", 64, 64))])
    with pytest.raises(DescriptionError, match="stage norm is a Norm, of which no costs are known on v100"):
        costs_of_stages(layer, devices.load("v100"))


def chain_of_three():
    """On 4 SMs: 5 tiles of 10 us, then 5 short ones and 5 more, each of which needs the one above it."""
    block = Block(devices.load("toy").max_threads_per_sm)
    first, second, third = (Stage(name, Kernel(name, Grid(1, 5), block, 1)) for name in "abc")
    needs = [Dependency(second[x, y], [first[x, y]]), Dependency(third[x, y], [second[x, y]])]
    return Pipeline("three", [first, second, third], needs)


@pytest.mark.parametrize("stays", [(), ("b",), ("b", "c")])
def test_both_simulators_keep_blocks_on_their_sms_that_leave_after_the_grid_ahead(stays):
    costs = CostModel({"a": 10_000, "b": 1_000, "c": 1_000}, boundary_ns=500, stays=frozenset(stays))
    assert not check_equal((chain_of_three(), parse_plan("pdl+row"), devices.load("toy"), costs))


def test_blocks_that_stay_keep_the_third_kernel_out():
    device, plan = devices.load("toy"), parse_plan("pdl+row")
    times = {"a": 10_000, "b": 1_000, "c": 1_000}
    free = simulate(chain_of_three(), plan, device, CostModel(times))
    stay = simulate(chain_of_three(), plan, device, CostModel(times, stays=frozenset("bc")))
    # The second wave of a leaves three SMs, on which four tiles of b take 2 us, then c comes; blocks
    # of b that stay hold all three until a has ended, after 20 us.
    assert free.start_ns[free.stage == 2].min() < 20_000
    assert stay.start_ns[stay.stage == 2].min() >= 20_000


def test_a_stages_own_overheads_go_before_the_others():
    costs = CostModel({}, post_ns=400, tile_fetch_ns=600, stage_overheads={"attention": {"post_ns": 700}})
    assert (costs.of_stage("attention").post_ns, costs.of_stage("attention").tile_fetch_ns) == (700, 600)
    assert costs.of_stage("qkv") is costs
