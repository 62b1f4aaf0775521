"""Model stacks: compared before they are timed, predicted before both; the page says what the file says."""

import hashlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from wavesim.errors import RecordingError
from wavesim_gpu.evaluation import stack_table
from wavesim_gpu.evaluation.model_stack import main, predictions
from wavesim_gpu.evaluation.stack_models import PHASES, STACKS, TINY, TINY_PHASES, mlp_shape
from wavesim_gpu.evaluation.stack_programs import COMPILED, COMPILED_SWAPPED, PROGRAMS, SWAPPED, TORCH

ROOT = Path(__file__).parents[4]


def program(*times_ns: int) -> dict[str, object]:
    return {"times_ns": list(times_ns), "repeats": 2, "relative_error": 0.004, "argmax_agreement": 1.0}


def result(**programs: dict[str, object]) -> dict[str, object]:
    given = {TORCH: program(1000, 1000), SWAPPED: program(800, 1000), COMPILED: program(900, 900)}
    case = {"model": "m", "phase": "decode", "batch": 16, "tokens": 1, "rows": 16}
    return {
        "date": "2026-11-22T10:00:00+00:00", "device": "NVIDIA H200", "versions": {"torch": "2.11"},
        "rounds": 2, "is_tuned": False, "cases": [{**case, "programs": {**given, **programs}}],
    }  # fmt: skip


def test_the_shapes_are_those_of_the_models_they_are_named_after():
    llama, qwen = STACKS
    assert mlp_shape(llama, 512).products == 2 * 14336
    assert (mlp_shape(qwen, 16).m, mlp_shape(qwen, 16).k, mlp_shape(qwen, 16).n1) == (16, 3584, 18944)
    assert sorted(phase.rows for phase in PHASES) == [1, 16, 64, 512, 1024, 2048]


def test_the_table_has_paired_speeds_and_dashes_where_nothing_was_timed():
    table = stack_table.markdown_table(result(**{COMPILED_SWAPPED: {"failed": "RuntimeError: no"}}))
    row = next(line for line in table.splitlines() if line.startswith("| m "))
    assert "decode, batch 16" in row
    assert "1.125 (1.062 to 1.188)" in row
    assert row.endswith("| - | - |")
    assert "The lowest speed is 1.125" in table
    assert f"- m, decode 16: {COMPILED_SWAPPED}: RuntimeError: no" in table


def test_the_slowest_step_is_found_in_both_pairs():
    assert stack_table.slowest(result(**{COMPILED_SWAPPED: program(1000, 1000)})) == pytest.approx(0.9)
    assert stack_table.slowest({"cases": []}) is None


@pytest.mark.parametrize(
    "damaged", [{}, {"cases": [{}]}, {"cases": 3}, result(**{TORCH: {"times_ns": ["x"]}})]
)
def test_a_damaged_result_is_refused(damaged):
    with pytest.raises(RecordingError):
        stack_table.markdown_table(damaged)


def test_the_table_goes_between_its_marks_and_nowhere_else():
    page = f"before\n{stack_table.BEGIN}\nold\n{stack_table.END}\nafter\n"
    assert stack_table.with_table(page, "new") == page.replace("old", "new")
    with pytest.raises(RecordingError, match="no lines"):
        stack_table.with_table("no marks", "new")


def test_the_page_says_what_the_newest_results_say():
    newest = stack_table.newest()
    page = stack_table.PAGE.read_text() if stack_table.PAGE.exists() else ""
    if newest is None:
        assert HEAD_OF_TABLE not in page
        return
    table = stack_table.markdown_table(json.loads(newest.read_text()))
    assert page == stack_table.with_table(page, table)


HEAD_OF_TABLE = stack_table.HEAD


def test_what_the_page_says_was_expected_of_an_mlp_and_measured_is_in_the_newest_results():
    found = json.loads(stack_table.newest().read_text())
    words = " ".join(stack_table.PAGE.read_text().split())
    choices = {row["rows"]: row["choice"] for row in found["predictions"]}
    expected = {m: f"{100 * (1 - c['predicted_ns'] / c['library_ns']):.1f}" for m, c in choices.items()}
    assert (
        f"{expected[512]} % less time than by cuBLASLt at 512 rows, {expected[1024]} % at 1,024 and "
        f"{expected[2048]} % at 2,048, and nothing at 1, 16 and 64" in words
    )
    assert [expected[m] for m in (1, 16, 64)] == ["0.0"] * 3
    head, line = found["cases"][0]["report"].splitlines()[1:3]
    columns = re.findall(r"([\d,]+) tokens?", head)
    gains = dict(zip(columns, re.findall(r"\+[\d.]+ %, measured|cuBLASLt, no gain", line), strict=True))
    measured = {rows: gain.removeprefix("+").removesuffix(" %, measured") for rows, gain in gains.items()}
    assert (
        f"Tuning then measured {measured['512']}, {measured['1,024']} and {measured['2,048']} %, and nothing "
        "at 1, 16 and 64." in words
    )
    assert measured["1"] == measured["16"] == measured["64"] == "cuBLASLt, no gain"
    assert found["is_tuned"]
    assert "The MLPs were tuned on that GPU first" in words


