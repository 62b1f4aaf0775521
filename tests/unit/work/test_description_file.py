"""Users' own pairs from TOML: what is read, what is refused, and the verdict."""

import json
from pathlib import Path

import pytest

from wavesim.cli.command_line import main
from wavesim.errors import DescriptionError, RecordingError
from wavesim.plan.plan import StreamSync
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.recommendation import Recommendation, verdict_on
from wavesim.sim.simulation import simulate
from wavesim.work.description.reader import load_description
from wavesim.work.description.writer import write_description

EXAMPLE = Path(__file__).parents[3] / "docs" / "pair.toml"


def verdict_of(path: Path) -> Recommendation:
    found = load_description(path)
    return verdict_on(found.pipeline, found.device, found.kernel_ns)


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = EXAMPLE.read_text()
    assert old in text
    path = tmp_path / "pair.toml"
    path.write_text(text.replace(old, new))
    return path


def test_the_example_is_two_kernels_and_the_rows_of_one_dependency():
    found = load_description(EXAMPLE)
    assert [str(stage.grid) for stage in found.pipeline.stages] == ["24 x 8", "48 x 8"]
    assert str(found.pipeline.dependencies[0].needs[0]) == "gemm1[:, y]"
    assert found.kernel_ns == {"gemm1": 320_000, "gemm2": 255_000}


def test_costs_reproduce_each_kernels_measured_time():
    found = load_description(EXAMPLE)
    costs = costs_from_kernel_times(found.pipeline, found.device, found.kernel_ns)
    stream = simulate(found.pipeline, StreamSync(), found.device, costs)
    assert stream.makespan_ns == pytest.approx(575_000 + costs.boundary_ns, rel=0.001)


def test_a_measured_time_goes_before_a_memory_that_would_not_let_the_kernel_be_so_fast(tmp_path: Path):
    page = (EXAMPLE.parent / "describe-your-kernels.md").read_text()
    whole, *_, device = (block.split("```")[0] for block in page.split("```toml\n")[1:])
    path = tmp_path / "pair.toml"
    path.write_text(whole.replace('device = "h200"', "") + device)
    found = load_description(path)
    costs = costs_from_kernel_times(found.pipeline, found.device, found.kernel_ns)
    stream = simulate(found.pipeline, StreamSync(), found.device, costs)
    assert stream.makespan_ns == pytest.approx(455_000, rel=0.01)
    assert costs.memory is None


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (list(range(1, 9)), [row for row in range(1, 9) for _ in range(48)]),
        ([1 + tile % 48 for tile in range(384)], [1 + tile % 48 for tile in range(384)]),
    ],
    ids=["by tile rows", "by blocks"],
)
def test_a_kernels_time_is_shared_out_by_its_tiles_weights(tmp_path: Path, weights, expected):
    described = changed(tmp_path, "kernel_us = 255", f"tile_weights = {weights}\nkernel_us = 255")
    found = load_description(described)
    costs = costs_from_kernel_times(found.pipeline, found.device, found.kernel_ns)
    times = costs.tile_times(found.pipeline.stage("gemm2"))
    assert [ns / times[0] for ns in times] == pytest.approx([one / expected[0] for one in expected], rel=1e-3)
    write_description(tmp_path / "again.toml", found)
    assert load_description(tmp_path / "again.toml").pipeline.stages == found.pipeline.stages


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ("[1, 2, 3]", "tile_weights has 3 numbers; give one for each of 8 tile rows, or of 384 blocks"),
        ("[1, 2, 3, 4, 5, 6, 7, 0]", "tile_weights' is 0; it must be a number from 1e-06"),
        ('["a"]', "expected a list of numbers"),
    ],
)
def test_weights_that_are_not_one_per_tile_row_or_block_are_refused(tmp_path: Path, weights, message):
    described = changed(tmp_path, "kernel_us = 255", f"tile_weights = {weights}\nkernel_us = 255")
    with pytest.raises((RecordingError, DescriptionError), match=message):
        load_description(described)


