"""What an author answers about a pair: grids unflattened, persistent kernels' tiles, verdicts at once."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from kineto_traces import advice_of, kernel, write_trace

from wavesim.cli.command_line import main
from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.device import load
from wavesim.profile.advice import Advice
from wavesim.profile.pair_file import PairAnswers, load_answers, pair_description, pair_toml
from wavesim.profile.pair_verdicts import verdicts_of
from wavesim.work.description.reader import load_description

GEMMS = "ampere_fp16_s16816gemm_fp16_128x256_ldg8_f2f_stages_64x3_nn"
PERSISTENT = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute"
ANSWERS = """
pair = 1
reads = "row"
[producer]
m = 1024
n = 6144
k = 512
tile = [128, 256, 64]
wait = "block-barrier"
[consumer]
m = 1024
n = 2048
k = 6144
tile = [128, 128]
kernel_us = 90.5
"""


def flat_pair(
    folder: Path, first: str = GEMMS, second: str = GEMMS, grids: tuple = ((192, 1, 1), (128, 1, 1))
) -> Path:
    """A profile of two kernels of one dimension each, three times."""
    events = [
        kernel(name, 102 * start, 100, grid=list(grid))
        for start, (name, grid) in enumerate([*zip((first, second), grids, strict=True)] * 3)
    ]
    return write_trace(folder, events)


@pytest.fixture
def advice(tmp_path: Path) -> Advice:
    return advice_of(flat_pair(tmp_path))


def answers_of(folder: Path, text: str) -> PairAnswers:
    path = folder / "answers.toml"
    path.write_text(text)
    return load_answers(path)


def test_sizes_and_tiles_make_columns_and_rows_of_a_flat_launch(tmp_path: Path, advice: Advice):
    description = pair_description(advice.pair(1), answers_of(tmp_path, ANSWERS))
    assert [str(stage.grid) for stage in description.pipeline.stages] == ["24 x 8", "16 x 8"]
    assert str(description.pipeline.dependencies[0].needs[0]) == "producer[:, y]"
    assert description.pipeline.stages[0].main_loop.wait_place == "block-barrier"
    assert description.kernel_ns == {"producer": 100_000, "consumer": 90_500}


def test_the_text_is_read_back_as_the_same_pair(tmp_path: Path, advice: Advice):
    answers = answers_of(tmp_path, ANSWERS)
    path = tmp_path / "pair.toml"
    path.write_text(pair_toml(advice.pair(1), "a profile", answers))
    described, again = pair_description(advice.pair(1), answers), load_description(path)
    assert again.pipeline.stages == described.pipeline.stages
    assert again.pipeline.dependencies == described.pipeline.dependencies
    assert again.kernel_ns == described.kernel_ns
    assert "said by its author: the consumer reads producer[:, y]" in path.read_text()
    assert "ASSUMED" in pair_toml(advice.pair(1), "a profile")


@pytest.mark.parametrize(("driver", "name"), [("NVIDIA H200", "h200"), ("NVIDIA H100 80GB HBM3", "h100")])
def test_the_text_names_the_device_of_the_profile(tmp_path: Path, advice: Advice, driver: str, name: str):
    pair = advice.pair(1)
    kernels = [
        replace(kernel, device=replace(load(name), name=driver)) for kernel in (pair.producer, pair.consumer)
    ]
    named = replace(pair, producer=kernels[0], consumer=kernels[1])
    assert f'device = "{name}"' in pair_toml(named, "a profile", answers_of(tmp_path, ANSWERS))


@pytest.mark.parametrize(
    ("first", "second", "reads", "needs"),
    [
        ([128, 256], [128, 128], "row", "producer[:, y]"),
        (
            [128, 256],
            [256, 64],
            "row",
            "producer[:, ((y * 256) // 128):min((((y + 1) * 256) + 127) // 128, 8)]",
        ),
        ([128, 256], None, "row", "producer[:, ((x * 8) // 128)]"),
        (None, [128, 128], "row", "producer[((y * 192) // 8):(((y + 1) * 192) // 8), 0]"),
        (None, None, "", "producer[(((x + 1) * 192) // 128 - 1), 0]"),
        (None, None, "producer[x, 0]", "producer[x, 0]"),
        ([128, 384], [128, 128], "tile", "producer[x, y]"),
    ],
)
def test_what_is_read_follows_from_a_word_and_the_grids(
    tmp_path: Path, first: list[int] | None, second: list[int] | None, reads: str, needs: str
):
    columns = {None: 6144, 256: 6144, 384: 6144}[None if first is None else first[1]]
    producer = {} if first is None else {"m": 1024, "n": columns, "k": 512, "tile": first}
    consumer = {} if second is None else {"m": 1024, "n": 2048, "k": 6144, "tile": second}
    blocks = 192 if first is None else 8 * (columns // first[1])
    advice = advice_of(flat_pair(tmp_path, grids=((blocks, 1, 1), (128, 1, 1))))
    description = pair_description(advice.pair(1), PairAnswers(1, producer, consumer, reads))
    ours = str(description.pipeline.dependencies[0].needs[0]).replace("(", "").replace(")", "")
    assert ours == needs.replace("(", "").replace(")", "")


def test_a_flat_launch_that_is_no_product_has_the_columns_and_rows_that_are_answered(tmp_path: Path):
    pair = advice_of(flat_pair(tmp_path)).pair(1)
    grids = [{"grid": [24, 8]}, {"grid": [16, 8]}]
    description = pair_description(pair, PairAnswers(1, *grids, reads="row"))
    assert [str(stage.grid) for stage in description.pipeline.stages] == ["24 x 8", "16 x 8"]
    assert str(description.pipeline.dependencies[0].needs[0]) == "producer[:, y]"
    with pytest.raises(RecordingError, match=r"'producer.grid' is .* 24 x 9, 216 blocks; 192 were launched"):
        pair_description(pair, PairAnswers(1, {"grid": [24, 9]}, reads="row"))


def test_a_persistent_kernel_can_be_described_by_its_tiles(tmp_path: Path):
    advice = advice_of(flat_pair(tmp_path, PERSISTENT, PERSISTENT, ((132, 1, 1), (132, 1, 1))))
    with pytest.raises(DescriptionError, match=r"persistent\. Answer with m, n, k and tile, or with grid"):
        pair_description(advice.pair(1))
    sizes = {"m": 2048, "n": 4096, "k": 4096, "tile": [128, 128, 64]}
    description = pair_description(advice.pair(1), PairAnswers(1, sizes, sizes, "row"))
    assert [str(stage.grid) for stage in description.pipeline.stages] == ["32 x 16", "32 x 16"]
    assert all(stage.main_loop.is_persistent for stage in description.pipeline.stages)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "tile = [128, 256, 64]",
            "tile = [128, 128, 64]",
            "48 x 8, 384 blocks; 192 were launched. Correct one",
        ),
        ("k = 512\n", "", r"producer.k' is missing"),
        ("m = 1024", "m = 0", "m is 0"),
        ('reads = "row"', 'reads = "magic"', "field 'reads': has 'magic'; write STAGE"),
        ('reads = "row"', 'reads = "tile"', "'tile', and the grids differ: 24 x 8 and 16 x 8 tiles. Use row"),
        ('reads = "row"', 'reads = "producer[:, y + 1]"', "reads row 8"),
        (
            'wait = "block-barrier"',
            "threads = 3",
            "'producer.threads' is unknown; known are grid, kernel_us, pipeline_depth",
        ),
        ("pair = 1", "pair = 9", "pair is 9; this profile has pairs 1 to"),
        ("pair = 1", 'pair = "1"', "pair' is '1'; expected an integer"),
        ("pair = 1", "pairs = 1", "'pairs' is unknown; known are pair, reads.* The nearest is pair"),
        ("[consumer]", "consumer = 3\n[other]", "'other' is unknown|consumer' is 3"),
    ],
)
def test_answers_that_cannot_be_are_refused(tmp_path: Path, advice: Advice, old: str, new: str, message: str):
    assert old in ANSWERS

    def described() -> None:
        answers = answers_of(tmp_path, ANSWERS.replace(old, new))
        pair_description(advice.pair(answers.pair), answers)

    with pytest.raises((DescriptionError, RecordingError), match=message):
        described()


def test_the_best_pairs_are_simulated_with_interval_and_history(tmp_path: Path, advice: Advice):
    first, *_ = verdicts_of(advice, 2, 60.0, answers_of(tmp_path, ANSWERS))
    assert first.pair == 1
    assert first.verdict is not None
    document = first.as_json()
    assert {
        "pair",
        "best",
        "reason",
        "improvement_points",
        "low",
        "high",
        "scored",
        "basis",
        "defaults",
        "history",
    } <= set(document)
    assert document["low"] <= document["improvement_points"] <= document["high"]
    assert any(line.strip().startswith("gain ") for line in first.text)


def test_what_the_time_does_not_allow_is_named(advice: Advice):
    (verdict,) = verdicts_of(advice, 1, 0.0)
    assert verdict.verdict is None
    assert "the time is up; give more with --seconds" in verdict.text[0]
    nothing = {"pair": verdict.pair, "best": None, "recommended": None, "reason": verdict.reason}
    assert verdict.as_json() == nothing


def test_the_command_answers_writes_and_predicts_in_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    profile, toml, answers = flat_pair(tmp_path), tmp_path / "pair.toml", tmp_path / "answers.toml"
    answers.write_text(ANSWERS)
    words = [
        "advise",
        str(profile),
        "--answers",
        str(answers),
        "--toml",
        str(toml),
        "--verdicts",
        "0",
        "--json",
    ]
    assert main(words) == 0
    (verdict,) = json.loads(capsys.readouterr().out)["verdicts"]
    assert main(["predict", "--file", str(toml), "--json"]) == 0
    predicted = json.loads(capsys.readouterr().out)
    assert verdict["improvement_points"] == pytest.approx(predicted["improvement_points"])


def test_questions_are_asked_until_the_answers_describe_the_pair(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    profile, toml = flat_pair(tmp_path), tmp_path / "pair.toml"
    wrong = ["1", "1024 6144 512", "128 128", "no", "", "-", "", "no", "", "row"]  # 384 blocks are not 192
    right = ["1", "1024 6144 512", "128 256 64", "no", "", "1024 2048 6144", "128 128", "no", "88", "row"]
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*wrong, *right]) + "\n"))
    assert main(["advise", str(profile), "--ask", "--toml", str(toml), "--verdicts", "0", "--verbose"]) == 0
    captured = capsys.readouterr()
    assert "384 blocks; 192 were launched" in captured.err
    assert "pair 1, " in captured.out
    description = load_description(toml)
    assert [str(stage.grid) for stage in description.pipeline.stages] == ["24 x 8", "16 x 8"]
    assert description.kernel_ns["consumer"] == 88_000


def test_an_input_that_ends_too_early_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO("1\n"))
    assert main(["advise", str(flat_pair(tmp_path)), "--ask"]) == 2
    assert "the input ended before all questions were answered" in capsys.readouterr().err
