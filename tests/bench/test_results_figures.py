"""Figures of GPU results: a dot's place and words, titles, both themes."""

import re
from typing import Any

import pytest
from sample_results import SAMPLE

from wavesim.bench.bench_figure import (
    copy_figure,
    limit_figure,
    product_figure,
)
from wavesim.bench.gpu_results import GpuResults, load_results, newest_results
from wavesim.bench.results_tables import policy_rows
from wavesim.bench.speedups import (
    pairs_of,
    with_generated_as_one,
)
from wavesim.view.panels_figure import Dot, Panel, Scale, Series, small_panels
from wavesim.view.theme import DARK


@pytest.fixture
def results() -> GpuResults:
    return load_results(SAMPLE)


def dots(figure: Any) -> list[tuple[float, str]]:
    return [
        (y, words) for series in figure.data for y, words in zip(series.y, series.customdata, strict=True)
    ]


def test_other_generated_policies_share_a_panel_and_fill_a_table_of_their_own():
    results = load_results(newest_results())
    measured = [case for case in results.of("gpt3-mlp") if case.is_final and case.name.startswith("block:")]
    assert len({case.name for case in measured}) > 20
    shown = pairs_of(results, "gpt3-mlp")
    for tokens, cases in with_generated_as_one(shown).items():
        here = [case for case in measured if case.tokens == tokens]
        assert not any(name.startswith("block:") for name in cases)
        assert cases["generated"].median_ns == min(case.median_ns for case in here)
        assert len(cases) == len(shown[tokens]) - len(here) + 1
    rows = policy_rows(results)
    times = [float(row[4]) for row in rows]
    assert times == sorted(times)
    assert len(rows) > 20
    assert {row[1] for row in rows} == {"1024"}


@pytest.mark.parametrize("draw", [limit_figure, product_figure, copy_figure])
def test_each_figure_says_what_was_measured_on_what_in_both_themes(draw: Any, results: GpuResults):
    for theme in ("light", "dark"):
        figure = draw(results, theme)
        assert "NVIDIA H200" in figure.layout.title.subtitle.text.replace("<br>", " ")
        assert re.search(r"\d", figure.layout.title.text)
        assert len(dots(figure)) > 2
    assert figure.layout.paper_bgcolor == DARK.background


def test_a_dot_beyond_the_scale_is_an_arrowhead_with_its_number():
    series = Series("s", [Dot(0, 0.2, 0.2, 0.2, "far"), Dot(1, 1.0, 1.0, 1.0, "near")], "good")
    figure = small_panels(
        [Panel("p", "", ["1", "2"], [series])], Scale("y", 0.6, 1.4), title="t", source="s", size_name="n"
    )
    inside, beyond = figure.data
    assert list(inside.customdata) == ["near"]
    assert 0.6 < beyond.y[0] < 0.7
    assert (list(beyond.text), beyond.marker.symbol) == (["0.20"], ("triangle-down",))
