"""Passes of models: parts that add up, all-reduces by hand, the command's three outputs, bad input."""

import json
from dataclasses import replace

import pytest

from wavesim.cli.command_line import main
from wavesim.costs.peer_costs import peer_costs_of
from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.model_time.model_pass import ALL_REDUCE, LAUNCH, PART_NAMES, pass_of
from wavesim.model_time.report import pass_picture, pass_text
from wavesim.predict.forecast import Forecast

H200 = load("h200")
SMALL = pass_of("qwen2.5-0.5b", H200, 256, ways=("stream", "pdl+row"))


def test_a_layer_s_parts_add_up_and_the_first_way_gains_nothing():
    for way in SMALL.ways:
        assert set(way.parts_ns) == set(PART_NAMES)
        assert way.layer_ns == sum(way.parts_ns.values())
    assert SMALL.gain_points(SMALL.ways[0]) == 0
    assert SMALL.layers == 24


def test_only_kernel_boundaries_leave_launch_gaps_between_kernels_that_wait_for_each_other():
    stream, rows = SMALL.ways
    assert stream.parts_ns[LAUNCH] > 0
    assert rows.parts_ns[LAUNCH] == 0


def test_eight_gpus_reduce_twice_per_layer_by_the_law_of_the_house():
    reduced = peer_costs_of("h200").time_ns("all-reduce", 2 * 256 * 12288, 8)
    layer = pass_of("gpt3-145b", H200, 256, ways=("stream",)).ways[0]
    assert layer.parts_ns[ALL_REDUCE] == 2 * reduced


def test_numbers_say_that_they_are_simulated_and_from_what():
    text = pass_text(SMALL)
    assert "simulated, not measured: " in text
    assert "a pass through 24 layers" in text
    assert [bar.name for bar in pass_picture(SMALL).data] == list(PART_NAMES)


def test_the_command_prints_text_and_json_and_writes_a_page(tmp_path, capsys):
    page = tmp_path / "page.html"
    words = ["model", "qwen2.5-0.5b", "--decode", "--sync", "stream,pdl", "--html", str(page)]
    assert main(words) == 0
    assert "decode, 1 sequences of 2,047 cached keys" in capsys.readouterr().out
    assert "one layer" in page.read_text("utf-8").lower()
    assert main([*words, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [way["sync"] for way in document["ways"]] == ["stream", "pdl"]
    for way in document["ways"]:
        assert abs(sum(way["parts_ns"].values()) - way["layer_ns"]) <= len(PART_NAMES)


def test_a_gain_has_its_interval_and_the_history_of_such_predictions():
    timed = pass_of("gpt3-145b", H200, 1024, ways=("stream", "pdl+row", "chained+pdl+row"))
    stream, usual, chained = timed.ways
    assert (stream.forecast.low, stream.forecast.high) == (0, 0)
    assert usual.forecast.low < usual.forecast.points < usual.forecast.high
    assert usual.forecast.scored
    assert chained.forecast.scored
    assert chained.forecast.kind != usual.forecast.kind
    assert chained.layer_ns < usual.layer_ns
    text = pass_text(timed)
    assert f"{chained.forecast.low:+.1f} to {chained.forecast.high:+.1f}" in text
    assert "before: layer, device constants, semaphores by pdl: median error" in text
    assert f"verdict: {timed.best.word}" in text
    assert not timed.gains_nothing


def test_an_interval_that_is_a_guess_is_in_brackets_and_a_gain_within_it_is_no_verdict():
    stream, rows = SMALL.ways
    guess = Forecast(points=4.0, low=-6.0, high=14.0, kind="of nobody")
    timed = replace(SMALL, ways=(stream, replace(rows, forecast=guess)))
    assert timed.best is stream
    assert "(-6.0 to +14.0)" in pass_text(timed)
    assert "verdict: stream; pdl+row is predicted to gain +4.0 points, too few to be sure of" in pass_text(
        timed
    )
    sure = replace(SMALL, ways=(stream, replace(rows, forecast=replace(guess, low=1.0))))
    assert "verdict: pdl+row, +4.0 points" in pass_text(sure)


def test_where_no_way_gains_a_point_the_verdict_says_so():
    timed = pass_of("qwen2.5-0.5b", H200, 1024, ways=("stream", "pdl+row"))
    assert timed.gains_nothing == (timed.gain_points(timed.ways[1]) < 1)
    assert ("nothing to gain here" in pass_text(timed)) == timed.gains_nothing


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("gpt-5", H200, 64), {}, "model is 'gpt-5'"),
        (("gpt-neox-20b", H200, 64), {}, "model is 'gpt-neox-20b'; known are gpt3-145b"),
        (("gpt3-145b", load("a100-80gb"), 64), {}, "no collective was measured on 'a100-80gb'"),
        (("llama-3-8b", H200, 64), {"ways": ("stream", "stream")}, "ways names 'stream' twice"),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(arguments, options, message):
    with pytest.raises(DescriptionError, match=message):
        pass_of(*arguments, **options)
