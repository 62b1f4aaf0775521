"""Pages of convolutions: what their commands write, gains taken apart, and the list of the blind run."""

import pytest

from wavesim.evaluation import conv_pages as pages
from wavesim.evaluation import paper_convolutions, paper_figures
from wavesim.evaluation.conv_bench_results import FILTERS_FIRST, PUBLISHED, bench_run
from wavesim.evaluation.conv_blind_cases import convolution_cases
from wavesim.evaluation.conv_times import ConvolutionTimes, rest_ns, times_of_convolutions
from wavesim.evaluation.layer_blind_predictions import predicted_from_costs
from wavesim.evaluation.layer_graphs_table import times_of
from wavesim.model.device import default_device
from wavesim.predict.published_convolutions import published_gain
from wavesim.workloads.conv_networks import network_named

NETWORK = network_named("resnet-34")


def case_of(name: str) -> dict:
    finalists = [
        {"class": "torch", "label": "cuDNN", "median_ns": 50},
        {"class": "stream", "label": "stream", "median_ns": 100},
        {"class": "pdl", "label": "pdl", "median_ns": 90},
        {"class": "semaphores", "label": "pdl+row", "median_ns": 95},
    ]
    return {"kind": pages.KIND, "name": name, "finalists": finalists}


def test_a_page_has_the_rows_that_its_command_writes():
    page = (pages.DOCS / "models" / "resnet-34.md").read_text("utf-8")
    found = times_of_convolutions("resnet-34-7", NETWORK.part(7), 1, default_device())
    words = ["7 x 7", "7", *pages._cells(found), found.tiles, *pages._shares(found), pages.UNMEASURED]
    assert pages._row(words) in page
    rest = f"{rest_ns(NETWORK, 1, default_device()) / 1e3:.1f}"
    assert f"| rest |  | {rest} | {rest} | {rest} |" in page


def test_what_is_no_table_is_the_same_on_all_pages_and_says_what_it_rests_on(monkeypatch):
    monkeypatch.setattr(pages, "block", lambda *_: "A TABLE")
    for name in pages.NETWORKS:
        page = (pages.DOCS / "models" / f"{name}.md").read_text("utf-8")
        runs = (pages.network_run(folder) for folder in (pages.FOLDER, pages.PACKED, pages.CLOSELY))
        text = pages.page(name, *runs)
        assert all(part.strip() in page for part in text.split("A TABLE"))
    assert "how convolutions wait was fitted to" in text


def test_a_network_as_measured_has_the_fastest_plan_of_each_class_and_says_which_batch_is_missing():
    case = case_of("vgg-19 batch 8") | {"left_out": ["max pool 1"], "commit": "abcdefg"}
    case["finalists"].append({"class": "semaphores", "label": "persistent+pdl+row", "median_ns": 80})
    head = {"device": {"name": "A GPU"}, "date": "2026-11-23T00"}
    text = pages._measured("## Measured", "", "vgg-19", head | {"cases": [case]})
    assert "| 8 | 0.1 | 0.1 | 0.1 | 0.1 | 0.62 |" in text
    assert pages.fastest_of(case)["semaphores"] == 80
    assert "Batch 1: not measured yet." in text
    assert "Batch 32: not measured yet." in text
    assert pages._measured("## Measured", "", "resnet-50", None).endswith(f"{pages.UNMEASURED}.")


def test_a_measured_part_stands_beside_its_simulation():
    runs = {"cases": [case_of("resnet-34-28 batch 8")]}
    assert pages.measured_saves(runs, "resnet-34", 28, 8) == "+10.0"
    assert pages.measured_saves(runs, "resnet-34", 28, 1) == pages.UNMEASURED
    assert pages.measured_saves(None, "resnet-34", 28, 8) == pages.UNMEASURED


def test_what_is_saved_is_the_boundary_and_the_tail():
    tail = ConvolutionTimes(100, 95, 80, "128x128")
    assert (tail.saves, tail.boundary, tail.tail) == pytest.approx((20, 5, 15))
    none = ConvolutionTimes(100, 95, 99, "128x128")
    assert (none.saves, none.boundary, none.tail) == pytest.approx((5, 5, 0))


def test_a_published_gain_is_the_host_the_boundary_and_the_tail():
    found = published_gain(2, 256, 1)
    assert found is not None
    assert (found.stream_us, found.policy, found.has_other_tiles) == (63.56, "row", False)
    # Of 64 us the host waits 8 once less, as cuSync has it wait once too; a launch takes 3.
    assert found.host == pytest.approx(100 * 8 / 63.56, abs=1)
    assert found.boundary == pytest.approx(100 * 3 / 63.56, abs=0.5)
    row = paper_convolutions._layer_row(2, 256, 1)
    assert f"| {' | '.join(row)} |" in paper_figures.PAGE.read_text("utf-8")


def test_what_an_h200_measured_of_a_published_layer_is_our_fastest_over_our_stream_sync():
    case = next(
        one
        for one in bench_run(FILTERS_FIRST).cases
        if one["name"] == "3x3 7x7 512 to 512 batch 1" and one["kind"] == "chain"
    )
    times = times_of(case)
    saved = 100 * (1 - min(times["pdl"], times["semaphores"]) / times["stream"])
    assert paper_convolutions.measured_saves(4, 512, 1) == f"{saved:+.1f} (pdl)"
    page = paper_figures.PAGE.read_text("utf-8")
    for count, channels in ((2, 64), (2, 128), (2, 256), (2, 512), (4, 256), (4, 512)):
        for batch in paper_convolutions.BATCHES:
            said = paper_convolutions.measured_saves(count, channels, batch)
            assert said.startswith("+")
            assert f"| {said} |" in page


def test_what_was_measured_of_published_pairs_is_in_each_sides_best_tiles():
    times = {(one["kind"], one["name"]): times_of(one) for one in bench_run(PUBLISHED).cases}
    found = times["pair", "3x3 28x28 128 to 128 batch 28"]
    saved = 100 * (1 - found["pdl"] / found["stream"])
    assert paper_convolutions.measured_saves(2, 128, 28) == f"{saved:+.1f} (pdl)"


def test_the_blind_run_has_forty_cases_or_more_of_which_none_is_twice():
    cases = convolution_cases()
    assert len({case.name for case in cases}) == len(cases) >= 40
    assert {case.kind for case in cases} == {
        "pair",
        "chain",
        "basic",
        "basic-down",
        "bottleneck",
        "bottleneck-down",
    }
    down = next(case for case in cases if case.kind == "bottleneck-down")
    assert [stage.work.out_shape[1:] for stage in down.pipeline().stages][-1] == (28, 28, 512)


def test_a_blind_case_is_predicted_under_every_plan_before_it_runs():
    case = next(case for case in convolution_cases() if case.kind == "chain")  # one wave a kernel
    found = predicted_from_costs([case], "h200")
    assert [one.plan for one in found] == ["stream", "pdl", "pdl+row", "pdl+tile"]
    assert found[0].points == 0
    assert found[1].time_ns < found[0].time_ns
