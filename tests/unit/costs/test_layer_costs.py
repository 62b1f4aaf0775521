"""Costs of stages that are no GEMM, per tile, and what a stage's kernels have of their own."""

from dataclasses import replace

import pytest
from both_simulators import check_equal

from wavesim.costs.cost_model import CostModel
from wavesim.costs.device_costs import law_of
from wavesim.costs.layer_costs import costs_of_stages, load_clock_of, load_ghz_of
from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.sim.simulation import simulate
from wavesim.work.attention import Attention
from wavesim.work.attention.law import AttentionCosts
from wavesim.work.gemm import Gemm
from wavesim.work.gemm.law import GemmCosts
from wavesim.work.law import BlockTimes, LoadClock, RunSetting, StageTimes
from wavesim.work.rows import Norm
from wavesim.work.rows.law import StreamingCosts
from wavesim.workloads.layer_backends import with_backends
from wavesim.workloads.layers import transformer_layer

COSTS = AttentionCosts(
    block_cycles=3_000, small_head_cycles=2_000, tile_cycles=6_000, small_head_tile_cycles=4_000
)

ANYWHERE = RunSetting(devices.load("h200"))
LAYER = with_backends(transformer_layer("qwen2.5-0.5b", 512))


def test_an_attention_tile_takes_as_long_as_the_blocks_of_keys_that_it_sees():
    causal = Attention("attention", 1, 512, 2, 2)
    assert COSTS.cycles(causal) == [9_000, 9_000, 12_000, 12_000, 15_000, 15_000, 18_000, 18_000]
    assert COSTS.cycles(Attention("all", 1, 256, 1, 1, is_causal=False)) == [12_000, 12_000]
    small = Attention("small", 1, 256, 1, 1, head_dim=64)
    assert COSTS.cycles(small) == [6_000, 8_000]


def test_blocks_that_move_bytes_share_the_bandwidth_or_are_bound_by_their_own_loads():
    device = devices.load("toy")  # 4 SMs
    costs = StreamingCosts(bytes_per_s=4e9, block_bytes_per_s=2e9, block_ns=100)
    block = Block(device.max_threads_per_sm)
    few, many = (Kernel("rows", Grid(count), block, bytes_per_block=2_000) for count in (1, 40))
    # 1,000 ns at its own rate, 500 at that of one of one; 2,000 at that of one of four.
    assert costs.tile_ns(few, device) == 100 + round((1_000**3 + 500**3) ** (1 / 3))
    assert costs.tile_ns(many, device) == 100 + round((1_000**3 + 2_000**3) ** (1 / 3))


def test_every_stage_of_a_layer_has_costs_on_the_device_whose_file_has_them():
    costs = costs_of_stages(LAYER, devices.load("h200"))
    assert set(costs.tile_ns) == {stage.name for stage in LAYER.stages}
    assert len(set(costs.tile_times(LAYER.stage("attention")))) == 4  # rows of a causal mask
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


def test_blocks_of_chained_products_leave_as_they_end():
    chained = {name: replace(LAYER.stage(name), backend="hopper-chained") for name in ("qkv", "out")}
    stages = {stage.name: chained.get(stage.name, stage) for stage in LAYER.stages}
    assert costs_of_stages(LAYER.with_stages(stages), devices.load("h200")).stays == {"up", "down"}


def test_the_clock_falls_with_the_cube_root_of_the_tensor_cores_work_and_is_never_above_that_of_one_sm():
    clock = LoadClock(limit_ghz=1.2, most_ghz=1.8)
    assert clock.ghz(1.0) == pytest.approx(1.2)
    assert clock.ghz(0.5) == pytest.approx(1.2 * 2 ** (1 / 3))
    assert clock.ghz(0.0) == clock.ghz(0.1) == pytest.approx(1.8)


def test_what_is_drawn_whether_tensor_cores_work_or_not_is_left_when_they_rest():
    clock = LoadClock(limit_ghz=1.2, most_ghz=2.0, rest_share=0.3)
    assert clock.ghz(1.0) == pytest.approx(1.2)
    assert clock.ghz(0.0) == pytest.approx(1.2 * 0.3 ** (-1 / 3))


def test_bf16_draws_less_power_than_fp16_and_narrow_tiles_lower_no_clock():
    h200 = devices.load("h200")

    def ghz(dtype, columns):
        gemm = Gemm("up", 4_096, 8_192, 8_192, 128, columns, 64, dtype=dtype)
        return load_ghz_of(Pipeline("up", [Stage("up", gemm, backend="hopper")]), h200)

    assert ghz("fp16", 256) < ghz("bf16", 256) < ghz("fp16", 128) == load_clock_of("h200").ghz(0.0)


def test_a_layer_with_more_tensor_work_runs_at_a_lower_clock():
    def tile_ns(tokens):
        layer = with_backends(transformer_layer("gpt3-145b", tokens))
        return costs_of_stages(layer, devices.load("h200")).tile_times(layer.stage("up"))[-1]

    assert tile_ns(2_048) > 1.1 * tile_ns(256)


TILES = GemmCosts(
    multiply_adds_per_cycle=2_048,
    k_block_ratio=1.0,
    tile_cycles=1_000,
    area_cycles=4_000,
    activation_cycles=600,
    first_cycles=800,
    few_rows_ns=3_000,
    few_rows_block_bytes_per_s=60_000_000_000,
    few_rows_ticket_ns=900,
    few_rows_fixup_ns=300,
    few_rows_wait_ns=75,
    area_dependent_ns=1_200,
    area_visibility_ns=1_600,
    memory_bytes_per_s=4e12,
    l2_bytes=36_000_000,
)


