"""The advice: counted by hand, ranked, marked, written out for `predict`, printed as agreed."""

from pathlib import Path

import pytest
from kineto_traces import REAL, advice_of, kernel, raw_trace, write_trace

from wavesim.errors import DescriptionError
from wavesim.predict.prediction import measured_improvement
from wavesim.profile.advice import Advice, advise
from wavesim.profile.advice_json import advice_document
from wavesim.profile.kernel_names import parsed_name
from wavesim.profile.pair_gain import other_tile
from wavesim.profile.profile_file import load_profile
from wavesim.profile.wave_model import Waves, hole_of, time_saved
from wavesim.recordings.shipped import cases

ROOT = Path(__file__).parents[3]
SHIPPED = [*ROOT.glob("wavesim/recordings/profiles/*.gz"), *ROOT.glob("gpu/results/advice/*.gz")]
each_trace = pytest.mark.parametrize("name", REAL)
# By eye, from the lists of kernels: words of those that communicate, and of those known to be persistent.
COMMUNICATION = ("nccl", "all_reduce")
PERSISTENT = ("sm90_xmma_gemm", "nvjet", "Persistent")
RESIDENT = {
    "CatArrayBatchedCopy": 4,
    "quantize_with_block_size": 5,
}  # blocks per SM of grids made to fill the device
# Share of the kernels' time, in percent, with communication left out: waves under half full, tail loss.
KNOWN = {"h100": (52, 4.2), "a100": (53, 7.7), "v100": (50, 10.2)}


def blind_by_hand(trace: dict) -> float:
    sms = trace["deviceProperties"][0]["numSms"]
    total = blind = 0.0
    for event in trace["traceEvents"]:
        if str(event.get("cat")).lower() != "kernel":
            continue
        name, (x, y, z) = event["name"], event["args"]["grid"]
        per_sm = x * y * z / sms
        fills = next((per_sm == most for word, most in RESIDENT.items() if word in name), False)
        total += event["dur"]
        if any(word in name for word in (*COMMUNICATION, *PERSISTENT)) or fills:
            blind += event["dur"]
    return blind / total


@pytest.mark.slow
@each_trace
def test_the_blind_share_is_that_counted_by_hand(name: str, advices: dict[str, Advice]):
    by_hand = blind_by_hand(raw_trace(REAL[name]))
    assert advices[name].blind_share == pytest.approx(by_hand, abs=0.02)
    if name != "v100":
        assert by_hand > 0.25


@pytest.mark.parametrize("name", KNOWN)
def test_tail_loss_is_what_others_found_in_these_traces(name: str, advices: dict[str, Advice]):
    advice = advices[name]
    computing = advice.compute_ns - advice.blind_ns.get("communication", 0)
    low = sum(k.total_ns for k in advice.kernels if k.waves and k.waves.last < k.waves.slots / 2)
    assert 100 * advice.tail_loss_ns / computing == pytest.approx(KNOWN[name][1], abs=0.1)
    assert 100 * low / computing == pytest.approx(KNOWN[name][0], abs=1)


@each_trace
def test_pairs_are_ranked_and_lie_in_their_intervals(name: str, advices: dict[str, Advice]):
    pairs = advices[name].pairs
    assert [pair.number for pair in pairs] == list(range(1, len(pairs) + 1))
    likely = [pair.saving.likely_ns for pair in pairs]
    assert likely == sorted(likely, reverse=True)
    for pair in pairs:
        assert pair.saving.low_ns <= pair.saving.likely_ns <= pair.saving.high_ns
        assert pair.saving.high_ns <= pair.count * (pair.producer.mean_ns + pair.consumer.mean_ns)
        assert pair.is_visible or pair.saving.high_ns == 0


def test_a_hand_made_pair_saves_what_fits_into_the_hole(tmp_path: Path):
    # One block per SM: 198 blocks are 1.5 waves of 50 us, so 66 SMs are free in the second; 66 of the
    # consumer's blocks run there, and its other 132 are one wave instead of two.
    block = {"registers_per_thread": 128, "shared_memory": 150_000}
    events = [kernel("gemm_a", 0.5, 100, **block), kernel("gemm_b", 101.5, 100, **block)]
    (pair,) = advise(load_profile(write_trace(tmp_path, events))).pairs
    assert (pair.producer.waves.waves, pair.consumer.waves.waves) == (1.5, 1.5)
    assert pair.saving.likely_ns == pytest.approx(50_000)
    assert (pair.gap_ns, pair.gap_saving.high_ns) == (1_000, 1_000)


def test_the_hole_between_two_that_alternate_is_filled_once(tmp_path: Path):
    # A, B, A, B: alone, each of the three pairs would save 50 us. The four holes of 66 SMs for 50 us are
    # 100 us of the whole device: the two pairs A, B fill them, and nothing is left for B, A.
    block = {"registers_per_thread": 128, "shared_memory": 150_000}
    events = [kernel(f"gemm_{name}", 0.5 + 101 * i, 100, **block) for i, name in enumerate("abab")]
    advice = advise(load_profile(write_trace(tmp_path, events)))
    first, second = advice.pairs
    assert (first.count, second.count, advice.tail_loss_ns) == (2, 1, 100_000)
    assert first.saving.likely_ns == pytest.approx(100_000)
    assert second.saving.likely_ns == 0
    turned = advice.marked({second.number: True})
    assert turned.pair(second.number).saving.likely_ns == pytest.approx(50_000)
    assert turned.recoverable_ns == pytest.approx(100_000)
    assert advice.marked({first.number: False}).pair(second.number).saving.likely_ns == pytest.approx(50_000)


