"""How products are dealt out over ranks, and what the host packs for their kernels, with no GPU."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.accesses import Accesses
from wavesim.plan.coverage import Precedence
from wavesim.plan.plan import check_plan
from wavesim.plan.resolved import resolve
from wavesim.work.collective import Collective
from wavesim_gpu.cusync.waits import wait_schedule
from wavesim_gpu.kernels.collective import SOURCES
from wavesim_gpu.kernels.gemm.sm90.tile_config import TILE_CONFIGS
from wavesim_gpu.peers import groups, layout
from wavesim_gpu.peers.memory import PeerLayout, SharedMemory
from wavesim_gpu.peers.options import CallOptions, PeerBlocks, blocks_of, require_way
from wavesim_gpu.peers.problem import NormedGemm, SharedGemm, in_halves, turns_of
from wavesim_gpu.peers.products import GATHER as GATHER_PARAMS
from wavesim_gpu.peers.products import gemm_expression
from wavesim_gpu.peers.regions import failure, layout_of, require_room

FOLDER = Path(groups.__file__).parent
TWO_SHOT, ONE_SHOT = Collective("all-reduce"), Collective("all-reduce", "one-shot")
SCATTER, GATHER = Collective("reduce-scatter"), Collective("all-gather")


def problem(collective, m=1024, ranks=2, **others):
    return SharedGemm(m, 1536, 512, collective, ranks, **others)


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("collective", [TWO_SHOT, SCATTER], ids=lambda one: one.kind)
def test_each_tile_is_added_up_by_one_rank(collective, ranks):
    one = problem(collective, ranks=ranks)
    added = [tile for rank in range(ranks) for tile in one.added_by(rank)]
    assert sorted(added) == list(range(one.tiles))


def test_the_copy_engine_takes_each_chunk_of_rows_once_to_the_rank_that_adds_it():
    one = problem(TWO_SHOT, m=1024 + 128, chunk_rows=2)  # 9 rows of tiles: the last chunk is of one
    assert one.chunks_sent(0) == [(1, 2, 2), (1, 6, 2)]
    assert one.chunks_sent(1) == [(0, 0, 2), (0, 4, 2), (0, 8, 1)]
    assert problem(SCATTER, chunk_rows=2).chunks_sent(0) == [(1, 4, 2), (1, 6, 2)]
    assert problem(SCATTER).chunks_sent(1) == [(0, 0, 4)]
    blocks = [blocks_of(one, 132, CallOptions("copies"), rank=rank) for rank in range(2)]
    assert [(found.copy, found.gemm) for found in blocks] == [(3, 54), (4, 54)]


@pytest.mark.parametrize("unit_rows", [8, 128])
def test_tiles_of_the_product_that_follows_a_norm_wait_for_all_units_of_their_rows(unit_rows):
    one = problem(TWO_SHOT, chunk_rows=2, following=NormedGemm(512, unit_rows))
    normed = [unit for rank in range(2) for unit in one.units_normed_by(rank)]
    assert sorted(normed) == list(range(1024 // unit_rows))
    pipeline, parts = one.next_pipeline, 128 // unit_rows
    check_plan(pipeline, one.next_plan)
    inputs = resolve(pipeline, one.next_plan).inputs("gemm")
    schedule = wait_schedule(Precedence(Accesses(pipeline)), pipeline.stage("gemm"), inputs, by_tile=False)
    row = schedule.steps[schedule.first[1] : schedule.first[2]]
    waits = [[int(word) for word in step] for step in row if step[1] >= 0]
    # Before the first k-block: a unit has all of K.
    assert waits == [[0, 0, 0, unit] for unit in range(parts, 2 * parts)]


def test_one_shot_every_rank_adds_up_every_tile():
    one = problem(ONE_SHOT)
    assert all(sorted(one.added_by(rank)) == list(range(one.tiles)) for rank in range(2))


def test_a_rank_makes_what_others_wait_for_before_its_own():
    one = problem(SCATTER)
    owners = [one.owner(*tile) for tile in one.made(0)]
    assert owners == [1] * 24 + [0] * 24
    assert problem(GATHER).made(1)[0] == (0, 4)


@pytest.mark.parametrize("rows", [2, 3, 8, 9, 24])
@pytest.mark.parametrize("group", [1, 2, 8])
@pytest.mark.parametrize("ahead", [0, 1, 7, 1000])
def test_exchanging_ranks_make_what_the_other_adds_before_it_can_ask_for_it(rows, group, ahead):
    one = problem(TWO_SHOT, m=128 * rows, chunk_rows=-(-rows // 2), group=group)
    require_way(one, CallOptions("exchange"))
    ahead, half = turns_of(one, ahead)
    assert half >= ahead
    # exchange.cuh, Turns: which tile comes at a position.
    places = [
        at if not ahead <= at < 2 * half - ahead else (at + ahead) // 2 + (at - ahead) % 2 * (half - ahead)
        for at in range(one.tiles)
    ]
    assert sorted(places) == list(range(one.tiles))
    made = [{one.made(rank)[place]: at for at, place in enumerate(places)} for rank in range(2)]
    for rank in range(2):
        own = [tile for tile in made[rank] if one.owner(*tile) == rank]
        # A block that waits for the other rank's tile waits for one with an earlier place there: no circle.
        assert all(made[1 - rank][tile] < made[rank][tile] for tile in own)
    assert one.owner(*one.made(0)[0]) == 1


def test_the_copy_engine_takes_parts_of_k_of_a_ranks_rows_to_all_others():
    one = problem(GATHER, ranks=4)
    assert one.parts_sent(1, 1) == [(2, 0, 4), (3, 0, 4), (0, 0, 4)]
    assert problem(GATHER).parts_sent(0, 3) == [(1, 0, 1), (1, 1, 1), (1, 2, 2)]
    assert blocks_of(problem(GATHER, m=8192), 132, CallOptions("copies", copies=2)) == PeerBlocks(
        131, 0, 0, copy=3
    )


def test_a_gathered_products_tiles_wait_for_the_parts_of_their_rows_as_they_are_read():
    one = problem(GATHER)
    check_plan(one.pipeline, one.plan)
    pipeline = one.pipeline
    inputs = resolve(pipeline, one.plan).inputs("gemm")
    gemm = pipeline.stage("gemm")
    schedule = wait_schedule(Precedence(Accesses(pipeline)), gemm, inputs, by_tile=False)
    # K is 512, in four parts of 128: two k-blocks of 64 each.
    assert schedule.steps[:4].tolist() == [[2 * part, 0, part, 0] for part in range(4)]
    assert len(schedule.first) == one.rows


def test_sizes_that_ranks_cannot_share_are_refused_by_name():
    for wrong, word in (
        (lambda: problem(SCATTER, m=1000), "m is 1000; for reduce-scatter over 2 ranks"),
        (lambda: problem(GATHER, m=384), "multiple of 256"),
        (lambda: SharedGemm(64, 100, 64, TWO_SHOT), "n is 100"),
        (lambda: problem(TWO_SHOT, tile_n=208), "tile_n is 208"),
        (lambda: problem(TWO_SHOT, chunk_rows=9), "chunk_rows is 9; it must be 0 to 8"),
        (lambda: problem(ONE_SHOT, chunk_rows=1), "only two-shot"),
        (lambda: problem(SCATTER, chunk_rows=3), "must divide a rank's 4 rows"),
        (lambda: problem(TWO_SHOT, following=NormedGemm(512)), "chunk_rows=1 or more"),
        (lambda: problem(TWO_SHOT, chunk_rows=1, following=NormedGemm(500)), "n = 500"),
        (lambda: problem(TWO_SHOT, chunk_rows=1, following=NormedGemm(512, unit_rows=3)), "3 rows at a time"),
        (lambda: require_way(problem(ONE_SHOT), CallOptions("blocks")), "way blocks is for two-shot"),
        (lambda: require_way(problem(TWO_SHOT), CallOptions("copies")), "chunk_rows is 0"),
        (lambda: require_way(problem(TWO_SHOT), CallOptions("exchange")), "8 rows of tiles. Use 4"),
        (lambda: require_way(problem(SCATTER, ranks=4), CallOptions("exchange")), "there are 4 ranks"),
        (lambda: require_way(problem(GATHER), CallOptions("exchange")), "an all-gather's rows are sent by"),
        (lambda: require_way(problem(GATHER), CallOptions("copies", copies=5)), "has 1 to 4 parts"),
        (lambda: problem(SCATTER, ranks=0), "ranks is 0"),
        (lambda: problem(TWO_SHOT, ranks=1), "ranks is 1; it must be 2 to 8"),
        (lambda: problem(TWO_SHOT, ranks=9), "ranks is 9; it must be 2 to 8"),
        (lambda: problem(GATHER, tile_m=0), "tile_m is 0"),
        (lambda: problem(GATHER, group=-3), "group is -3"),
        (lambda: problem(TWO_SHOT, tile_m=100), "the tile is 100x256; there are 128x256"),
        (lambda: problem(TWO_SHOT, chunk_rows=1, following=NormedGemm(0)), "a product with n = 0"),
        (lambda: require_way(problem(SCATTER), CallOptions("exchange", ahead=-1)), "ahead is -1"),
        (lambda: require_way(problem(SCATTER), CallOptions(limit_s=0)), "limit_s is 0"),
        (lambda: require_way(problem(SCATTER), CallOptions(limit_s=float("nan"))), "limit_s is nan"),
        (lambda: require_way(problem(SCATTER), CallOptions(limit_s=1e12)), "at most 1,000,000"),
    ):
        with pytest.raises(DescriptionError, match=re.escape(word)):
            wrong()


def test_groups_that_cannot_compute_together_are_refused():
    class Apart:
        class cuda:  # noqa: N801  # as CuPy has it
            class runtime:  # noqa: N801
                @staticmethod
                def deviceCanAccessPeer(_device, _peer):
                    return 0

    with pytest.raises(DescriptionError, match="the group has 1 ranks"):
        groups.require_rank_count(1)
    with pytest.raises(DeviceError, match="one model"):
        groups.require_one_model(["A", "B"])
    with pytest.raises(DeviceError, match="GPU 0 has no peer access to GPU 1"):
        groups.require_access(Apart, 0, 1)


def test_regions_of_a_rank_do_not_overlap_and_are_seen_by_all():
    sizes = layout_of(problem(TWO_SHOT))
    ends = [sizes.offsets[name] + size for name, size in sizes.sizes.items()]
    assert all(end <= begin for end, begin in zip(ends, list(sizes.offsets.values())[1:], strict=False))
    assert all(offset % 256 == 0 for offset in sizes.offsets.values())
    assert sizes.sizes["staging"] == 2 * 2 * 1024 * 1536 * 2
    memory = SharedMemory(sizes, {0: (1 << 30, 1 << 40)})
    assert memory.address(0, 1, "arrived") == (1 << 40) + sizes.offsets["arrived"]
    with pytest.raises(DescriptionError, match="out holds"):
        memory.require_inside("out", 1 << 30)


def test_memory_of_another_call_is_refused_before_a_kernel_stores_outside_of_it():
    one = in_halves(problem(TWO_SHOT))
    for way in ("stores", "exchange", "blocks", "copies"):
        own = SharedMemory(layout_of(one, way), {0: (0, 0)})
        require_room(own, one, way)
        larger = SharedMemory(layout_of(replace(one, m=2 * one.m, chunk_rows=0), way), {0: (0, 0)})
        require_room(larger, one, way)
        with pytest.raises(DescriptionError, match="Make its memory for the largest call"):
            require_room(own, replace(one, n=2 * one.n), way)
    # The copy engine's has one place for what is sent, other ways' have two.
    copies = SharedMemory(layout_of(one, "copies"), {0: (0, 0)})
    with pytest.raises(DescriptionError, match="staging holds"):
        require_room(copies, one, "stores")
    stores = SharedMemory(layout_of(one), {0: (0, 0)})
    with pytest.raises(DescriptionError, match="sent holds 0 bytes"):
        require_room(stores, one, "blocks")
    with pytest.raises(DescriptionError, match="sums holds 0 bytes"):
        require_room(stores, one, "exchange")


def test_what_gave_up_is_named_by_rank_tile_and_word():
    found = np.zeros(1, layout.ERRORS)
    found["aborted"], found["waiter_count"] = 2, 1
    found["waiters"][0][0] = (0, 1, 13, 7, 41, 42)
    message = str(failure(problem(TWO_SHOT), 0, found.view(np.uint8), limit_s=2))
    words = ("rank 0", "(1, 2, 0)", "SM 7", "arrived[13] of rank 1", "seen 41, awaited 42", "rank 1 gave up")
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("one", "fact", "words"),
    [
        (problem(TWO_SHOT), 1, ("(1, 2, 0)", "finished[13] of rank 1")),
        (problem(GATHER), 0, ("(1, 3, 0)", "arrived[13] of rank 0")),
        (
            problem(TWO_SHOT, chunk_rows=2, following=NormedGemm(512, 32)),
            0,
            ("(1, 3, 0)", "finished[13] of rank 1"),
        ),
    ],
    ids=["outputs", "rows of A", "normed rows"],
)
def test_words_with_one_poster_name_it(one, fact, words):
    found = np.zeros(1, layout.ERRORS)
    found["aborted"], found["waiter_count"] = 1, 1
    found["waiters"][0][0] = (fact, -1, 13, 7, 41, 42)
    message = str(failure(one, 0, found.view(np.uint8), limit_s=2))
    for word in words:
        assert word in message


def test_the_sms_are_dealt_out_between_the_product_and_communication():
    blocks = blocks_of(problem(TWO_SHOT, m=8192), 132, CallOptions("blocks"))
    assert (blocks.gemm, blocks.reduce, blocks.send, blocks.all) == (108, 16, 16, 140)
    assert blocks_of(problem(GATHER), 132, CallOptions()).reduce == 0
    shared = blocks_of(problem(TWO_SHOT, m=8192), 132, CallOptions("blocks"), sharers=2)
    assert 2 * shared.all == 132
    with pytest.raises(DescriptionError, match="on 16 SMs, a rank's part of 132 where 8 ranks share a GPU"):
        blocks_of(problem(TWO_SHOT), 132, CallOptions("blocks"), sharers=8)
    with pytest.raises(DescriptionError, match="leave none for the GEMM"):
        blocks_of(problem(TWO_SHOT), 8, CallOptions("blocks"))
    after = blocks_of(problem(TWO_SHOT, m=8192), 132, CallOptions())
    assert (after.gemm, after.reduce) == (132, 264)
    exchanged = blocks_of(problem(TWO_SHOT, m=8192, chunk_rows=32), 132, CallOptions("exchange"))
    assert (exchanged.gemm, exchanged.all) == (132, 132)
    # Where ranks share a GPU, blocks that come after one's GEMM could take the SMs of the other's.
    shared = blocks_of(problem(TWO_SHOT, m=8192), 132, CallOptions(), sharers=2)
    assert (shared.gemm, shared.reduce) == (58, 8)
    with pytest.raises(DescriptionError, match="reduce_blocks is 0"):
        blocks_of(problem(TWO_SHOT), 132, CallOptions(reduce_blocks=0), sharers=2)
    # 8 tiles leave 116 SMs idle beside those that add: no tile waits for another's sum.
    small = blocks_of(problem(TWO_SHOT, m=128), 132, CallOptions(reduce_blocks=8))
    assert (small.gemm, small.reduce) == (6, 6)
    for options in (CallOptions("blocks", reduce_blocks=0), CallOptions(reduce_blocks=-1)):
        with pytest.raises(DescriptionError, match="reduce_blocks is"):
            blocks_of(problem(TWO_SHOT), 132, options)


def test_the_host_packs_as_many_bytes_as_the_kernels_take():
    asserted = {}
    for file in SOURCES.glob("*.cu*"):
        found = re.findall(r"static_assert\(sizeof\((\w+)\) == (\d+)", file.read_text())
        asserted |= {name: int(size) for name, size in found}
    packed = {
        "Errors": layout.ERRORS,
        "PeerParams": layout.PEER_PARAMS,
        "Tiles": layout.TILES,
        "GatherGemmParams": layout.GATHER_PARAMS,
        "ScatterGemmParams": layout.SCATTER_PARAMS,
        "Exchange": layout.EXCHANGE,
        "Contributions": layout.CONTRIBUTIONS,
        "ExchangeGemmParams": layout.EXCHANGE_PARAMS,
        "GatheredRows": layout.GATHERED_ROWS,
        "ReduceParams": layout.REDUCE_PARAMS,
        "NormReduceParams": layout.NORM_PARAMS,
        "SendParams": layout.SEND_PARAMS,
        "PushParams": layout.PUSH_PARAMS,
        "BetweenParams": layout.BETWEEN_PARAMS,
        "PingPongParams": layout.PING_PONG_PARAMS,
    }
    assert {name: kind.itemsize for name, kind in packed.items()} == asserted


def test_no_kernel_or_process_of_ours_asks_for_multicast():
    for file in (*FOLDER.iterdir(), *SOURCES.iterdir()):
        if file.suffix in (".cu", ".cuh", ".py"):
            assert not re.search(r"multimem|cuMulticast", file.read_text())


def test_the_template_instance_names_what_the_product_is():
    name = gemm_expression(
        problem(GATHER, b_order="column"), TILE_CONFIGS[128, 256], GATHER_PARAMS, has_bias=True
    )
    assert name == (
        "gemm_with_peers<TileConfig<2, 1, 256, 4, 2, 1>, true, "
        "PeerForm<Form<Activation::none, Order::column, true>, GatherGemmParams>, generated::stage>"
    )
    assert PeerLayout({"a": 1, "b": 1}).offsets == {"a": 0, "b": 256}
