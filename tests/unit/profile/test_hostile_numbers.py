"""Numbers of a profile that no launch has: they cost no time and no memory, no result lacks sense."""

import gc
import math
import random
import time
import tracemalloc
from pathlib import Path

import pytest
from kineto_traces import H100, kernel, write_trace

from wavesim.errors import RecordingError
from wavesim.profile import advice
from wavesim.profile.advice import advise
from wavesim.profile.kernel_names import parsed_name
from wavesim.profile.overlap import device_gaps
from wavesim.profile.profile_file import load_profile
from wavesim.profile.timeline_data import step_picture
from wavesim.profile.wave_model import Hole, Waves, _done_by, time_saved


@pytest.mark.timeout(60)
def test_the_largest_grid_that_cuda_launches_costs_nothing(tmp_path: Path):
    largest = [2**31 - 1, 65_535, 65_535]
    first = kernel("a", 0.5, 10, grid=[400, 1, 1])  # 1.5 waves on 264 slots
    events = [
        first,
        kernel("b", 10.5, 10, grid=largest),
        kernel("c", 20.5, 10),
    ]
    advice = advise(load_profile(write_trace(tmp_path, events)))
    assert all(math.isfinite(pair.saving.likely_ns) for pair in advice.pairs)
    assert advice.recoverable_ns >= 0


def stepwise(hole: Hole, ready: float, consumer: Waves, consumer_ns: float) -> float:
    """`time_saved` as it is defined: every whole tile time is tried."""
    tile = consumer_ns / consumer.rounds
    early = math.floor(hole.share * consumer.slots + 1e-9)
    starts = min(early * math.ceil(hole.length_ns / tile), math.floor(ready * consumer.blocks))
    if early < 1 or starts < 1:
        return 0.0
    ends = [whole * tile - off for whole in range(consumer.rounds + 1) for off in (0, hole.length_ns % tile)]
    done = [
        end
        for end in ends
        if end >= 0 and _done_by(end, tile, hole, (early, starts), consumer) >= consumer.blocks
    ]
    return max(0.0, min(consumer_ns - min([*done, consumer_ns]), hole.length_ns))


def test_the_end_found_by_halving_is_the_one_found_step_by_step():
    r, gained = random.Random(1), 0
    for _ in range(4_000):
        sms = r.choice([4, 108, 132])
        consumer = Waves(r.randrange(1, 9_000), sms * r.randrange(1, 5), sms)
        hole = Hole(r.uniform(0, 3e5) if r.random() < 0.9 else 0.0, r.random())
        arguments = hole, r.random(), consumer, r.choice([1.0, r.uniform(1, 1e6)])
        gained += time_saved(*arguments) > 0
        assert time_saved(*arguments) == stepwise(*arguments)
    assert gained > 1_000


def test_more_pairs_than_a_program_has_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(advice, "MOST_PAIRS", 10)
    events = [kernel(f"k{n}", 12 * n + 0.5, 10) for n in range(12)]
    with pytest.raises(RecordingError, match="11 different pairs of kernels; at most 10 are compared"):
        advise(load_profile(write_trace(tmp_path, events)))
    assert len(advise(load_profile(write_trace(tmp_path, events[:11]))).pairs) == 10


def test_a_consumer_that_takes_no_time_saves_none(tmp_path: Path):
    events = [kernel("a", 0.5, 10), kernel("b", 10.5, 0)]
    assert advise(load_profile(write_trace(tmp_path, events))).recoverable_ns == 0


def test_a_profile_in_which_nothing_takes_time_has_a_picture(tmp_path: Path):
    events = [kernel("a", 0.5, 0), kernel("b", 0.5, 0)]
    picture = step_picture(advise(load_profile(write_trace(tmp_path, events))))
    assert picture.shares["nothing"].tolist() == [1.0] * len(picture.bin_ns)


@pytest.mark.parametrize("per_sm", ["1e-400", "1e-320", "1e-5", "0", "-1", "1e400", "1e999999999", "true"])
def test_an_absurd_number_of_blocks_per_sm_hints_at_no_device(per_sm: str, tmp_path: Path):
    path = write_trace(tmp_path, [kernel("a", 0.5, 10, blocks_per_SM="HERE")], [])
    path.write_text(path.read_text().replace('"HERE"', per_sm))
    profile = load_profile(path)
    assert profile.devices == {0: None}
    assert profile.notes[0].startswith("No device properties in the profile: occupancy and waves are unknown")


def test_times_that_add_up_to_more_than_64_bits_are_refused(tmp_path: Path):
    events = [kernel("a", n + 0.5, 2e15, stream=n) for n in range(10)]
    with pytest.raises(RecordingError, match=r"take over \d+ years"):
        load_profile(write_trace(tmp_path, events))


@pytest.mark.parametrize("ts", [-9e15, 9e15, -2e15, 2e15])
def test_no_time_of_a_profile_is_negative(ts: float, tmp_path: Path):
    events = [kernel("a", 0.5, 10), kernel("b", 10.5, 10), kernel("c", ts, 10)]
    advice = advise(load_profile(write_trace(tmp_path, events)))
    assert min(advice.compute_ns, advice.launch_gap_ns, advice.pause_ns, advice.profile.span_ns) >= 0


def test_device_properties_cost_no_memory_beyond_the_few_that_are_read(tmp_path: Path):
    entries = [{**H100, "id": n, "more": "x" * 100_000} for n in range(600)]
    path = write_trace(tmp_path, [kernel("a", 0.5, 10)], entries)
    tracemalloc.start()
    assert load_profile(path).devices[0].sm_count == 132
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 30 << 20


def test_more_text_in_names_than_kernels_have_is_refused(tmp_path: Path):
    events = [kernel(f"{n:05}" + "x" * 4_000, n + 0.5, 0.4) for n in range(1_500)]
    with pytest.raises(RecordingError, match="MB of names"):
        load_profile(write_trace(tmp_path, events))


def seconds(function, *arguments) -> float:
    """CPU time without the collector's, whose share is that of the whole test run's objects."""
    gc.disable()
    try:
        start = time.process_time()
        function(*arguments)
        return time.process_time() - start
    finally:
        gc.enable()


@pytest.mark.alone
@pytest.mark.parametrize("name", ["elementwise<" + "a" * 4_000, "cutlass" * 580, "fp8_gemm_kernel" * 270])
def test_the_time_for_a_name_grows_with_its_length_only(name: str):
    few = min(seconds(parsed_name.__wrapped__, name[:1_000]) for _ in range(5))
    assert min(seconds(parsed_name.__wrapped__, name) for _ in range(5)) < 9 * few


@pytest.mark.alone
def test_many_streams_cost_no_more_than_their_rows(tmp_path: Path):
    events = [{**kernel("a", 12 * n + 0.5, 10), "pid": n} for n in range(9_000)]
    profile = load_profile(write_trace(tmp_path, events))
    assert min(seconds(device_gaps, profile) for _ in range(3)) < 0.1


@pytest.mark.alone
def test_a_step_of_many_kinds_of_kernels_is_drawn_in_time_linear_in_them(tmp_path: Path):
    events = [kernel(f"{('gemm', 'copy')[n % 2]}{n}", 12 * n + 0.5, 10) for n in range(4_000)]
    assert seconds(step_picture, advise(load_profile(write_trace(tmp_path, events)))) < 1
