"""Steps timed in turns: each round has every step once, and ratios are of the same round."""

import pytest

from wavesim_gpu.trial import step_times
from wavesim_gpu.trial.step_times import StepTimes, TimedStep, interleaved_steps


def test_speed_is_the_median_of_the_rounds_ratios_and_not_the_ratio_of_medians():
    before, after = StepTimes("a", (100, 400, 100), 1), StepTimes("b", (100, 200, 50), 1)
    assert after.speed_over(before) == (2.0, 1.5, 2.0)
    assert after.median_ns == 100


def test_every_round_runs_every_step_once_after_its_preparation(monkeypatch):
    monkeypatch.setattr(step_times, "SHORTEST_NS", 1)
    seen: list[str] = []
    steps = [
        TimedStep("a", lambda: seen.append("a"), lambda: seen.append("ready a")),
        TimedStep("b", lambda: seen.append("b")),
    ]
    rounds: list[int] = []
    found = interleaved_steps(steps, 4, on_gpu=False, after_round=rounds.append)
    assert [len(times.times_ns) for times in found] == [4, 4]
    assert rounds == [1, 2, 3, 4]
    timed = seen[-12:]
    for start in range(0, 12, 3):
        assert sorted(timed[start : start + 3]) == ["a", "b", "ready a"]
        assert timed[timed.index("ready a", start) + 1] == "a"


def test_short_steps_are_run_several_times_a_round(monkeypatch):
    monkeypatch.setattr(step_times, "SHORTEST_NS", 10**12)
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    (found,) = interleaved_steps([TimedStep("a", step)], 2, on_gpu=False)
    assert found.repeats == step_times.MOST_REPEATS
    assert count == 2 + 2 * step_times.MOST_REPEATS


def test_an_error_in_a_step_ends_the_timing():
    def step() -> None:
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        interleaved_steps([TimedStep("a", step)], 2, on_gpu=False)
