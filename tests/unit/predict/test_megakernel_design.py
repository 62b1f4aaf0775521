"""The design of a megakernel: what it tries, what it keeps and why, by command too, and its pictures."""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from wavesim.cli.command_line import main
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.plan.megakernel import Megakernel
from wavesim.predict.megakernel_design import design_megakernel, times_by_ring
from wavesim.view.decode_figures import time_by_ring, time_by_stage
from wavesim.widgets.decode_what_if import DecodeWhatIf
from wavesim.workloads.decode_steps import decode_step
from wavesim.workloads.models import model_named

H200 = load("h200")
STEP = str(Path(__file__).parents[3] / "docs" / "decode.toml")


@pytest.fixture(scope="module")
def design():
    return design_megakernel(decode_step("qwen2.5-0.5b", splits={"attention": 1}), H200)


def test_a_design_keeps_what_saves_time_and_says_so(design):
    times = [kernel.time_ns for kernel in design.tried if kernel.is_taken]
    assert times == sorted(times, reverse=True)
    assert design.time_ns == times[-1] < times[0]
    # What was left would have saved less than what is worth a change.
    assert min(kernel.time_ns for kernel in design.tried if kernel.time_ns) >= 0.997 * design.time_ns
    assert design.layer.stage("attention").grid.z > 1
    assert design.reasons[0] == f"as described: {times[0] / 1e3:.1f} us a layer, taken"


def test_a_step_that_does_not_fit_is_split_until_it_does_or_refused():
    narrow = replace(model_named("llama-3.2-1b"), hidden=256)
    design = design_megakernel(decode_step(narrow, batch=16), H200)
    assert design.layer.stage("down").grid.z > 1
    assert "as described: Megakernel: a ring of 16,384 bytes does not fit" in design.reasons[0]
    with pytest.raises(DescriptionError, match="does not fit: stage down_0 keeps"):
        design_megakernel(decode_step("llama-65b", batch=16), H200)


def found_by(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_predict_designs_what_simulate_then_runs(capsys):
    predicted = found_by(capsys, "predict", STEP)
    assert predicted["safety"]["basis"] == "cuda"
    assert [stage["stage"] for stage in predicted["stages"]] == [
        "qkv_1",
        "attention_1",
        "out_1",
        "up_1",
        "down_1",
    ]
    simulated = found_by(capsys, "simulate", STEP, "--sync", predicted["sync"])
    # The file's own splits of attention cost a little.
    assert predicted["layer_ns"] < simulated["layer_ns"] < 1.1 * predicted["layer_ns"]
    assert predicted["layer_ns"] == sum(stage["time_ns"] for stage in predicted["stages"])
    assert found_by(capsys, "simulate", "qwen2.5-0.5b-decode-step", "--sync", "megakernel")["ring_bytes"] > 0


def test_commands_say_what_a_megakernel_is_not_for(capsys):
    assert main(["compare", STEP]) == 2
    assert "a megakernel has constants of its own" in capsys.readouterr().err
    assert main(["simulate", STEP, "--sync", "megakernel", "--device", "a100"]) == 2
    capsys.readouterr()
    assert main(["simulate", "gpt3-mlp", "--sync", "megakernel"]) == 2
    assert (
        "stage gemm1_0 is a Gemm, of which nothing is known to be there before a wait"
        in capsys.readouterr().err
    )
    assert main(["gen", "gpt3-mlp", "--sync", "megakernel"]) == 2
    assert "sync is 'megakernel', a plan whose kernels a library or you must bring" in capsys.readouterr().err


def test_the_pictures_say_how_many_bytes_are_enough_and_what_lies_above_the_roof(design):
    line = times_by_ring(design.layer, Megakernel(), H200, [16_384, 65_536, 131_072, 196_608])
    times = [each for _, each in line]
    assert times[0] > 2 * times[2]
    # Once a ring is enough a longer one delays the words that share the memory with its copies.
    assert all(after < 1.02 * before for before, after in pairwise(times))
    figure = time_by_ring(
        {"one": line, "two": [(16_384, 2.0), (32_768, 1.01), (65_536, 1.0)]}, source="simulated"
    )
    assert "KB ahead on each SM are enough" in figure.layout.title.text
    assert list(figure.data[1].x) == [16.0, 32.0, 64.0]
    with pytest.raises(DescriptionError, match="a line is empty"):
        time_by_ring({"one": []}, source="simulated")
    read, beyond = time_by_stage(design.trace).data
    assert len(read.x) == len(beyond.x) == 5
    assert sum(read.x) + sum(beyond.x) == pytest.approx(design.time_ns / 1e3, rel=0.01)


def test_the_what_if_shows_a_short_ring_beside_the_chosen_one_and_refuses_by_name():
    widget = DecodeWhatIf(cached=128)
    assert "3" in widget.finding.value
    assert widget.short.makespan_ns > widget.trace.makespan_ns
    before = widget.trace.makespan_ns
    widget.sms.value = 33
    assert widget.trace.makespan_ns > before
    widget.model.value = "llama-3-8b"
    widget.batch.value = 8
    assert "stage down_0 keeps 230,400" in widget.problem.value
    with pytest.raises(DescriptionError, match="did you mean 'batch'"):
        DecodeWhatIf(batsh=1)
