"""What the benchmark of convolutions tries, and how its command measures a part in the time that it has."""

import json
from types import SimpleNamespace

import pytest
from wavesim.bench.conv_blind_cases import convolution_cases
from wavesim.bench.conv_pages import case_name

from wavesim.model.device import load
from wavesim.workloads.conv_networks import network_named
from wavesim_gpu.bench.kinds import conv_bench, layers_blind
from wavesim_gpu.bench.kinds import graphs as layer_graphs
from wavesim_gpu.bench.kinds import networks as conv_networks
from wavesim_gpu.bench.kinds.conv_cases import all_cases, cases_named
from wavesim_gpu.bench.kinds.networks import MOST_STAGES, segments_of
from wavesim_gpu.kernels.backends import backend_of

H200 = load("h200")


def test_every_case_has_a_name_of_its_own_and_candidates_that_kernels_compute():
    cases = all_cases()
    assert len({f"{case.kind} {case.name}" for case in cases}) == len(cases)
    for case in cases:
        candidates = case.candidates(H200)
        classes = {one.plan_class for one in candidates}
        assert classes == ({"stream"} if case.kind == "single" else {"stream", "pdl", "semaphores"})
        for one in candidates:
            for stage in one.pipeline.stages:
                backend = backend_of(stage, layer_graphs.GEMM_BACKEND)
                backend.check(stage.work)
                assert not backend.refusal(one.plan)


def test_few_tiles_are_tried_with_k_split_and_many_are_not():
    (few,), (many,) = cases_named("pair 3x3 7x7 512 to 512 batch 1"), cases_named("pair 56x56 batch 64")
    assert {"64x64, K in 8", "64x128", "64x128, K in 8"} <= set(few.pipelines(H200))
    assert all(
        stage.grid.size <= H200.sm_count
        for pipeline in few.pipelines(H200).values()
        for stage in pipeline.stages
    )
    assert set(many.pipelines(H200)) == {"256x64", "128x64", "64x64"}


@pytest.fixture
def measured(monkeypatch):
    """Stands for the GPU: notes which cases are measured, ten seconds each."""
    clock, found = [0.0], []

    def measure(torch, runner, case, candidates):
        clock[0] += 10
        found.append(case.name)
        return {"kind": case.kind, "name": case.name, "failed": "pretended"}

    monkeypatch.setattr(layer_graphs, "require_torch", lambda: SimpleNamespace(__version__="pretended"))
    monkeypatch.setattr(layer_graphs, "CupyRunner", lambda **_: SimpleNamespace(commit="test"))
    monkeypatch.setattr(layer_graphs, "query", lambda: H200)
    monkeypatch.setattr(layer_graphs, "versions", dict)
    monkeypatch.setattr(layer_graphs, "_possible", lambda runner, case: [])
    monkeypatch.setattr(layer_graphs, "_compile", list)
    monkeypatch.setattr(layer_graphs, "_measured", measure)
    monkeypatch.setattr(layer_graphs.time, "monotonic", lambda: clock[0])
    return found


def test_the_command_measures_a_part_and_begins_nothing_after_its_seconds(measured, tmp_path):
    out = tmp_path / "conv.json"
    line = ["--out", str(out), "--commit", "test", "--only", "pair 3x3 14x14", "--seconds", "25"]
    assert conv_bench.main(line) == 0
    expected = [f"3x3 14x14 256 to 256 batch {images}" for images in (1, 8, 32)]
    assert measured == expected
    assert [case["name"] for case in json.loads(out.read_text())["cases"]] == expected


def test_a_part_that_is_no_case_of_convolutions_is_refused(tmp_path, capsys):
    assert conv_bench.main(["--out", str(tmp_path / "none.json"), "--only", "5x5"]) == 2
    assert "--only is '5x5'; it is in no case" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["resnet-50", "vgg-19"])
def test_a_network_is_cut_into_segments_that_hold_each_convolution_once(name):
    segments = segments_of(name, 8, H200)
    assert max(len(pipeline.stages) for pipeline in segments) <= MOST_STAGES
    stages = [stage for pipeline in segments for stage in pipeline.stages]
    pack, stem = stages[:2]
    assert pack.name == "pack"
    assert stem.work.packs_rows
    assert pack.view("out").buffer == stem.view("a").buffer
    assert sorted(stage.name for stage in stages if stage is not pack) == sorted(
        one.name for one in network_named(name).convolutions
    )
    for stage in stages:
        backend_of(stage, "hopper").check(stage.work)
    # What another segment computes is an input; all else is waited for.
    waiting = sum(len(pipeline.dependencies) for pipeline in segments)
    assert len(segments) <= len(stages) - waiting <= 2 * len(segments)


def test_a_network_that_is_no_case_is_refused(measured, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(conv_networks, "require_torch", lambda: SimpleNamespace(__version__="pretended"))
    monkeypatch.setattr(conv_networks, "CupyRunner", lambda **_: SimpleNamespace(commit="test"))
    monkeypatch.setattr(conv_networks, "query", lambda: H200)
    assert conv_networks.main(["--out", str(tmp_path / "none.json"), "--only", "alexnet"]) == 2
    assert "it is in none of resnet-50 batch 1, vgg-19 batch 1" in capsys.readouterr().err


def test_no_case_of_the_blind_run_was_measured_before():
    before = {(one.images, one.size, one.channels) for one in all_cases()}
    blind = convolution_cases()
    assert not before & {(one.images, one.size, one.channels) for one in blind}
    assert not {one.images for one in blind} & set(conv_networks.BATCHES)


def test_parts_of_a_network_are_its_segments_size_by_size():
    whole, parts = (conv_networks.cases_of(parts=wanted) for wanted in (False, True))
    assert [one.name for one in whole[:2]] == ["resnet-50 batch 1", "vgg-19 batch 1"]
    assert len(parts) == len({one.name for one in parts}) == 3 * (5 + 5)
    of_one = [one for one in parts if one.network == "resnet-50" and one.images == 8]
    assert of_one[1].name == "resnet-50-56 batch 8" == case_name("resnet-50", 56, 8)
    segments = [found.name for one in of_one for found in segments_of("resnet-50", 8, H200, one.size)]
    assert segments == [found.name for found in segments_of("resnet-50", 8, H200)]


def test_kernels_compute_every_case_of_the_blind_run_under_every_plan(monkeypatch):
    def operands(pipeline, seed):
        assert 0 <= seed < 2**32
        return pipeline

    monkeypatch.setattr(layers_blind, "CupyRunner", lambda **_: SimpleNamespace(operands=operands))
    monkeypatch.setattr(layers_blind, "reference", lambda pipeline: {})
    measurer = layers_blind.LayerMeasurer("test")
    for case in convolution_cases():
        pipeline, _ = measurer._operands(case)
        for stage in pipeline.stages:
            backend = backend_of(stage)
            backend.check(stage.work)
            assert not any(backend.refusal(case.plan(word, order)) for order, word in case.entries)
