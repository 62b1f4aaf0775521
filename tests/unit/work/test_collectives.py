"""Collectives as stages on every rank: who owns which tile, who waits for whom, and what is refused."""

import dataclasses

import pytest

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.link import Link, link_names, load_link
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.plan.plan import StreamSync, check_plan
from wavesim.work.collective import Collective, across
from wavesim.work.collective.host import Host
from wavesim.work.description.reader import load_description
from wavesim.work.description.writer import write_description
from wavesim.work.gemm import Gemm
from wavesim.work.rows import Norm

GEMM = Stage("gemm", Gemm("gemm", 512, 1280, 256, 128, 256, 64))
ONE = Pipeline("one", [GEMM])
LINK = load_link("h200")
TOML = """
device = "h200"
dependencies = []
[[stages]]
name = "gemm"
m = 512
n = 1280
k = 256
tile = [128, 256, 64]
threads = 384
registers = 168
shared_bytes = 213000
[gpus]
count = 2
link = "h200"
late_us = [0, 20.5]
[[collectives]]
stage = "gemm"
kind = "all-reduce"
shots = "one-shot"
"""


def test_blocks_of_all_ranks_are_counted_before_their_reads(monkeypatch):
    monkeypatch.setattr("wavesim.work.collective.Dependency", None)
    large = Pipeline("large", [Stage("gemm", Gemm("gemm", 65_536, 65_536, 64, 128, 128, 64))])
    with pytest.raises(DescriptionError, match="large on 8 GPUs has 2,097,152 blocks in all; at most"):
        across(large, 8, {"gemm": Collective()})


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_every_tile_of_a_two_shot_all_reduce_has_one_owner_that_reads_it_of_all_ranks(ranks: int):
    pipeline = across(ONE, ranks, {"gemm": Collective()})
    read = []
    for rank in range(ranks):
        sums = pipeline.stage(f"gemm.sum@{rank}")
        assert sums.device == rank
        assert set(sums.work.stores_to) == set(range(ranks)) - {rank}
        for tile in sums.grid:
            needs = pipeline.dependency_of(sums.name).producer_tiles(*tile)
            assert [name for name, _ in needs] == [f"gemm@{other}" for other in range(ranks)]
            assert len({made for _, made in needs}) == 1
            read.append(needs[0][1])
    assert sorted(read) == sorted(GEMM.grid)


def test_one_shot_adds_every_tile_on_every_rank_and_stores_no_sums():
    pipeline = across(ONE, 2, {"gemm": Collective("all-reduce", "one-shot")})
    for rank in (0, 1):
        sums = pipeline.stage(f"gemm.sum@{rank}")
        assert (sums.grid, sums.work.stores_to) == (GEMM.grid, ())
        assert pipeline.dependency_of(sums.name).producer_tiles(3, 1) == [
            ("gemm@0", (3, 1)),
            ("gemm@1", (3, 1)),
        ]


def test_a_reduce_scatter_gives_every_rank_its_rows():
    pipeline = across(ONE, 2, {"gemm": Collective("reduce-scatter")})
    assert str(pipeline.stage("gemm.sum@1").grid) == "5 x 2"
    assert pipeline.dependency_of("gemm.sum@1").producer_tiles(4, 1) == [
        ("gemm@0", (4, 3)),
        ("gemm@1", (4, 3)),
    ]


def test_after_an_all_gather_a_rank_begins_with_its_own_rows():
    pipeline = across(ONE, 2, {"gemm": Collective("all-gather")})
    assert [stage.name for stage in pipeline.stages[2:]] == ["gemm.0@0", "gemm.1@0", "gemm.1@1", "gemm.0@1"]
    assert pipeline.dependency_of("gemm.0@1").producer_tiles(2, 1) == [("gemm.rows@0", (0, 1))]
    assert pipeline.stage("gemm.rows@0").work.tile_bytes == 128 * 256 * 2


def test_what_reads_an_all_reduce_reads_whole_rows_of_all_owners():
    norm = Stage("norm", Norm("norm", 512, 1280, tile_m=128))
    chain = Pipeline("chain", [GEMM, norm], [Dependency(norm[x, y], [GEMM[:, y]])])
    pipeline = across(chain, 2, {"gemm": Collective()})
    needs = pipeline.dependency_of("norm@1").producer_tiles(0, 2)
    assert sorted(needs) == [("gemm.sum@0", (i, 2)) for i in range(3)] + [
        ("gemm.sum@1", (i, 2)) for i in range(2)
    ]


def test_a_plan_of_one_device_refuses_several():
    with pytest.raises(DescriptionError, match="has stages on 2 devices, and a plan is of one"):
        check_plan(across(ONE, 2, {}), StreamSync())


