"""Tiles that would have to share a cluster: rows of an MLP, single tiles of a chain of equal ones."""

from wavesim import Dependency, Pipeline, Stage, gpt3_mlp
from wavesim.model.index import x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.plan.tile_groups import groups_of
from wavesim.workloads.figure_one import toy


def test_a_row_of_both_gemms_is_a_group():
    groups = groups_of(gpt3_mlp(1024, tile=(128, 256)))
    assert [len(one) for one in groups] == [24 + 48] * 8
    assert all(len({row for _, _, row in one}) == 1 for one in groups)
    assert sum(map(len, groups_of(toy()))) == 12


def chain(needs):
    """Two stages of 4 x 3 tiles."""
    first, second = (Stage(name, Kernel(name, Grid(4, 3), Block(256))) for name in "ab")
    return Pipeline("chain", [first, second], [Dependency(second[x, y], needs(first))])


def test_tile_to_tile_is_a_pair_and_a_neighbour_ties_a_whole_row():
    pairs = groups_of(chain(lambda first: [first[x, y]]))
    assert [len(one) for one in pairs] == [2] * 12
    assert frozenset({("a", 1, 2), ("b", 1, 2)}) in pairs
    rows = groups_of(chain(lambda first: [first[x, y], first[3 - x, y]]))
    assert sorted(len(one) for one in rows) == [4] * 6
