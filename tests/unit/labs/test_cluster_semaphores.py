"""Semaphores in shared memory on recorded pairs: a bound, a part of it, and a placement that costs more."""

import pytest

from wavesim.errors import DescriptionError
from wavesim.labs.cluster_semaphores import cluster_time_ns, placement_of, semaphore_places
from wavesim.recordings.shipped import cases
from wavesim.workloads.mlps import gpt3_mlp

CASE = next(one for one in cases() if (one.tile, one.tokens, one.order) == ("128x256", 1024, "grouped:4"))


def test_shared_memory_wins_a_part_of_what_semaphores_cost_and_a_server_none():
    found = semaphore_places(CASE)
    assert found.free_ns < found.cluster_ns < found.global_ns < found.server_ns < found.stream_ns
    assert 0 < found.won_points < found.loss_points < 1
    assert found.won_share == pytest.approx(found.won_points / found.loss_points)
    assert semaphore_places(CASE, hop_ns=600).won_points < found.won_points


def test_a_placement_is_rows_dealt_out_to_clusters():
    few = placement_of(gpt3_mlp(768, tile=(128, 256)), 16, 132)
    assert (few.groups, few.clusters, few.most_groups, few.busy_sms) == (6, 8, 1, 96)
    many = placement_of(gpt3_mlp(1280, tile=(128, 256)), 8, 132)
    assert (many.groups, many.clusters, many.most_groups, many.busy_sms) == (10, 16, 1, 80)
    with pytest.raises(DescriptionError, match="blocks of a cluster is 32"):
        placement_of(gpt3_mlp(768), 32, 132)


def test_a_cluster_of_twice_the_blocks_takes_half_as_long_or_more_and_one_row_bounds_it():
    large, small = cluster_time_ns(CASE, 16), cluster_time_ns(CASE, 8)
    assert small / 2 <= large < small
    stream = semaphore_places(CASE).stream_ns
    assert large > 0.95 * stream
