"""What the GPU tests share: a runner, a clean skip where there is no GPU, and compiling ahead.

`pytest -m gpu tests/gpu --compile-ahead` runs no test in earnest: it compiles the kernels that the selected
tests load, on all cores, and needs no GPU. `--cubin-cache DIR` keeps them in a folder that can travel. With
`-v` and `python -u` the log names what has begun and ended also where all is killed; `-n 8 --dist worksteal`
leaves tests that share a slow fixture to one worker.
"""

import os
from pathlib import Path

import pytest

from wavesim.errors import DeviceError


def pytest_addoption(parser):
    group = parser.getgroup("gpu")
    group.addoption("--cubin-cache", type=Path, help="folder for compiled kernels")
    group.addoption("--compile-ahead", action="store_true", help="only compile what the selected tests load")
    group.addoption("--compile-jobs", type=int, help="kernels compiled at once (as many as cores)")


def pytest_configure(config):
    if folder := config.getoption("cubin_cache", None):
        from wavesim_gpu.driver import cubin_cache

        cubin_cache.use(folder)
    if config.getoption("compile_ahead", False):
        from pretended_gpu import CompileAhead

        config.pluginmanager.register(CompileAhead())


# One of each kind, by the beginning of its name: kernels, plans, policies, mutants, deadlocks, recordings.
SMOKE = (
    "test_every_policy_and_order_with_split_k_in_both_types_is_right[fp16-2-row]",
    "test_a_dropped_wait_and_an_early_post_give_wrong_numbers[no_wait-row",
    "test_a_dropped_post_is_a_deadlock[row]",
    "test_calls_that_are_held_up_longer_than_they_may_wait_give_nan_and_are_named[injected]",
    "test_a_consumer_without_its_producer_is_a_deadlock_that_names_tile_and_semaphore[row]",
    "test_consumers_of_a_producer_that_was_not_launched_write_nan[row-1-fp16]",
    "test_hopper_clusters_and_splits_write_nan_too_and_the_next_run_is_right[(64, 192, 64)-1-persis",
    "test_sums_whose_splits_never_came_are_nan[stream-k-1-None]",
    "test_an_exception_between_launches_ends_the_run_at_once_and_the_next_is_right[row]",
    "test_every_shape_is_right_under_stream_sync_at_the_edges[2-(64, 192, 64)-persistent pdl-fp16]",
    "test_every_shape_waits_for_every_chunk_when_columns_come_late_one_by_one[(128, 256, 64)",
    "test_stream_k_adds_up_the_tiles_that_it_cut[stream-k one-stream-(300, 1280, 700)-(128, 192, 64)]",
    "test_split_k_slices_wait_and_add_up[(128, 256, 64)-persistent streams-Grouped(rows=2)-2]",
    "test_swiglu_leaves_half_the_columns_to_the_second_stage[(128, 256, 64)-row]",
    "test_recorded_tiles_are_all_there_once",
    "test_a_plain_pair_is_recorded_and_is_an_ordinary_trace",
    "test_kernels_synchronised_by_a_generated_header_read_what_was_written",
    "test_plain_and_synchronised_give_the_same_right_answer",
    "test_every_primitive_leaves_its_counters_as_so_many_uses_do",
)


LIMIT_S = 120  # three times the slowest, with kernels compiled; a kernel that hangs is named by then


def pytest_collection_modifyitems(config, items):
    is_limited = not config.getoption("timeout") and not config.getoption("compile_ahead")
    for item in items:
        if item.get_closest_marker("gpu") is None:
            continue
        if item.name.startswith(SMOKE):
            item.add_marker("gpu_smoke")
        if is_limited:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture(autouse=True)
def siblings(monkeypatch):
    """Beside other workers of this suite the GPU is busy with them; no test here judges times.

    `require_gpu` is right to refuse that to users. So NVML is not asked how busy the GPU is, and all else is.
    """
    if int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")) > 1:
        from wavesim_gpu.driver import current_gpu as gpu_at_hand

        monkeypatch.setattr(gpu_at_hand, "_least_busy", lambda busy_percent: None)


@pytest.fixture(scope="session")
def runner():
    from wavesim_gpu.run.runner import CupyRunner

    try:
        return CupyRunner(limit_s=5.0, commit="test")
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def cupy(runner):
    import cupy

    return cupy