def test_the_verdict_names_a_plan_inside_its_interval_and_why():
    found = load_description(EXAMPLE)
    verdict = verdict_on(found.pipeline, found.device, found.kernel_ns)
    assert verdict.best == "pdl+row"
    assert verdict.option.safety.basis == "cuda"
    assert verdict.low < verdict.improvement_points < verdict.high
    assert max(verdict.improvements.values()) < verdict.high
    assert "last waves" in verdict.reason


def test_full_waves_leave_nothing_to_win_and_stream_sync_is_best(tmp_path: Path):
    text = EXAMPLE.read_text().replace("[24, 8]", "[33, 8]").replace("[48, 8]", "[33, 8]")
    path = tmp_path / "full.toml"
    path.write_text(text)
    found = load_description(path)
    verdict = verdict_on(found.pipeline, found.device, found.kernel_ns)
    assert (verdict.best, verdict.improvement_points) == ("stream", 0.0)
    assert "nearly full" in verdict.reason


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('device = "h200"', 'device = "h300"', "h300"),
        ("threads = 256", "threads = 4096", "4096"),
        ("registers = 232", 'registers = "many"', r"stages\[0\].registers.*'many'"),
        ("kernel_us = 320.0", "kernel_us = -1", r"kernel_us.*-1"),
        ("grid = [24, 8]", "grid = [0, 8]", "x is 0"),
        ('"gemm1[:, y]"', '"gemm1[:, y + 1]"', r"\(0, 7\) reads row 8; rows of .* 24 x 8 are 0 to 7"),
        ('"gemm1[:, y]"', '"gemm1[2 * x, y]"', r"reads column 24; columns of .* 24 x 8 are 0 to 23"),
        ('name = "gemm2"', 'name = "gemm1"', r"stages\[1\].name.* two stages are named gemm1; give"),
        ('device = "h200"', "", "field 'device' is missing; write device = \"h200\""),
        ("kernel_us = 320.0", "", r"stages\[0\].kernel_us' is missing; write kernel_us = 320.0"),
        ('device = "h200"', "device = 200", "field 'device' is 200; expected a text"),
        ('"gemm1[:, y]"', '"gemm1[:, x * y]"', "not affine"),
        ('"gemm1[:, y]"', '"gemm1[::2, y]"', "gemm1.*write STAGE"),
        ('"gemm1[:, y]"', '"__import__(1)"', "write STAGE"),
        ('"gemm1[:, y]"', '"gemm3[:, y]"', "'gemm3'; the stages are"),
        ("kernel_us = 320.0", "kernel_ms = 3", "kernel_ms.*is unknown"),
    ],
)
def test_bad_input_names_value_and_fix(tmp_path: Path, old: str, new: str, message: str):
    path = changed(tmp_path, old, new)
    with pytest.raises((RecordingError, DescriptionError), match=message):
        verdict_of(path)


def test_a_file_that_is_not_toml_or_not_there_is_one_clear_error(tmp_path: Path):
    path = tmp_path / "broken.toml"
    path.write_bytes(b"\xff\xfe device =")
    for bad in (path, tmp_path / "missing.toml"):
        with pytest.raises(RecordingError, match=str(bad.name)):
            load_description(bad)


