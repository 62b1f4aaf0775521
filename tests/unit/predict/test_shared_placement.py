"""Chains whose blocks share SMs come with a warning before anything runs; its numbers are the published."""

from functools import cache

from wavesim.comparison import compare
from wavesim.costs.device_costs import costs_of, with_host_sync
from wavesim.plan.plan import StreamSync
from wavesim.predict.forecast import LOST_POINTS, OFF_POINTS, placement_caveat
from wavesim.predict.kernel_times import costs_from_kernel_times
from wavesim.predict.prediction import predict_from_kernel_times
from wavesim.recordings.published_rows import published_runs
from wavesim.sim.simulation import simulate
from wavesim.widgets.what_if import WhatIf


def simulated(run, plan):
    known = costs_of(run.device.name)
    costs = costs_from_kernel_times(run.pipeline, run.device, run.kernel_ns, known)
    return simulate(run.pipeline, plan, run.device, costs)


@cache
def a_published_chain():
    return next(run for run in published_runs("chain") if run.case.endswith("C=512 B=16"))


def test_a_chain_of_blocks_that_share_sms_says_so_before_it_is_run():
    run = a_published_chain()
    (words,) = placement_caveat(simulated(run, run.plan))
    assert words.startswith("placement: up to 3 blocks share an SM")


def test_a_pair_has_no_such_warning():
    pair = next(iter(published_runs("conv")))
    assert placement_caveat(simulated(pair, pair.plan)) == ()


def test_its_numbers_are_those_of_the_published_chains():
    runs = [run for run in published_runs("chain") if run.is_same_configuration]
    assert round(-min(run.improvement_points for run in runs)) == LOST_POINTS
    most = next(run for run in runs if run.case.endswith("C=512 B=4") and run.policy == "tile")
    known = with_host_sync(costs_of(most.device.name))
    _, points = predict_from_kernel_times(most.pipeline, most.plan, most.device, most.kernel_ns, known)
    assert round(abs(points - most.improvement_points)) == OFF_POINTS


def test_compare_and_the_what_if_say_it_too():
    run = a_published_chain()
    costs = costs_from_kernel_times(run.pipeline, run.device, run.kernel_ns, costs_of(run.device.name))
    found = compare(run.pipeline, [StreamSync(run.plan.order), run.plan], run.device, costs=costs)
    assert sum(caveat.startswith("placement: ") for caveat in found.caveats) == 1
    assert "Placement:" in WhatIf(workload="vgg-conv", tokens=16).costs.value
