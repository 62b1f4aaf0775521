"""Plans by their gain: a dot in its interval, hollow where nothing was scored, the baseline apart."""

from wavesim.view.plans_figure import BASELINE, GUESS, SCORED, PlanGain, plans_by_gain, plans_finding

STREAM = PlanGain("stream", 0.0, 0.0, 0.0, scored=True, time_ns=500_000)
ROW = PlanGain("row", 12.0, 10.5, 13.5, scored=True, time_ns=440_000)
PDL = PlanGain("pdl+row <b>", -3.0, -11.0, 5.0, scored=False, time_ns=515_000)


def test_each_plan_is_a_dot_in_its_interval_with_what_that_is_worth():
    figure = plans_by_gain([STREAM, ROW, PDL], source="simulated")
    drawn = {series.name: series for series in figure.data if series.x}
    assert list(drawn[BASELINE].x) == [0.0]
    assert list(drawn[SCORED].x) == [12.0]
    assert (drawn[GUESS].marker.symbol, drawn[SCORED].marker.symbol) == ("circle-open", "circle")
    assert list(drawn["80 % interval"].x) == [10.5, 13.5, None]
    assert list(drawn["interval, a guess"].x) == [-11.0, 5.0, None]
    assert list(drawn["interval, a guess"].y) == [2, 2, None]
    assert drawn["interval, a guess"].line.dash == "dot"
    assert list(figure.layout.yaxis.ticktext)[:2] == ["stream", "row"]
    assert "<b>" not in figure.layout.yaxis.ticktext[2]


def test_the_title_is_the_finding():
    assert plans_finding([STREAM, ROW]) == "Row: +12.0 points over stream sync predicted, +10.5 to +13.5"
    assert plans_finding([STREAM, PDL]) == "No plan tried is predicted to beat stream sync"
