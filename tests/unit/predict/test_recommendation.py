"""One recommendation: the same plan by every command, scored before unscored, guaranteed before observed."""

import json
from dataclasses import dataclass
from itertools import islice, product
from pathlib import Path

import pytest

from wavesim.cli.command_line import main
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.predict.forecast import Forecast
from wavesim.predict.ranking import ForecastPlan, promising
from wavesim.predict.recommendation import PlanOption, Recommendation, verdict_on
from wavesim.predict.recommendation_text import answer_lines
from wavesim.safety.verdict import Assumption, SafetyVerdict
from wavesim.work.description.reader import load_description

PAIR = Path(__file__).parents[3] / "docs" / "pair.toml"
CUDA = SafetyVerdict(True, "")
SEEN = SafetyVerdict(True, "", needs={Assumption.ORDER: "oldest first"})


def forecast_plan(word, low, points, high, support="here", safety=CUDA):
    forecast = Forecast(points, low, high, kind="of tests", support=support)
    return ForecastPlan(parse_plan(word), safety, forecast)


def test_an_unscored_guess_is_not_above_a_scored_plan_whose_interval_reaches_it():
    scored, guess = forecast_plan("pdl+row", 9, 12, 13), forecast_plan("stream-k", 3, 12.9, 22, "never")
    assert promising([scored, guess]) is scored
    assert promising([scored, forecast_plan("stream-k", 3, 14, 25, "never")]) is scored
    assert promising([scored, forecast_plan("stream-k", 9, 19, 29, "never")]) is scored
    beyond = forecast_plan("stream-k", 14, 19, 24, "never")
    assert promising([scored, beyond]) is beyond


def test_the_plan_that_surely_gains_more_comes_before_the_one_that_may_gain_more():
    sure, wide = forecast_plan("pdl+row", 11, 12, 13), forecast_plan("pdl+tile", 2, 14, 26)
    assert promising([wide, sure]) is sure


def test_ties_go_to_what_cuda_guarantees_and_then_to_the_simpler_plan():
    observed, promised = forecast_plan("row", 11, 12.2, 13, safety=SEEN), forecast_plan("pdl+row", 11, 12, 13)
    assert promising([observed, promised]) is promised
    assert promising([promised, forecast_plan("pdl+tile", 11, 12.1, 13)]) is promised


def test_what_is_not_known_widens_the_interval_of_the_plans_that_come_into_question():
    def widened(option):
        low = -10 if option.plan.name == "pdl+row" else option.low
        return forecast_plan(option.plan.name, low, option.forecast.points, option.high)

    first, second = forecast_plan("pdl+row", 11, 12, 13), forecast_plan("pdl+tile", 10.8, 11.8, 13)
    assert promising([first, second]) is first
    assert promising([first, second], widened).plan.name == "pdl+tile"


@dataclass(frozen=True)
class Variant:
    """The documented pair with other grids, times and blocks."""

    device: str
    columns: int
    rows: int
    us: float
    shared_bytes: int

    def text(self) -> str:
        text = PAIR.read_text().replace('device = "h200"', f'device = "{self.device}"')
        text = text.replace("[24, 8]", f"[{self.columns}, {self.rows}]")
        text = text.replace("[48, 8]", f"[{2 * self.columns}, {self.rows}]")
        text = text.replace("shared_bytes = 98304", f"shared_bytes = {self.shared_bytes}")
        return text.replace("kernel_us = 320.0", f"kernel_us = {self.us}")


VARIANTS = [
    Variant(*values)
    for values in product(("h200", "h100", "a100-80gb"), (9, 24), (4, 8, 11), (40.0, 320.0), (98304, 49152))
]


def answer(capsys, *words):
    assert main([*words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("variant", list(islice(VARIANTS, 0, None, 15)), ids=str)
def test_every_command_recommends_the_same_plan(variant, tmp_path, capsys):
    path = tmp_path / "pair.toml"
    path.write_text(variant.text())
    predicted = answer(capsys, "predict", str(path))["recommended"]
    assert answer(capsys, "compare", str(path))["recommended"] == predicted
    m = str(128 * variant.rows)
    table = answer(capsys, "crossover", "--file", str(path), "--tile-rows", "128", "--m", f"{m}:{m}")["table"]
    assert [row["recommended"] for row in table] == [predicted]


def test_the_answer_is_one_short_block():
    found = load_description(PAIR)
    lines = answer_lines(verdict_on(found.pipeline, found.device, found.kernel_ns), "h200", "pair.toml")
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 100
    assert [line.split()[0] for line in lines if line[0] != " "] == [
        "Run:",
        "gain",
        "safe",
        "why",
        "next",
        "others",
    ]
    assert "`tests_each_k_block` in pair.toml" in "".join(lines)


def test_stream_sync_is_recommended_in_whatever_order_it_is_fastest():
    guess = forecast_plan("pdl+row", -1, 0, 1)
    stream, other = (
        PlanOption(parse_plan(*words), CUDA, guess.forecast, trace=None)
        for words in (("stream", "grouped:8"), ("pdl+row",))
    )
    assert Recommendation("stream", stream.forecast, "", (stream, other), "cuda").option is stream


def test_a_kernel_of_one_tile_is_not_shared_out_along_k():
    block = Block(threads=256, registers=128)
    alone, tiles = (
        Stage(name, Kernel(name, grid, block))
        for name, grid in (("alone", Grid(1, 1)), ("tiles", Grid(24, 8)))
    )
    pair = Pipeline("pair", [alone, tiles], [Dependency(tiles[x, y], [alone[0, 0]])])
    tried = verdict_on(pair, load("h200"), {"alone": 200_000, "tiles": 100_000}).improvements
    assert "pdl+row" in tried
    assert "stream-k" not in tried