@pytest.mark.slow
@pytest.mark.parametrize("source", [*SHIPPED, *REAL], ids=lambda source: getattr(source, "name", source))
def test_no_more_can_be_won_than_is_lost(source: Path | str):
    path = REAL[source] if isinstance(source, str) else source
    advice = advice_of(path)
    alternatives = [advice, *(advice.marked({pair.number: True}) for pair in advice.visible_pairs[:3])]
    for alternative in alternatives:
        assert alternative.recoverable_ns <= (alternative.tail_loss_ns + alternative.launch_gap_ns) * (
            1 + 1e-6
        )
    assert sum(pair["recoverable_ns"] for pair in advice_document(advice)["pairs"]) <= (
        advice.tail_loss_ns + advice.launch_gap_ns
    )
    if path.name == "own-128x256-gpt3-m1536.json.gz":  # each pair alone adds up to 6.79 ms
        assert advice.recoverable_ns == pytest.approx(advice.tail_loss_ns, rel=1e-6)


def test_a_full_last_wave_and_a_single_wave_leave_nothing():
    for blocks in (264, 132, 60):
        producer = Waves(blocks, 132, 132)
        hole = hole_of(producer, 100_000, is_memory_bound=False)
        assert time_saved(hole, 1 - producer.last / blocks, Waves(100, 132, 132), 50_000) == 0


def test_marks_move_the_interval_and_unknown_numbers_are_refused(advices: dict[str, Advice]):
    advice = advices["v100"]
    dependent, independent = advice.marked({1: True}), advice.marked({1: False})
    assert dependent.pair(1).saving.low_ns > advice.pair(1).saving.low_ns
    assert dependent.pair(1).saving.likely_ns == advice.pair(1).saving.likely_ns
    assert independent.pair(1).saving.high_ns == 0
    with pytest.raises(DescriptionError, match="pair is 999; this profile has pairs 1 to"):
        advice.marked({999: True})


def test_the_interval_covers_nine_of_ten_recorded_pairs():
    inside, errors = [], []
    for case in (case for case in cases() if "stream" in case.paths and case.order == "row"):
        stream = case.trace("stream")
        infos = stream.header.stages
        times = [
            int(stream.end_ns[stream.stage == s].max() - stream.start_ns[stream.stage == s].min())
            for s in range(len(infos))
        ]
        if len(infos) != 2 or any(info.grid[2] > 1 for info in infos) or case.workload != "gpt3-mlp":
            continue
        gain, low, high = predicted(infos, times)
        best = max(
            measured_improvement(case.trace(p), stream).median for p in case.paths if p in ("row", "tile")
        )
        inside.append(low <= best <= high)
        errors.append(abs(gain - best))
    assert len(inside) >= 20
    assert sum(inside) >= 0.9 * len(inside)
    assert sorted(errors)[len(errors) // 2] < 2.0


def predicted(infos, times) -> tuple[float, float, float]:
    """(likely, low, high) in points, from a pair's profile alone."""
    from dataclasses import replace

    from wavesim.profile.kernel_facts import KernelFacts
    from wavesim.profile.pair_gain import sync_saving
    from wavesim.profile.profile import LaunchShape

    facts = [
        KernelFacts(
            LaunchShape("gemm", 0, info.grid, info.threads, None, None),
            replace(parsed_name("gemm")),
            None,
            1,
            time,
            None,
            Waves(info.grid[0] * info.grid[1], 132 * info.blocks_per_sm, 132),
            None,
        )
        for info, time in zip(infos, times, strict=True)
    ]
    saving = sync_saving(*facts, is_dependent=True)
    return tuple(100 * value / sum(times) for value in (saving.likely_ns, saving.low_ns, saving.high_ns))


def test_another_tile_halves_the_price_of_a_nearly_empty_last_wave(tmp_path: Path):
    # One block per SM, 135 blocks: the second wave has 3. In halves, two per SM, the last 6 run alone.
    block = {"registers_per_thread": 128, "shared_memory": 150_000, "block": [256, 1, 1]}
    events = [kernel("cutlass_gemm_256x128_32x3", 0.5, 200, grid=[135, 1, 1], **block), kernel("b", 300, 1)]
    advice = advise(load_profile(write_trace(tmp_path, events)))
    gemm = next(k for k in advice.kernels if k.name.kind == "gemm")
    tile = other_tile(gemm)
    assert tile is not None
    assert tile.tile in {(128, 128), (256, 64)}
    assert tile.waves == pytest.approx(270 / 264)
    assert (
        tile.saving.low_ns < tile.saving.likely_ns == pytest.approx(200_000 * (1 - 1.72 / 2 / 0.91), rel=0.01)
    )
    assert advice.other_tiles[0][0] is gemm
