"""Tiles held back by stream sync, the staircase of waves, and the SM clock: what the notebooks show."""

from dataclasses import replace

import numpy as np
import pytest

from wavesim import StreamSync, device, simulate, toy, zero_cost
from wavesim.recordings.shipped import cases
from wavesim.teaching.clock import gain_by_clock
from wavesim.teaching.readiness import readiness_of, readiness_picture
from wavesim.teaching.wave_steps import staircase
from wavesim.work.gemm import DEFAULT_GEMM_BLOCK

TOY, FOUR_SMS = toy(), device("toy")


def run_toy(plan):
    return simulate(TOY, plan, FOUR_SMS, zero_cost(TOY, 1000))


class TestReadiness:
    def test_on_one_stream_ready_tiles_are_held_back_until_the_producer_ends(self):
        found = readiness_of(TOY, run_toy(StreamSync()))
        assert found.consumer == "gemm2"
        assert sorted(found.ready_ns) == [1000, 1000, 1000, 1000, 2000, 2000]
        # The producer ends at 2000; four consumer tiles start then, the other two a wave later.
        assert list(found.held_back_ns) == [1000] * 6
        assert found.ready_at(1000) == 4

    def test_the_picture_ends_with_all_tiles_ready_and_started(self):
        figure = readiness_picture(TOY, run_toy(StreamSync()))
        assert [int(series.y[-1]) for series in figure.data] == [6, 6]
        assert [int(series.y[0]) for series in figure.data] == [0, 0]


class TestStaircase:
    def test_the_figure_has_the_steps_and_the_line_of_the_work_alone(self):
        figure = staircase([66, 132, 133], device("h200"), DEFAULT_GEMM_BLOCK)
        np.testing.assert_allclose(figure.data[0].y, [1, 1, 2])
        np.testing.assert_allclose(figure.data[1].y, [0.5, 1, 133 / 132], rtol=1e-6)


class TestClock:
    def test_the_parts_add_up_and_a_faster_clock_counts_as_clock(self):
        case = next(c for c in cases() if (c.tile, c.tokens, c.order) == ("128x256", 768, "grouped:8"))
        gain = gain_by_clock(case.trace("row"), case.trace("stream"))
        assert gain.time_points == pytest.approx(gain.cycle_points + gain.clock_points)
        assert gain.clock_points > 1
        assert gain.plan_ghz > gain.stream_ghz

    def test_a_trace_at_twice_the_clock_gains_nothing_in_cycles(self):
        case = next(c for c in cases() if c.tile == "128x256")
        stream = case.trace("stream")
        half = {name: getattr(stream, name) // 2 for name in ("issue_ns", "start_ns", "wait_ns", "end_ns")}
        gain = gain_by_clock(replace(stream, **half), stream)
        assert gain.time_points == pytest.approx(50, abs=0.01)
        assert gain.cycle_points == pytest.approx(0, abs=0.1)