def test_steps_without_torch_compile_and_the_order_of_rows_are_said():
    found = result()
    (late,) = found["cases"]
    early = {**late, "phase": "prefill", "batch": 1, "tokens": 512, "rows": 512}
    early["programs"] = {label: late["programs"][label] for label in (TORCH, SWAPPED)}
    table = stack_table.markdown_table({**found, "cases": [late, early]})
    assert table.index("| prefill 512 |") < table.index("| decode, batch 16 |")
    assert "Not run under torch.compile, for want of time: prefill 512." in table
    assert "Not run under" not in stack_table.markdown_table(found)
    assert stack_table.TUNED not in table
    assert stack_table.TUNED in stack_table.markdown_table({**found, "is_tuned": True})
    assert f"0.4 % ({SWAPPED}), 0.4 % ({COMPILED})." in table


def test_predictions_of_shipped_results_were_not_changed_afterwards():
    for path in sorted(stack_table.RESULTS.glob("*.predictions.json")):
        found = json.loads(path.with_name(path.name.replace(".predictions", "")).read_text())
        assert hashlib.sha256(path.read_bytes()).hexdigest() == found["predictions_sha256"], path
        assert json.loads(path.read_text()) == found["predictions"], path


def test_where_nothing_can_be_predicted_the_reason_is_kept(monkeypatch):
    monkeypatch.setitem(sys.modules, "wavesim_gpu.layers.choose", None)
    found = predictions(TINY, TINY_PHASES, None)
    assert [row["rows"] for row in found] == [8, 2]
    assert all("wavesim_gpu.layers.choose" in row["not_predicted"] for row in found)


@pytest.mark.parametrize("line", ["", "--out x --rounds 0", "--out x --only magic", "--out x --seconds nan"])
def test_wrong_options_end_with_status_two(line, capsys):
    try:
        status = main(line.split())
    except SystemExit as end:
        status = end.code
    assert status == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def pretended_optimize(change):
    """A stand-in for `wavesim_gpu.torch` whose `optimize` does `change` to the model."""
    module = ModuleType("wavesim_gpu.torch")

    def optimize(model, tokens, *, tune):
        change(model)
        return "pretended"

    module.optimize = optimize
    return module


def nothing(model):
    pass


def break_weights(model):
    model.model.layers[0].mlp.down_proj.weight.data.mul_(-30)


@pytest.mark.slow
@pytest.mark.parametrize(("change", "is_right"), [(nothing, True), (break_weights, False)])
def test_a_model_whose_logits_differ_is_recorded_and_not_timed(change, is_right, tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    monkeypatch.setitem(sys.modules, "wavesim_gpu.torch", pretended_optimize(change))
    out = tmp_path / "stack.json"
    assert main(["--tiny", "--cpu", "--no-compile", "--rounds", "3", "--out", str(out)]) == 0
    found = json.loads(out.read_text())
    registered = (tmp_path / "stack.predictions.json").read_bytes()
    assert hashlib.sha256(registered).hexdigest() == found["predictions_sha256"]
    assert [case["phase"] for case in found["cases"]] == ["prefill", "decode"]
    for case in found["cases"]:
        assert len(case["programs"][TORCH]["times_ns"]) == 3
        swapped = case["programs"][SWAPPED]
        assert ("times_ns" in swapped) == is_right
        assert is_right or "logits differ" in swapped["failed"]
    assert "decode, batch 2" in stack_table.markdown_table(found)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torch.compile itself
def test_all_four_programs_are_timed_where_torch_compiles(tmp_path, monkeypatch):
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    monkeypatch.setitem(sys.modules, "wavesim_gpu.torch", pretended_optimize(nothing))
    out = tmp_path / "stack.json"
    assert main(["--tiny", "--cpu", "--rounds", "2", "--seconds", "300", "--out", str(out)]) == 0
    for case in json.loads(out.read_text())["cases"]:
        assert {label for label, found in case["programs"].items() if "times_ns" in found} == set(PROGRAMS)
