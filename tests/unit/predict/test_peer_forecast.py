"""Which way pays, what the commands say of it, and predictions that are registered once."""

import json
from itertools import pairwise

import pytest

from wavesim.cli.command_line import main
from wavesim.model.dependency import Dependency, x, y
from wavesim.model.device import load
from wavesim.model.link import load_link
from wavesim.model.pipeline import Pipeline
from wavesim.model.stage import Stage
from wavesim.predict.peer_forecast import forecast_ways, one_gemm
from wavesim.sim.peers.simulation import best_gemm
from wavesim.work.collective import Collective
from wavesim.work.collective.host import Host
from wavesim.work.rows import Norm

DEVICE = load("h200")
HOST = Host(2, load_link("h200"), {"gemm": Collective()})
TWO = """
device = "h200"
dependencies = []
[[stages]]
name = "down"
m = 512
n = 2048
k = 2048
tile = [128, 256, 64]
threads = 384
registers = 168
shared_bytes = 213000
[gpus]
count = 2
[[collectives]]
stage = "down"
kind = "all-reduce"
"""


def test_tiles_that_leave_as_they_are_made_beat_one_after_the_other_where_the_product_is_large():
    found = forecast_ways(one_gemm(1024, 4096, 2048, DEVICE), HOST, DEVICE, ("chunks:4", "stores"))
    words = [one.word for one in found.times]
    assert words == ["sequence", "chunks:4", "stores", "stores one-shot"]
    assert found.best.way.method == "stores"
    assert found.speedup(found.best) > 1.1
    assert found.speedup(found.times[1]) < 1.0


def test_a_slower_link_hides_less():
    slow = Host(2, load_link("h200").scaled(0.25), HOST.collectives)
    one = one_gemm(1024, 4096, 2048, DEVICE)
    fast, slowed = (forecast_ways(one, host, DEVICE, ("stores",), both_shots=False) for host in (HOST, slow))
    assert slowed.times[1].time_ns > fast.times[1].time_ns
    assert slowed.times[0].time_ns > fast.times[0].time_ns


def test_a_measured_kernel_time_is_what_the_baseline_takes():
    one = one_gemm(512, 2048, 2048, DEVICE)
    plain = forecast_ways(one, HOST, DEVICE, ())
    slower = forecast_ways(one, HOST, DEVICE, (), kernel_ns={"gemm": 200_000})
    assert slower.baseline.time_ns - 200_000 < plain.baseline.time_ns


def test_a_chain_of_gemm_all_reduce_norm_and_gemm_is_compared_too():
    gemm = Stage("gemm", best_gemm(512, 2048, 1024, DEVICE))
    norm = Stage("norm", Norm("norm", 512, 2048, tile_m=gemm.gemm.tile_m))
    after = Stage("up", best_gemm(512, 2048, 2048, DEVICE, name="up"))
    rows = after.gemm.tile_m // gemm.gemm.tile_m
    needs = (
        norm[0, y * rows : y * rows + rows]
        if rows > 1
        else norm[0, y * after.gemm.tile_m // gemm.gemm.tile_m]
    )
    chain = Pipeline(
        "chain", [gemm, norm, after], [Dependency(norm[x, y], [gemm[:, y]]), Dependency(after[x, y], [needs])]
    )
    found = forecast_ways(chain, HOST, DEVICE, ("stores", "stores:8"))
    assert found.speedup(found.best) > 1.0


def test_the_commands_take_a_description_of_two_gpus(tmp_path, capsys):
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    trace = tmp_path / "two.json"
    assert main(["simulate", "--file", str(path), "--sync", "row", "--perfetto", str(trace)]) == 0
    assert "simulated, not measured" in capsys.readouterr().out
    events = json.loads(trace.read_text())["traceEvents"]
    assert any(event["name"] == "GB/s, GPU 1 to 0" for event in events)
    assert any("GPU 1 SM 0" in str(event.get("args")) for event in events)
    crossing = [event for event in events if event.get("cat") == "transfer"]
    slices = {(one["pid"], one["tid"]): [] for one in crossing if one["ph"] == "X"}
    for one in crossing:
        if one["ph"] == "X":
            slices[one["pid"], one["tid"]].append((one["ts"], one["ts"] + one["dur"]))
    assert all(end <= begin for lane in slices.values() for (_, end), (begin, _) in pairwise(sorted(lane)))
    left = {one["id"]: one["ts"] for one in crossing if one["ph"] == "s"}
    reached = {one["id"]: one["ts"] for one in crossing if one["ph"] == "f"}
    assert left.keys() == reached.keys()
    assert len(left) == sum(map(len, slices.values())) > 0
    assert all(left[name] <= reached[name] for name in left)
    names = {str(one.get("args")) for one in events if one["name"] == "process_name"}
    assert {"{'name': 'simulated: arrives at GPU 0'}", "{'name': 'simulated: arrives at GPU 1'}"} <= names
    assert main(["compare", "--file", str(path), "--way", "stores,blocks:8", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["way"] for one in document["ways"]][:3] == ["sequence", "stores", "stores one-shot"]
    assert "predicted before they were measured" in document["before"]


def test_a_way_that_cannot_be_is_refused_alone_and_named_among_others(tmp_path, capsys):
    path = tmp_path / "two.toml"
    path.write_text(TWO.replace("m = 512", "m = 64"))
    assert main(["simulate", "--file", str(path), "--way", "exchange"]) == 2
    assert "has one row of tiles, for 2 GPUs. Use stores" in capsys.readouterr().err
    assert main(["compare", "--file", str(path), "--way", "exchange,stores"]) == 0
    told = capsys.readouterr().out
    assert "exchange              cannot be: way exchange: the grid" in told
    assert "\nstores " in told
    assert main(["compare", "--file", str(path), "--way", "exchange,stores", "--json"]) == 0
    assert list(json.loads(capsys.readouterr().out)["refused"]) == ["exchange"]


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["simulate", "--file", "FILE", "--way", "nccl"], "way is 'nccl'; known are sequence"),
        (["simulate", "--file", "FILE", "--sync", "pdl"], "policy is 'pdl'; known are tile, row, grid"),
        (["tune", "--file", "FILE"], "field 'gpus' describes 2 GPUs, and here one is meant"),
        (["simulate", "toy", "--way", "stores"], "way is 'stores', and one GPU is described"),
    ],
)
def test_commands_refuse_what_they_cannot_do_in_one_line(tmp_path, capsys, words, fault):
    path = tmp_path / "two.toml"
    path.write_text(TWO)
    assert main([str(path) if word == "FILE" else word for word in words]) == 2
    assert fault in capsys.readouterr().err
