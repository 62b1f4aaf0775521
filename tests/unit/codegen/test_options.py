"""Options: decided from device, occupancy, grids and the safety check, each with its reason."""

from wavesim.codegen.options import (
    AVOID_CUSTOM_ORDER,
    AVOID_WAIT_KERNEL,
    PLAIN_STORE,
    REORDER_LOADS,
    is_used,
    options_for,
)
from wavesim.model.device import load
from wavesim.plan.order import Grouped
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.plan.policy import RowSync, TileSync
from wavesim.safety.deadlock import safety_of
from wavesim.workloads.catalogue import workload

H200 = load("h200")


def why(options, name):
    return next(option.why for option in options if option.name == name)


def test_the_wait_kernel_goes_only_where_the_safety_check_allows():
    for tokens in (128, 256, 1024):
        pipeline = workload("gpt3-mlp", tokens)
        verdict = safety_of(pipeline, SemaphoreSync(wait_kernel=False), H200)
        options = options_for(pipeline, SemaphoreSync(), H200)
        assert is_used(options, AVOID_WAIT_KERNEL, "gpt3-mlp") == verdict.is_safe
        assert why(options, AVOID_WAIT_KERNEL).startswith(verdict.reason)
        assert ("; rests on issue of blocks wherever" in why(options, AVOID_WAIT_KERNEL)) == verdict.is_safe
    assert not verdict.is_safe


def test_figure_one_keeps_its_wait_kernel_though_the_papers_rule_would_drop_it():
    toy = workload("toy")
    assert not is_used(options_for(toy, SemaphoreSync(), load("toy")), AVOID_WAIT_KERNEL, "toy")


def test_a_row_major_stage_needs_no_custom_order_and_another_does():
    plan = SemaphoreSync(orders={"gemm1": Grouped(4)})
    options = options_for(workload("gpt3-mlp", 1024), plan, H200)
    assert not is_used(options, AVOID_CUSTOM_ORDER, "gemm1")
    assert is_used(options, AVOID_CUSTOM_ORDER, "gemm2")
    assert "first at position 1: tile (0, 1)" in why(options, AVOID_CUSTOM_ORDER)


def test_a_grouped_order_of_one_row_is_row_major():
    options = options_for(workload("gpt3-mlp", 128), SemaphoreSync(order=Grouped(8)), H200)
    assert is_used(options, AVOID_CUSTOM_ORDER, "gemm1")


def test_loads_are_reordered_in_gemms_and_left_alone_in_kernels_unknown():
    assert is_used(options_for(workload("gpt3-mlp"), SemaphoreSync(), H200), REORDER_LOADS, "gemm2")
    assert not is_used(options_for(workload("toy"), SemaphoreSync(), load("toy")), REORDER_LOADS, "gemm2")


def test_a_plain_store_does_where_a_semaphore_has_one_poster():
    pipeline = workload("gpt3-mlp", 1024)
    assert is_used(options_for(pipeline, SemaphoreSync(TileSync()), H200), PLAIN_STORE, "gemm1 -> gemm2")
    options = options_for(pipeline, SemaphoreSync(RowSync()), H200)
    assert not is_used(options, PLAIN_STORE, "gemm1 -> gemm2")
    assert "up to 24 tiles post the same semaphore" in why(options, PLAIN_STORE)


def test_stream_sync_has_no_options():
    assert options_for(workload("gpt3-mlp"), StreamSync(), H200) == ()