def wrong(field: str, value: object) -> Link:
    return dataclasses.replace(LINK, **{field: value})


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: across(ONE, 1, {}), "ranks is 1; GPUs that compute together are 2 to 16"),
        (lambda: across(ONE, 2, {"norm": Collective()}), "has no stage 'norm'; it has ['gemm']"),
        (lambda: across(ONE, 6, {"gemm": Collective()}), "has 5 tile columns for 6 ranks"),
        (lambda: across(ONE, 3, {"gemm": Collective("reduce-scatter")}), "has 4 tile rows, which 3 ranks"),
        (lambda: across(ONE, 3, {"gemm": Collective("all-gather")}), "Pad m to a multiple of 384"),
        (lambda: Collective("all-to-all"), "kind is 'all-to-all'; known are all-reduce"),
        (lambda: Stage("gemm", GEMM.work, device=16), "stage gemm: device is 16; it is the number of a GPU"),
        (lambda: Host(1, LINK), "gpus is 1; GPUs that compute together are 2 to 16"),
        (lambda: Host(2, LINK, {}, [5]), "late_ns has 1 times; give one for each of 2 GPUs"),
        (lambda: load_link("h200x"), "no link between GPUs is known of 'h200x'; known are h200"),
        (lambda: wrong("write_bytes_per_s", {16: 3e11}), "with one block among them"),
        (lambda: wrong("read_bytes_per_s", {1: 0}), "read_bytes_per_s of 1 blocks is 0; it must be a number"),
        (lambda: wrong("flag_ns", -1), "flag_ns is -1; it must be an integer from 0"),
    ],
)
def test_what_is_no_collective_or_link_is_refused_by_name(build, words: str):
    with pytest.raises(DescriptionError) as caught:
        build()
    assert words in str(caught.value)


def test_a_link_carries_what_was_measured_and_less_than_in_proportion_where_it_is_full():
    assert link_names() == ("h200",)
    assert LINK.bytes_per_s("write", 16) == 302e9
    assert LINK.bytes_per_s("read", 16) == 121e9
    assert LINK.bytes_per_s("write", 12) == pytest.approx((157e9 + 302e9) / 2)
    assert LINK.bytes_per_s("write", 1000) == LINK.most("write") == 346e9
    half = LINK.scaled(0.5)
    assert half.most("write") == 173e9
    assert half.bytes_per_s("write", 1) == LINK.bytes_per_s("write", 1)


def test_a_description_of_two_gpus_is_read_and_written(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    found = load_description(path, may_have_host=True)
    assert found.host == Host(2, LINK, {"gemm": Collective("all-reduce", "one-shot")}, (0, 20_500))
    assert [stage.name for stage in found.host.pipeline(found.pipeline).stages][-1] == "gemm.sum@1"
    again = load_description(write_description(tmp_path / "again.toml", found), may_have_host=True)
    assert again.host == found.host


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("count = 2", "", "field 'gpus.count' is missing; write count = 2"),
        ("count = 2", "count = 40", "gpus is 40; GPUs that compute together are 2 to 16"),
        ('link = "h200"', 'link = "pcie"', "no link between GPUs is known of 'pcie'"),
        ("20.5", '"x"', "field 'gpus.late_us' is [0, 'x']; expected a list of numbers"),
        ('stage = "gemm"', 'stage = "down"', "field 'collectives[0].stage' is 'down'; the stages are gemm"),
        ('"all-reduce"', '"reduce-scatter"', "only an all-reduce has shots; leave it out"),
        ('"one-shot"', '"three-shot"', "known are two-shot, one-shot. The nearest is two-shot"),
        ('kind = "all-reduce"', "", "field 'collectives[0].kind' is missing; write kind"),
        (
            '[gpus]\ncount = 2\nlink = "h200"\nlate_us = [0, 20.5]\n',
            "",
            "field 'gpus' is missing; write [gpus]",
        ),
    ],
)
def test_what_a_description_says_wrongly_of_several_gpus_is_named(tmp_path, old: str, new: str, words: str):
    path = tmp_path / "two.toml"
    path.write_text(TOML.replace(old, new, 1))
    with pytest.raises((DescriptionError, RecordingError)) as caught:
        load_description(path, may_have_host=True)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_who_means_one_gpu_refuses_a_description_of_two(tmp_path):
    path = tmp_path / "two.toml"
    path.write_text(TOML)
    with pytest.raises(RecordingError, match="field 'gpus' describes 2 GPUs, and here one is meant"):
        load_description(path)
