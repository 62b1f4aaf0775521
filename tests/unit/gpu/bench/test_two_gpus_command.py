"""The measuring command for two GPUs, with ways that are not there: order, verdicts, options."""

import json
import math

import numpy as np
import pytest

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model.collective import Collective
from wavesim_gpu.bench.kinds.two_gpus import __main__ as command
from wavesim_gpu.bench.kinds.two_gpus import entries, merged
from wavesim_gpu.bench.kinds.two_gpus.cases import SharedCase, expected_of, relative_error
from wavesim_gpu.bench.kinds.two_gpus.turns import PeerContender, fastest, in_turns
from wavesim_gpu.bench.kinds.two_gpus.variants import variants_of
from wavesim_gpu.peers.problem import SharedGemm


class OnHost:
    """NumPy in CuPy's place."""

    float32, abs, concatenate, random = np.float32, np.abs, np.concatenate, np.random

    class RandomState(np.random.RandomState):
        def standard_normal(self, size, dtype):
            return super().standard_normal(size).astype(dtype)


OnHost.random = OnHost


def test_a_way_that_is_wrong_on_any_rank_is_checked_first_and_never_timed():
    said = []

    def way(name, error):
        def timed():
            said.append(name)
            return 1000.0

        return PeerContender(lambda: said.append(f"check {name}") or error, timed)

    ways = {"right": way("right", 1e-3), "wrong": way("wrong", math.nan), "far": way("far", 0.5)}
    found = in_turns(ways, rounds=3, dtype="bf16", agreed=lambda number: number)
    assert said == ["check right", "check wrong", "check far", "right", "right", "right"]
    assert found["right"].ns == (1000, 1000, 1000)
    assert all(found[name].failure and not found[name].ns for name in ("wrong", "far"))


def test_of_variants_the_fastest_that_is_right_is_compared():
    def variant(error, ns, words):
        return PeerContender(lambda: error, lambda: ns, words)

    tried = [variant(0.5, 1.0, "wrong"), variant(1e-3, 9.0, "slow"), variant(1e-3, 5.0, "fast")]
    assert fastest(tried, "bf16", lambda number: number).words == "fast"
    assert fastest(tried[:1] * 2, "bf16", lambda number: number).words == "wrong"


def test_ways_are_tried_in_tiles_and_on_sms_that_can_take_them():
    ways = variants_of((2048, 4096, 8192), Collective("all-reduce"), 2)
    assert list(ways) == [
        *("stores", "stores:8", "stores:16", "exchange", "exchange:132"),
        *("stores one-shot", "blocks:16", "copies:8"),
    ]
    tiles = [(one.problem.tile_m, one.problem.tile_n) for one in ways["stores:8"]]
    assert tiles == [(128, 256), (256, 128), (128, 192)]
    # Each rank adds half of the rows of tiles, of one row of tiles neither can.
    assert [one.problem.chunk_rows for one in ways["exchange"]] == [8, 4, 8]
    assert "exchange" not in variants_of((64, 2048, 4096), Collective("all-reduce"), 2)
    few = variants_of((128, 2816, 8192), Collective("all-reduce"), 2)
    assert {one.problem.is_one_shot for one in few["stores one-shot"]} == {True}
    # 1,280 rows are whole tiles of 128 for each of two ranks, of 256 they are not.
    gathered = variants_of((1280, 64, 256), Collective("all-gather"), 2)["blocks:8"]
    assert {one.problem.tile_m for one in gathered} == {128}


def test_all_ranks_take_the_ways_in_one_order():
    orders = []
    for _ in range(2):
        orders.append([])
        ways = {
            name: PeerContender(lambda: 0.0, lambda name=name: orders[-1].append(name) or 1.0)
            for name in "abcd"
        }
        in_turns(ways, rounds=10, dtype="fp16", agreed=lambda number: number, seed=7)
    assert orders[0] == orders[1]
    assert len(set(zip(*[iter(orders[0])] * 4, strict=True))) > 1


