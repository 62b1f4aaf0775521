"""What safe verdicts take for granted of the hardware: carve-outs, and that no launch passes an older one.

The first test brings about what `safety_of` refuses: kernels that ask for CUDA's default carve-out shut each
other out, and the same ones with the largest do not.
"""

import pytest

from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.parsing import parse_plan
from wavesim.safety.deadlock import safety_of
from wavesim_gpu.bench.labs.issue_order import LARGE, Scene, contests, pairs_that_take_clusters, shut_out
from wavesim_gpu.driver.device import query

pytestmark = pytest.mark.gpu
pytest.importorskip("cupy")


@pytest.fixture(scope="module")
def scene():
    return Scene()


def test_kernels_with_the_default_carve_out_shut_each_other_out_and_with_the_largest_do_not(scene):
    assert not shut_out(scene, is_default=False)
    assert shut_out(scene, is_default=True)


def test_the_verdict_says_the_same_of_both():
    device = query()
    large, small = Block(128, 32, dynamic_shared_bytes=LARGE), Block(1024, 32, dynamic_shared_bytes=24 << 10)
    stages = [
        Stage("large", Kernel("large", Grid(device.sm_count), large)),
        Stage("small", Kernel("small", Grid(device.sm_count), small)),
    ]
    pipeline = Pipeline("carve-outs", stages, [Dependency(stages[1][x, y], [stages[0][:, y]])])
    plan = parse_plan("streams:no-wait-kernel+row")
    assert not safety_of(pipeline, plan, device).is_safe
    assert safety_of(pipeline, plan, device, carveout="full").is_safe


# Streams of higher priority pass, and so does what comes behind a cluster of more than two (docs/safety.md).
PASSED = ("priority", "fourth SM", "eighth SM", "eight SMs")


@pytest.mark.parametrize("name", [name for name in contests(132) if not any(word in name for word in PASSED)])
def test_no_block_of_a_younger_launch_passes_an_older_one_that_does_not_fit(scene, name):
    """What "seen" rests on: the older one waits for room, and a small one that would fit waits behind it."""
    contest = contests(query().sm_count)[name]
    assert scene.play(contest, has_older=False).younger
    outcome = scene.play(contest)
    assert not outcome.older
    assert not outcome.younger


def test_every_pair_of_neighbouring_sms_that_is_free_takes_a_cluster_of_two(scene):
    assert pairs_that_take_clusters(scene)["neighbours_refused"] == []
