"""Policies from dependencies: the paper's come out, with coarser and finer ones, no two alike, all right."""

import random
from collections import Counter

import pytest
from generated_cuda import random_pipeline

from wavesim.codegen.policies import (
    GroupedSync,
    ListedSync,
    derive_policies,
    edges_of,
    group_sizes,
    needed_together,
    policy_named,
    renumbered,
)
from wavesim.codegen.tile_map import Blocks, Cycle, TileMap, fit_map
from wavesim.errors import DescriptionError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.kernel import Block, Grid, Kernel
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.policy import CustomPolicy, RowSync, TileSync
from wavesim.workloads.catalogue import workload

EDGE = ("gemm1", "gemm2")


def pair(producer: Grid, consumer: Grid, needs):
    first, second = (
        Stage(n, Kernel(n, grid, Block(256, 64))) for n, grid in (("a", producer), ("b", consumer))
    )
    return Pipeline("pair", [first, second], [Dependency(second[x, y], needs(first))])


def paper_names(pipeline, edge):
    return {entry.paper_name: entry for entry in derive_policies(pipeline, edge) if entry.paper_name}


def test_an_mlp_gives_tile_and_row_sync_and_everything_between():
    derived = derive_policies(workload("gpt3-mlp", 1024), EDGE)
    assert {entry.paper_name for entry in derived} == {"", "TileSync", "RowSync"}
    assert [derived[0].table.count, derived[-1].table.count] == [192, 1]
    assert paper_names(workload("gpt3-mlp", 1024), EDGE)["RowSync"].policy == RowSync()


def test_attention_gives_strided_sync():
    found = paper_names(workload("attention-as-published"), ("qkv", "scores"))["StridedSync"]
    assert found.policy == GroupedSync(Cycle(12), Blocks(1))
    assert set(found.values) == {3}
    assert found.formula == TileMap(Cycle(12), Blocks(1), 1, 12)


def test_convolutions_give_conv2d_tile_sync_and_row_sync():
    assert set(paper_names(workload("resnet-conv-512"), ("conv1", "conv2"))) == {"Conv2DTileSync", "RowSync"}


def test_what_is_needed_together_is_a_policy():
    halves = pair(Grid(4, 6), Grid(4, 3), lambda a: [a[:, 2 * y : 2 * y + 2]])
    assert renumbered(needed_together(halves, ("a", "b"))) == tuple(i // 8 for i in range(24))
    assert GroupedSync(Blocks(4), Blocks(2)) in [
        entry.policy for entry in derive_policies(halves, ("a", "b"))
    ]


def test_overlapping_reads_give_a_listed_policy():
    halo = pair(Grid(2, 6), Grid(2, 6), lambda a: [a[:, (y - 1).at_least(0) : (y + 2).at_most(6)], a[x, 5]])
    listed = policy_named(halo, ("a", "b"), "together")
    assert isinstance(listed, ListedSync)


@pytest.mark.parametrize("seed", range(60))
def test_every_policy_awaits_as_many_posts_as_tiles_share_its_semaphore(seed):
    pipeline = random_pipeline(random.Random(seed))
    edge = edges_of(pipeline)[0]
    derived = derive_policies(pipeline, edge)
    grid = pipeline.stages[0].grid
    for entry in derived:
        assert Counter(entry.table.semaphore_of_tile) == Counter(dict(enumerate(entry.values)))
        assert sum(entry.values) == grid.tiles
    assert len({renumbered(entry.table.semaphore_of_tile) for entry in derived}) == len(derived)
    assert {1, grid.tiles} <= {entry.table.count for entry in derived}


@pytest.mark.parametrize(
    ("policy", "formula"),
    [
        (TileSync(), TileMap(Blocks(1), Blocks(1), 1, 7)),
        (RowSync(), TileMap(Blocks(7), Blocks(1), 0, 1)),
        (
            CustomPolicy("columns first", lambda a, b, g: a * g.y + b, lambda *_: 1),
            TileMap(Blocks(1), Blocks(1), 5, 1),
        ),
        (CustomPolicy("odd", lambda a, b, g: (a + b) % 2, lambda a, b, g: 18 - (a + b) % 2), None),
        (
            CustomPolicy("diagonal", lambda a, b, g: a + b, lambda a, b, g: min(a + b, 4, 10 - a - b) + 1),
            None,
        ),
    ],
)
def test_a_formula_is_found_exactly_where_there_is_one(policy, formula):
    assert fit_map(policy.table(Grid(7, 5)), Grid(7, 5)) == formula


def test_group_sizes_are_divisors_or_powers_of_two():
    assert group_sizes(24) == (1, 2, 3, 4, 6, 8, 12, 24)
    assert group_sizes(13) == (1, 2, 4, 8, 13)
    assert group_sizes(1) == (1,)


def test_unknown_names_edges_and_grids_are_refused():
    pipeline = workload("gpt3-mlp", 1024)
    with pytest.raises(DescriptionError, match="policy is 'magic'; gemm1 to gemm2 has tile, "):
        policy_named(pipeline, EDGE, "magic")
    with pytest.raises(DescriptionError, match="has no dependency"):
        derive_policies(pipeline, ("gemm2", "gemm1"))
    with pytest.raises(DescriptionError, match="was derived for the grid 2 x 1"):
        ListedSync("own", Grid(2, 1), (0, 0)).table(Grid(3, 1))