@pytest.mark.parametrize("kind", ["all-reduce", "reduce-scatter", "all-gather"])
def test_what_must_come_out_is_the_sum_over_the_ranks_or_the_gathered_rows(kind):
    case = SharedCase(SharedGemm(512, 64, 32, Collective(kind), tile_m=64, tile_n=64), seed=3)
    wholes = [expected_of(OnHost, case, rank) for rank in range(2)]
    rows = 256 if kind == "reduce-scatter" else 512
    assert [one.shape for one in wholes] == [(rows, 64)] * 2
    assert np.array_equal(*wholes) == (kind == "all-reduce")
    bits = (wholes[0].view(np.uint32) >> 16).astype(np.uint16)
    assert relative_error(OnHost, bits, wholes[0], "bf16") < 1e-2
    assert math.isnan(relative_error(OnHost, np.full_like(bits, 0x7FFF), wholes[0], "bf16"))


def test_shapes_are_chosen_by_number_and_by_what_a_collective_can_take(monkeypatch):
    monkeypatch.setattr(command, "shapes", lambda _: ((16, 64, 64), (512, 64, 64), (1024, 64, 64)))
    assert command.chosen("0:2", "all-reduce") == ((16, 64, 64), (512, 64, 64))
    assert command.chosen("0:3", "reduce-scatter") == ((512, 64, 64), (1024, 64, 64))
    assert len(command.chosen("1:", "all-reduce")) == 2
    assert command.chosen("2,0:1", "all-reduce") == ((1024, 64, 64), (16, 64, 64))
    for wrong in ("2:1", "0:4", "3:", "x", "3", "1,", ":2"):
        with pytest.raises(DescriptionError, match="--shapes is"):
            command.chosen(wrong, "all-reduce")
    assert command.devices_of("0,0", "skew") == (0, 0)
    for wrong, part in (("0", "skew"), ("0,x", "skew"), ("0,0", "times"), ("0,0", "alone")):
        with pytest.raises(DescriptionError, match="--devices is"):
            command.devices_of(wrong, part)
    assert command.parsed(["--out", "f", "--commit", "c", "--only", "skew"]).calls == 10_000


def test_what_was_measured_becomes_what_the_page_reads(tmp_path):
    def line(**changes):
        ways = {
            "sequence": {"ns": [3000, 1000, 2000]},
            "stores": {"ns": []},
            "copies:8": {"ns": [900], "words": "128x256"},
        }
        facts = {"part": "times", "kind": "all-reduce", "size": [16, 7168, 4096], "ways": ways}
        return json.dumps(facts | changes)

    lines = tmp_path / "lines"
    others = (line(part="skew"), line(kind="all-gather"), line(ways={"sequence": {"ns": [5000]}}))
    lines.write_text("\n".join((line(), *others)) + "\n")
    entries.main([str(lines), "--out", str(tmp_path / "measured.json")])
    assert json.loads((tmp_path / "measured.json").read_text()) == [
        {"m": 16, "k": 7168, "n": 4096, "way": "sequence", "ns": 5000, "words": ""},
        {"m": 16, "k": 7168, "n": 4096, "way": "copies:8", "ns": 900, "words": "128x256"},
    ]
    with pytest.raises(RecordingError, match="line 1 is no line"):
        entries.entries_of([{"part": "times", "kind": "all-reduce"}])


def test_runs_become_one_line_per_shape_whose_first_times_stay(tmp_path):
    def line(kind, ways):
        return {"kind": kind, "size": [512, 64, 128], "ways": ways, "needs": dict.fromkeys(ways, "x")}

    runs = [line("all-gather", {"copies:1": 1, "sequence": 2}), line("all-reduce", {"exchange": 3})]
    runs.append(line("all-gather", {"kraken fused": 4, "sequence": 5}))
    file, out = tmp_path / "lines", tmp_path / "timed.json"
    file.write_text("\n".join(map(json.dumps, runs)))
    assert merged.main([str(file), "--out", str(out)]) == 0
    reduced, gathered = json.loads(out.read_text())
    assert reduced["ways"] == {"exchange": 3}
    assert gathered["ways"] == {"copies:1": 1, "sequence": 2, "kraken fused": 4}
    with pytest.raises(RecordingError, match="line 1 is no line"):
        merged.in_one([{"part": "skew"}])


def test_a_folder_that_is_no_checkout_of_kraken_is_refused_by_name(tmp_path):
    with pytest.raises(DescriptionError, match="has no kraken/fused"):
        command.require_kraken(str(tmp_path))
    (tmp_path / "kraken" / "fused").mkdir(parents=True)
    command.require_kraken(str(tmp_path))
    command.require_kraken("")