def test_a_products_tile_takes_its_multiply_adds_its_stores_and_its_activation():
    wide = Gemm("wide", 512, 512, 640, 128, 256, 64, has_bias=True)
    narrow = Gemm("narrow", 512, 512, 640, 128, 128, 64, activation="gelu")
    assert (TILES.loop_cycles(wide), TILES.other_cycles(wide)) == (10 * 1_024, 5_000)
    assert (TILES.loop_cycles(narrow), TILES.other_cycles(narrow)) == (10 * 512, 1_000 + 2_300)
    shared = {"dependent_ns": 1_400, "post_visibility_ns": 900}
    assert TILES.overheads(narrow, ANYWHERE, shared) == {"dependent_ns": 2_000, "post_visibility_ns": 1_700}
    assert TILES.overheads(wide, ANYWHERE, shared) == {"dependent_ns": 2_600, "post_visibility_ns": 2_500}


def test_the_first_wave_reads_all_weights_and_fills_its_pipelines_at_once():
    """gpt3's output product: 37.7 MB of weights in the first of three waves."""
    h200 = devices.load("h200")
    gemm = Gemm("out", 1_024, 12_288, 1_536, 128, 256, 64)
    (in_l2, not_in_l2) = (
        law_of(GemmCosts, "h200").times(Stage("out", gemm), RunSetting(h200, kept)) for kept in (True, False)
    )
    for times in (in_l2.tile_ns(1.5), not_in_l2.tile_ns(1.5)):
        assert len(times) == 384
        assert len(set(times[:132])) == len(set(times[132:])) == 1
        assert times[0] > times[132]
    assert not_in_l2.tile_ns(1.5)[0] > in_l2.tile_ns(1.5)[0]


def test_a_stage_lasts_until_the_last_block_that_its_slots_take_one_after_the_other():
    unequal = StageTimes([BlockTimes(1.0, before_ns=ns) for ns in (9, 1, 1, 8)])
    assert unequal.tile_ns(1.0) == [10, 2, 2, 9]
    assert unequal.span_ns(1.0, 4, 2) == 13
    assert StageTimes(BlockTimes(10.0)).span_ns(1.0, 5, 2) == 30


def test_a_product_of_few_rows_takes_what_its_weights_take_as_many_blocks_as_share_the_memory():
    few = Gemm("few", 1, 64 * 132, 4_000, 64, 64, 64)
    all_ns = 2 * 64 * 132 * 4_000 / 4e12 * 1e9
    assert TILES.weights_ns(few, 132) == pytest.approx(all_ns)
    # One of 40 has no more than its own rate.
    assert TILES.weights_ns(few, 40) == pytest.approx(all_ns * 4e12 / 132 / 6e10)
    assert (TILES.before_weights_ns(few, 132), TILES.before_weights_ns(few, 66)) == (3_000, 1_500)
    assert TILES.overheads(few, ANYWHERE, {})["wait_ns"] == 75
    assert TILES.overheads(replace(few, split_k=4), ANYWHERE, {})["fixup_ns"] == 300 + 900 // 3


def test_the_last_wave_of_few_rows_loads_faster_and_splits_follow_each_other():
    """LLaMA's up product in decode: 86 tiles in two splits, of whose 172 blocks 40 are in the last wave."""
    gemm = Gemm("up", 1, 86 * 64, 8_192, 64, 64, 64, split_k=2)
    times = law_of(GemmCosts, "h200").times(Stage("up", gemm), ANYWHERE).tile_ns(1.8)
    first, last = sorted(set(times), reverse=True)
    assert times == ([first] * 66 + [last] * 20) * 2


def test_norms_that_an_early_launch_packs_onto_few_sms_share_what_an_sm_can_load():
    """The output product leaves 4 of 132 SMs free, where norms that come early wait three deep."""
    device, layer = devices.load("h200"), with_backends(transformer_layer("llama-65b", 512))
    costs = costs_of_stages(layer, device)
    assert costs.sharing[1] > costs.sharing[2] > 0.5
    early = simulate(layer, parse_plan("pdl"), device, costs)
    stream = simulate(layer, parse_plan("stream"), device, costs)
    norms = [trace.end_ns - trace.start_ns for trace in (early, stream)]
    sms = [len(set(trace.sm[trace.rows_of("mlp_norm")])) for trace in (early, stream)]
    assert sms[0] < sms[1]
    assert early.time_ns > stream.time_ns
    assert norms[0][early.rows_of("mlp_norm")].max() > norms[1][stream.rows_of("mlp_norm")].max()


def test_runs_with_semaphores_or_split_k_have_their_counters_reset_before():
    costs = CostModel({"a": 1}, setup_ns=100, reset_ns=10, multi_stream_ns=50)
    words = ("stream", "pdl", "pdl+row", "persistent+pdl+row", "streams+row")
    assert [costs.outside_ns(parse_plan(word)) for word in words] == [100, 100, 110, 100, 150]
    device = devices.load("h200")
    decode = with_backends(transformer_layer("llama-3-8b", 1, phase="decode", cached=2_047))
    prefill, split = costs_of_stages(LAYER, device), costs_of_stages(decode, device)
    assert split.reset_ns == 0
    assert split.setup_ns == prefill.setup_ns + prefill.reset_ns
