"""The advice: counted by hand, ranked, marked, written out for `predict`, printed as agreed."""

import json
from pathlib import Path

import pytest
from fuzz_profiles import fuzz
from kineto_traces import REAL, kernel, raw_trace, write_trace

from wavesim.advise.advice import Advice, advise
from wavesim.advise.advice_text import (
    findings,
    headline,
    pair_rows,
    pairs_left_out,
    summary_text,
    tile_lines,
)
from wavesim.advise.kernel_names import parsed_name
from wavesim.advise.pair_file import pair_toml
from wavesim.advise.pair_gain import other_tile
from wavesim.advise.profile_file import load_profile
from wavesim.advise.wave_model import Waves, hole_of, time_saved
from wavesim.cli.command_line import main
from wavesim.errors import DescriptionError
from wavesim.model.description import load_description
from wavesim.predict.prediction import measured_improvement
from wavesim.predict.verdict import verdict_on
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


@pytest.fixture(scope="module")
def advices() -> dict[str, Advice]:
    return {name: advise(load_profile(path)) for name, path in REAL.items()}


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


@pytest.mark.parametrize("path", [*SHIPPED, *REAL.values()], ids=lambda path: path.name)
def test_no_more_can_be_won_than_is_lost(path: Path):
    advice = advise(load_profile(path))
    alternatives = [advice, *(advice.marked({pair.number: True}) for pair in advice.visible_pairs[:3])]
    for one in alternatives:
        assert one.recoverable_ns <= (one.tail_loss_ns + one.launch_gap_ns) * (1 + 1e-6)
    assert sum(pair["recoverable_ns"] for pair in advice.json_object["pairs"]) <= (
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

    from wavesim.advise.kernel_facts import KernelFacts
    from wavesim.advise.pair_gain import sync_saving
    from wavesim.advise.profile import LaunchShape

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


def test_a_pair_written_out_is_read_back_and_predicted(tmp_path: Path, advices: dict[str, Advice]):
    pair = advices["v100"].pair(4)
    path = tmp_path / "pair.toml"
    path.write_text(pair_toml(pair, "v100"))
    found = load_description(path)
    first, second = found.pipeline.stages
    assert (first.grid.size, second.grid.size) == (pair.producer.shape.blocks, pair.consumer.shape.blocks)
    assert first.kernel.block.registers == pair.producer.shape.registers
    assert found.kernel_ns["producer"] == pytest.approx(pair.producer.mean_ns, abs=1)
    verdict = verdict_on(found.pipeline, found.device, found.kernel_ns)
    assert verdict.low <= verdict.improvement_points <= verdict.high


@each_trace
def test_every_visible_pair_can_be_written_out(name: str, tmp_path: Path, advices: dict[str, Advice]):
    for pair in advices[name].visible_pairs[:12]:
        if pair.producer.shape.blocks * pair.consumer.shape.blocks < 10**9:
            (tmp_path / "p.toml").write_text(pair_toml(pair, name))
            assert load_description(tmp_path / "p.toml").pipeline.dependencies


def test_a_hidden_pair_says_why_it_cannot_be_predicted(advices: dict[str, Advice]):
    hidden = next(pair for pair in advices["h100"].pairs if not pair.is_visible)
    with pytest.raises(DescriptionError, match="persistent"):
        pair_toml(hidden, "h100")


def test_another_tile_halves_the_price_of_a_nearly_empty_last_wave(tmp_path: Path):
    # One block per SM, 135 blocks: the second wave has 3. In halves, two per SM, the last 6 run alone.
    block = {"registers_per_thread": 128, "shared_memory": 150_000, "block": [256, 1, 1]}
    events = [kernel("cutlass_gemm_256x128_32x3", 0.5, 200, grid=[135, 1, 1], **block), kernel("b", 300, 1)]
    advice = advise(load_profile(write_trace(tmp_path, events)))
    gemm = next(k for k in advice.kernels if k.name.kind == "gemm")
    found = other_tile(gemm)
    assert found is not None
    assert found.tile in {(128, 128), (256, 64)}
    assert found.waves == pytest.approx(270 / 264)
    assert (
        found.saving.low_ns
        < found.saving.likely_ns
        == pytest.approx(200_000 * (1 - 1.72 / 2 / 0.91), rel=0.01)
    )
    assert advice.other_tiles[0][0] is gemm


def test_three_findings_name_the_pair_the_gaps_and_what_is_hidden(advices: dict[str, Advice]):
    for advice in advices.values():
        first, second, third = findings(advice)
        assert "tile sync" in first
        assert "nothing runs" in second
        assert "cannot see" in third
        assert "%" in headline(advice)


def test_a_line_has_one_unit_and_the_table_says_what_it_leaves_out(advices: dict[str, Advice]):
    advice = advices["h100"]
    text = summary_text(advice)
    assert "would save 0.09 ms (-0.22 to 0.17 ms), 0.2 % of" in text
    assert len(pair_rows(advice)) < len(advice.pairs)
    assert f"The first {len(pair_rows(advice))} of {len(advice.pairs)} pairs" in text
    one = advise(load_profile(ROOT / "gpu" / "results" / "advice" / "triton-gelu-m1536.json.gz"))
    assert "Together" not in findings(one)[0]
    assert not pairs_left_out(one)


def test_another_tile_says_what_differs(advices: dict[str, Advice]):
    (line,) = tile_lines(advices["v100"])
    assert "2.10 waves as before, the last one faster because" in line


@each_trace
def test_the_command_prints_one_json_object_with_the_agreed_names(
    name: str, capsys: pytest.CaptureFixture[str]
):
    assert main(["advise", str(REAL[name]), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    top = {"device", "kernels", "compute_ns", "tail_loss_ns", "launch_gap_ns", "blind_share", "pairs"}
    assert set(found) == top
    each = {"producer", "consumer", "count", "recoverable_ns", "low_ns", "high_ns"}
    assert found["pairs"]
    assert all(set(pair) == each for pair in found["pairs"])


def test_the_command_writes_the_report_and_the_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    page, toml = tmp_path / "r.html", tmp_path / "p.toml"
    arguments = ["--html", str(page), "--toml", str(toml), "--pair", "2", "--depend", "2"]
    assert main(["advise", str(REAL["h100"]), *arguments]) == 0
    assert "(dependent)" in capsys.readouterr().out
    html = page.read_text()
    assert "<script src" not in html
    assert "1. flash_fwd_kernel" in html
    assert load_description(toml).pipeline.stages


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.json"], "nowhere.json: cannot be read"),
        ([__file__], "not JSON"),
        ([str(REAL["h100"]), "--depend", "one"], "--depend is 'one'"),
        ([str(REAL["h100"]), "--pair", "999", "--toml", "x.toml"], "pair is 999"),
        ([str(REAL["h100"]), "--device", "h300"], "h300"),
    ],
)
def test_bad_input_is_one_line_and_status_two(arguments, message, capsys: pytest.CaptureFixture[str]):
    assert main(["advise", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_two_hundred_damaged_files_end_in_a_profile_or_one_clear_line():
    counts, wrong = fuzz(seconds=30, most=200)
    assert not wrong
    assert sum(counts.values()) >= 50


def test_the_browser_shows_each_pair_and_keeps_what_the_reader_says(advices: dict[str, Advice]):
    from wavesim.widgets.advice_browser import AdviceBrowser

    browser = AdviceBrowser(advices["h100"])
    assert len(browser.picture.children) == 1
    browser.mark.value = "no"
    assert browser.pair.is_dependent is False
    assert browser.pair.saving.high_ns == 0
    browser.mark.value = "unknown"
    assert browser.pair.saving == advices["h100"].pair(1).saving
    hidden = next(pair for pair in advices["h100"].pairs if not pair.is_visible)
    browser.choice.value = hidden.number
    assert "persistent" in browser.picture.children[0].value


def test_a_pair_opens_in_the_explorer_with_the_profiles_kernels(advices: dict[str, Advice]):
    from wavesim.widgets.advice_browser import AdviceBrowser
    from wavesim.widgets.what_if import WhatIf

    browser = AdviceBrowser(advices["h100"])
    drawn = browser.picture.children
    browser.open_button.click()
    (explorer,) = browser.picture.children
    assert isinstance(explorer, WhatIf)
    scenario, pair = explorer.controls.scenario, browser.pair
    assert [stage.grid.size for stage in scenario.pipeline.stages] == [
        pair.producer.waves.blocks,
        pair.consumer.waves.blocks,
    ]
    assert scenario.whole_device == pair.producer.device
    before = explorer.answer.chosen
    explorer.controls.sm_count.value = 100
    assert explorer.answer.chosen.makespan_ns > before.makespan_ns
    assert explorer.controls.scenario.given is scenario.given
    assert "Which tile reads which is assumed" in explorer.costs.value
    browser.choice.value = browser.advice.visible_pairs[1].number
    assert browser.picture.children != drawn
    assert not isinstance(browser.picture.children[0], WhatIf)
    browser.choice.value = next(pair for pair in advices["h100"].pairs if not pair.is_visible).number
    assert browser.open_button.disabled


def test_figures_need_no_more_than_the_advice_and_agree_with_it(advices: dict[str, Advice]):
    from wavesim.advise.timeline_data import step_picture

    for advice in advices.values():
        picture = step_picture(advice)
        assert all(abs(sum(values) - 1) < 1e-9 for values in zip(*picture.shares.values(), strict=True))
        assert min(float(share.min()) for share in picture.shares.values()) >= -1e-9