def test_the_command_prints_one_json_object_with_the_agreed_names(capsys: pytest.CaptureFixture[str]):
    assert main(["predict", str(EXAMPLE), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {
        "best",
        "recommended",
        "safety",
        "improvement_points",
        "low",
        "high",
        "reason",
        "basis",
        "defaults",
        "scored",
        "support",
        "interval",
        "caveats",
        "history",
    }
    assert (found["defaults"], found["scored"]) == ([], True)


def test_kernels_too_short_for_semaphores_are_told_what_it_would_cost(tmp_path: Path):
    text = EXAMPLE.read_text().replace("[24, 8]", "[33, 8]").replace("[48, 8]", "[66, 8]")
    path = tmp_path / "short.toml"
    path.write_text(
        text.replace("kernel_us = 320.0", "kernel_us = 3.0").replace("kernel_us = 255.0", "kernel_us = 3.0")
    )
    verdict = verdict_of(path)
    assert verdict.best == "stream"
    loss = max(option.points for option in verdict.tried if option.plan.sync.has_semaphores)
    assert loss < -20
    assert "the best plan tried, pdl" in verdict.reason


def test_a_device_without_recordings_is_told_apart(tmp_path: Path):
    here, there = verdict_of(EXAMPLE), verdict_of(changed(tmp_path, "h200", "b200"))
    assert (here.forecast.support, there.forecast.support) == ("here", "elsewhere")
    assert "8 times in 10" in here.forecast.text
    assert "a wide guess" in there.forecast.text


def test_a_time_faster_than_the_peak_is_flagged_where_operations_are_given(tmp_path: Path):
    possible = verdict_of(changed(tmp_path, "kernel_us = 320.0", "kernel_us = 320.0\nflops = 155e9"))
    assert "peak" not in possible.reason
    impossible = verdict_of(changed(tmp_path, "kernel_us = 320.0", "kernel_us = 32.0\nflops = 155e9"))
    assert "gemm1 is said to reach 4844 TFLOP/s, above the h200's peak of 989" in impossible.reason


def test_operations_that_are_no_number_are_refused(tmp_path: Path):
    with pytest.raises(RecordingError, match=r"stages\[0\].flops"):
        load_description(changed(tmp_path, "kernel_us = 320.0", 'kernel_us = 320.0\nflops = "many"'))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            'device = "h200"',
            'device = "h200"\ntokens = 4',
            "field 'tokens' is unknown; known are device, stages",
        ),
        (
            'consumer = "gemm2"',
            'consumer = "gemm2"\nneed = []',
            r"'dependencies\[0\].need' is unknown; known are",
        ),
        (
            "threads = 256",
            "threads = 256\nthread = 1",
            r"'stages\[0\].thread' is unknown; known are name, grid",
        ),
        ("kernel_us = 320.0", f"kernel_us = {'9' * 400}", "has more than 64 bits; write a smaller integer"),
        ("kernel_us = 320.0", "kernel_us = 1e10", r"kernel_us' is 1.* from 0.001 to 1e\+09"),
        ("kernel_us = 320.0", "kernel_us = inf", "kernel_us' is inf; write a finite number"),
        ("grid = [24, 8]", f"grid = {'[' * 5000}{']' * 5000}", "nests more than 16 deep"),
        ("grid = [24, 8]", f"grid = [{'1, ' * 9000}]", "expected .columns, rows."),
        ("grid = [24, 8]", "grid = [60000, 60000, 60000]", "216,000,000,000,000 blocks"),
        ("grid = [24, 8]", "grid = [24, 8, 60000]", "11,520,000 blocks"),
        ("threads = 256", f"threads = {2**62}", "runs at most 1024"),
        ('"gemm1[:, y]"', f'"gemm1[:, y{" + 0" * 400}]"', "write STAGE"),
        ('"gemm1[:, y]"', f'"gemm1[:, y{"+0" * 64}]"', "more than 64 terms"),
        ('"gemm1[:, y]"', f'"gemm1[:, y + {"9" * 150}]"', "tile index has"),
        ('"gemm1[:, y]"', '"gemm1[:, 0or y]"', "write STAGE"),
        ('"gemm1[:, y]"', '"gemm1[:, 1 is y]"', "write STAGE"),
        ('name = "gemm1"', f'name = "{"g" * 300}"', "300 characters; at most 200"),
    ],
)
def test_what_says_nothing_or_is_too_large_is_refused_in_one_short_line(
    tmp_path: Path, old: str, new: str, message: str
):
    path = changed(tmp_path, old, new)
    with pytest.raises((RecordingError, DescriptionError), match=message) as caught:
        verdict_of(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500
