"""The results page: its numbers against numbers worked out by hand, damaged files, wrong results left out."""

import json
import re
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pytest

from wavesim.cli.command_line import main
from wavesim.errors import RecordingError
from wavesim.evaluation.bench_figure import (
    copy_figure,
    limit_figure,
    product_figure,
    rivals_figure,
    speed_figure,
)
from wavesim.evaluation.cycle_breakdown import product_cycles, shares
from wavesim.evaluation.gpu_results import Case, GpuResults, load_results, newest_results
from wavesim.evaluation.results_page import docs_text, pictures, write_results_docs, write_results_page
from wavesim.evaluation.results_tables import policy_rows
from wavesim.evaluation.results_text import findings, measured_how
from wavesim.evaluation.semaphore_costs import (
    best_ways,
    copy_overheads,
    primitive_costs,
    ratio_of_medians,
    ready_costs,
)
from wavesim.evaluation.speedups import (
    Limits,
    Separation,
    Speed,
    pairs_of,
    separations,
    speeds,
    summary,
    with_generated_as_one,
)
from wavesim.view.panels_figure import Dot, Panel, Scale, Series, small_panels
from wavesim.view.theme import DARK, LIGHT
from wavesim.workloads.gpt3 import gpt3_mlp

SAMPLE = Path(__file__).parents[1] / "data" / "gpu_results" / "trimmed.json"


@pytest.fixture
def results() -> GpuResults:
    return load_results(SAMPLE)


def changed(tmp_path: Path, change: Any) -> Path:
    """The sample after `change(document)`."""
    document = json.loads(SAMPLE.read_text(encoding="utf-8"))
    change(document)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def raw(workload: str, name: str, tokens: int) -> dict[str, Any]:
    """The final case of that name in the file itself."""
    cases = json.loads(SAMPLE.read_text(encoding="utf-8"))["cases"]
    return next(
        case
        for case in cases
        if (case["workload"], case["name"], case.get("tokens")) == (workload, name, tokens)
        and case.get("is_final")
    )


def dots(figure: Any) -> list[tuple[float, str]]:
    return [
        (y, words) for series in figure.data for y, words in zip(series.y, series.customdata, strict=True)
    ]


def test_a_speed_is_the_others_median_over_ours_with_our_quartiles():
    found = Speed.of([200, 210, 190, 205, 195], [100, 100, 130])
    assert found.value == 100 / 200
    assert (found.low, found.high) == (100 / 205, 100 / 195)


def test_cycles_are_times_times_clocks(results: GpuResults):
    pairs = pairs_of(results, "gpt3-mlp")
    ours, theirs = raw("gpt3-mlp", "row", 1024), raw("gpt3-mlp", "cublaslt", 1024)
    cycles = [
        median(ns * ghz for ns, ghz in zip(case["rounds_ns"], case["clocks_ghz"], strict=True))
        for case in (theirs, ours)
    ]
    _, found = speeds(pairs, "row", "cublaslt", in_cycles=True)[1024]
    assert found.value == pytest.approx(cycles[0] / cycles[1])


def test_the_limit_is_the_longer_of_arithmetic_and_reading(results: GpuResults):
    limits = Limits(flops_per_ns=1000, bytes_per_ns=4)
    assert limits.time_ns(1, 4000) == 1000  # 4000 bytes at 4 per ns; 4000 flops would need 4 ns
    assert limits.time_ns(10_000, 4000) == 40_000
    measured = Limits.of(results)
    assert 500 < measured.flops_per_ns / 1000 < 989  # below the data sheet's TFLOP/s
    assert 3000 < measured.bytes_per_ns < 4815


def test_the_page_says_which_kernels_at_what_power_and_what_a_copy_pays(results: GpuResults):
    words = measured_how(results)
    assert (
        "sources 6369efb47b338987; if the kernels have changed since, `python -m wavesim_gpu report`" in words
    )
    assert "(power limit 700 W)" in words
    assert words.endswith("before it was timed.")
    assert measured_how(replace(results, is_judged_after=True)).endswith(
        "before it was timed, and once more after."
    )
    assert "the limit holds on average" in words
    assert "as it leaves" in next(picture.text for picture in pictures(results) if picture.name == "copies")


def test_screened_cases_are_not_shown(results: GpuResults):
    screened = [case for case in results.cases if not case.is_final]
    assert screened
    shown = [case for cases in pairs_of(results, "gpt3-mlp").values() for case in cases.values()]
    assert not [case for case in shown if case in screened]


def test_what_a_copy_pays_is_the_ratio_of_its_medians_with_an_interval(results: GpuResults):
    cases = json.loads(SAMPLE.read_text(encoding="utf-8"))["cases"]
    rounds = {c["name"]: c["rounds_ns"] for c in cases if c.get("threads") == 128}
    found = copy_overheads(results)["ready"][0]
    assert found.threads == 128
    assert found.percent == pytest.approx(100 * (median(rounds["ready"]) / median(rounds["stream"]) - 1))
    assert found.low95 <= found.percent <= found.upper95


def test_the_interval_of_a_ratio_holds_the_truth_19_times_in_20_although_neighbours_are_alike():
    random = np.random.default_rng(7)
    held, widths = 0, []
    for _ in range(200):
        drift = np.convolve(random.normal(0, 0.02, 209), np.full(10, 10**-0.5), "valid")  # both contenders'
        theirs, ours = (
            level * np.exp(drift + random.normal(0, 0.02, 200)) + 2_000 * (random.random(200) < 0.02)
            for level in (10_000, 10_300)
        )
        found = ratio_of_medians(list(ours), list(theirs))
        held += found.low <= 1.03 <= found.high
        widths.append(found.high - found.low)
    assert held >= 180
    assert median(widths) < 0.015


def test_a_pair_is_resampled_together_so_that_what_both_meet_cancels():
    drift = [10_000 + 100 * (turn // 10) for turn in range(200)]
    found = ratio_of_medians([1.01 * time for time in drift], drift)
    assert (found.low, found.high) == (pytest.approx(1.01), pytest.approx(1.01))


def test_the_cheapest_way_is_chosen_among_those_with_semaphores_for_each_block_size(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        plain = next(c for c in document["cases"] if c.get("threads") == 128 and c["name"] == "stream")
        for name, factor in (("tile on one stream", 0.97), ("pdl", 0.5)):
            rounds = [round(factor * ns) for ns in plain["rounds_ns"]]
            document["cases"].append({**plain, "name": name, "rounds_ns": rounds})

    found = load_results(changed(tmp_path, add))
    best = best_ways(copy_overheads(found))[128]
    assert best.case.name == "tile on one stream"
    assert best.percent == pytest.approx(-3, abs=0.1)
    text = copy_figure(found).layout.title.text.replace("<br>", " ").replace("\u00a0", " ")
    assert f"{best.upper95:.1f} % at 128" in text


def test_what_the_simulator_chose_is_held_against_what_screening_chose(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        tuned = next(
            case
            for case in document["cases"]
            if "tuned" in case.get("roles", ()) and (case["workload"], case["tokens"]) == ("gpt3-mlp", 1024)
        )
        slower = [round(ns / 0.9) for ns in tuned["rounds_ns"]]
        document["cases"].append({**tuned, "name": "predicted", "roles": ["predicted"], "rounds_ns": slower})

    said = findings(load_results(changed(tmp_path, add)))
    assert any("simulator's choice" in line and "0.900" in line for line in said)


def test_time_is_cycles_over_clock_at_every_size(results: GpuResults):
    found = separations(results)
    assert ("8192 cubed", 8192) in found
    assert any("alone" in what for what, _ in found)
    for one in found.values():
        assert one.time == pytest.approx(one.cycles * one.clock, rel=0.05)  # of medians
    slow = Case("ours", "product", (200, 200, 200), (1.0, 1.0, 1.0))
    fast = Case("cublaslt", "product", (100, 100, 100), (1.25, 1.25, 1.25))
    assert Separation.of(slow, fast) == Separation(0.5, 0.625, 0.8)


def test_semaphores_that_are_there_cost_what_the_pair_takes_beyond_stream_sync(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        for name, ns in (("stream", 500_000), ("row", 501_000)):
            case = {"name": name, "workload": "ready-pair", "tokens": 1024, "verdict": {"is_good": True}}
            document["cases"].append({**case, "rounds_ns": [ns] * 20})

    found = load_results(changed(tmp_path, add))
    assert ready_costs(found)["row"].value == pytest.approx(1.002)
    assert "takes +0.20 % with row semaphores" in " ".join(docs_text(found).split())


def test_a_primitive_costs_what_its_loop_takes_beyond_the_empty_one(tmp_path: Path):
    def add(document: dict[str, Any]) -> None:
        for name, ns in (("empty loop", 20_000), ("wait", 520_000)):
            case = {"name": name, "workload": "primitive", "operations": 1000, "blocks": 132, "verdict": None}
            document["cases"].append({**case, "rounds_ns": [ns] * 3, "clocks_ghz": [2.0] * 3})

    found = load_results(changed(tmp_path, add))
    (one,) = primitive_costs(found)
    assert (one.name, one.blocks, one.ns, one.cycles) == ("wait", 132, 500, 1000)
    assert "| wait | 132 | 500 | 500 to 500 | 1000 |" in docs_text(found)


def test_every_plan_has_a_dot_with_its_ratio_and_its_facts(results: GpuResults):
    row, library = raw("gpt3-mlp", "row", 1024), raw("gpt3-mlp", "cublaslt", 1024)
    ratio = median(library["rounds_ns"]) / median(row["rounds_ns"])
    found = [words for y, words in dots(speed_figure(results, "gpt3-mlp")) if y == pytest.approx(ratio)]
    words = next(words for words in found if words.startswith("<b>row semaphores</b>"))
    for part in ("M = 1024", f"{ratio:.3f}", "8 rounds", "128x192, 256x128", "grouped:8", "GHz", "687 W"):
        assert part in words


def test_other_generated_policies_share_a_panel_and_fill_a_table_of_their_own():
    results = load_results(newest_results())
    measured = [case for case in results.of("gpt3-mlp") if case.is_final and case.name.startswith("block:")]
    assert len({case.name for case in measured}) > 20
    shown = pairs_of(results, "gpt3-mlp")
    for tokens, cases in with_generated_as_one(shown).items():
        here = [case for case in measured if case.tokens == tokens]
        assert not any(name.startswith("block:") for name in cases)
        assert cases["generated"].median_ns == min(case.median_ns for case in here)
        assert len(cases) == len(shown[tokens]) - len(here) + 1
    rows = policy_rows(results)
    times = [float(row[4]) for row in rows]
    assert times == sorted(times)
    assert len(rows) > 20
    assert {row[1] for row in rows} == {"1024"}


def test_the_cycles_of_a_product_are_split_into_parts_that_add_up():
    gemm = gpt3_mlp(1792).stage("gemm1").gemm
    ideal = 2 * 1792 * 6144 * 12288 / 4096 / 132  # cycles of 132 SMs that do nothing but multiply
    raw = {
        "name": "ours",
        "workload": "product",
        "rounds_ns": (1_000_000,),
        "clocks_ghz": (0.6,),
        "stage": gemm.name,
        "product_of": "gpt3-mlp",
        "tokens": 1792,
        "words": {"way": "hopper 128x256 grouped:8"},
    }
    library = Case(**{**raw, "name": "cublaslt", "rounds_ns": (900_000,)})
    results = replace(load_results(SAMPLE), cases=(Case(**raw), library))
    (one,) = product_cycles(results).values()
    assert one.multiply == pytest.approx(ideal / 1000)
    assert one.wave == pytest.approx((3 - 336 / 132) * 2 * 128 * 256 * 12288 / 4096 / 1000)  # 336 tiles
    assert (one.outside, one.total, one.library) == (pytest.approx(0, abs=1e-9), 600.0, pytest.approx(540.0))
    assert sum(shares(one).values()) == pytest.approx(1)
    by_stream_k = Case(**{**raw, "words": {"way": "hopper-stream-k 128x256 grouped:8"}})
    (other,) = product_cycles(replace(results, cases=(by_stream_k, library))).values()
    assert (other.wave, other.rest) == (0, pytest.approx(one.rest + one.wave))


def test_titles_name_the_mean_that_the_dots_have(results: GpuResults):
    total = summary(speeds(pairs_of(results, "gpt3-mlp"), "tuned", "cublaslt"))
    assert total is not None
    assert f"{total.geomean:.3f} of cuBLASLt's speed" in speed_figure(results, "gpt3-mlp").layout.title.text
    assert f"{total.geomean:.3f} of cuBLASLt's" in rivals_figure(
        results, "gpt3-mlp"
    ).layout.title.text.replace("<br>", " ")


def test_gains_are_shown_in_time_and_in_cycles(results: GpuResults):
    names = {series.name for series in rivals_figure(results, "gpt3-mlp").data if len(series.x)}
    assert "in SM cycles" in names
    assert names & {"faster in time", "slower in time"}


@pytest.mark.parametrize("draw", [limit_figure, product_figure, copy_figure])
def test_each_figure_says_what_was_measured_on_what_in_both_themes(draw: Any, results: GpuResults):
    for theme in ("light", "dark"):
        figure = draw(results, theme)
        assert "NVIDIA H200" in figure.layout.title.subtitle.text.replace("<br>", " ")
        assert re.search(r"\d", figure.layout.title.text)
        assert len(dots(figure)) > 2
    assert figure.layout.paper_bgcolor == DARK.background


def test_a_dot_beyond_the_scale_is_an_arrowhead_with_its_number():
    series = Series("s", [Dot(0, 0.2, 0.2, 0.2, "far"), Dot(1, 1.0, 1.0, 1.0, "near")], "good")
    figure = small_panels(
        [Panel("p", "", ["1", "2"], [series])], Scale("y", 0.6, 1.4), title="t", source="s", size_name="n"
    )
    inside, beyond = figure.data
    assert list(inside.customdata) == ["near"]
    assert 0.6 < beyond.y[0] < 0.7
    assert (list(beyond.text), beyond.marker.symbol) == (["0.20"], ("triangle-down",))


def test_wrong_results_are_left_out_and_named(tmp_path: Path):
    def spoil(document: dict[str, Any]) -> None:
        for case in document["cases"]:
            if case["name"] == "row" and case.get("tokens") == 1024 and case["workload"] == "gpt3-mlp":
                case["verdict"]["is_good"] = False
                case["rounds_ns"] = [1] * 8  # it would win by far

    found = load_results(changed(tmp_path, spoil))
    assert "row" not in pairs_of(found, "gpt3-mlp")[1024]
    said = [line for line in findings(found) if "results were wrong" in line]
    assert len(said) == 1
    assert "row semaphores, gpt3-mlp M = 1024" in said[0]
    assert said[0] in " ".join(docs_text(found).split()).replace("\n", " ")


DAMAGES: dict[str, tuple[Any, str]] = {
    "no cases": (lambda d: d.pop("cases"), "field 'cases' is missing"),
    "no kernels": (lambda d: d.pop("kernels"), "field 'kernels' is missing"),
    "a device's name": (lambda d: d.update(device={}), "device: field 'name' is missing"),
    "a text for a round": (lambda d: d["cases"][3].update(rounds_ns=["x"]), "cases[3]: rounds_ns[0] is 'x'"),
    "a negative round": (lambda d: d["cases"][3].update(rounds_ns=[-5]), "must be a positive number"),
    "clocks of other rounds": (lambda d: d["cases"][3].update(clocks_ghz=[1.0]), "one per round"),
    "a case that is a list": (lambda d: d["cases"].insert(0, []), "cases[0]: field 'name' is missing"),
    "tokens as text": (lambda d: d["cases"][15].update(tokens="many"), "cases[15]: field 'tokens' is 'many'"),
    "a verdict without a word": (lambda d: d["cases"][3].update(verdict={}), "field 'is_good' is missing"),
    "no limits": (lambda d: d.update(cases=d["cases"][2:]), "of workload 'limit' are missing"),
    "nothing to show": (lambda d: d.update(cases=d["cases"][:2]), "measure again"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_file_is_told_in_one_line(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    damage, words = DAMAGES[name]
    status = main(["results", str(changed(tmp_path, damage)), "--html", str(tmp_path / "page.html")])
    said = capsys.readouterr()
    assert (status, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert words in said.err
    assert not (tmp_path / "page.html").exists()


def test_a_cut_off_file_a_missing_one_and_an_empty_folder_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "cut.json"
    path.write_text(SAMPLE.read_text(encoding="utf-8")[:3000], encoding="utf-8")
    assert main(["results", str(path)]) == 2
    assert main(["results", str(tmp_path / "none.json")]) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 2
    assert "not JSON" in said[0]
    assert "No such file" in said[1]
    with pytest.raises(RecordingError, match="no results file"):
        newest_results(tmp_path / "nowhere")


def test_the_page_holds_everything_and_asks_nobody(results: GpuResults, tmp_path: Path):
    text = write_results_page(tmp_path / "results.html", results).read_text(encoding="utf-8")
    own = text.replace(max(re.findall(r"<script>.*?</script>", text, re.DOTALL), key=len), "")
    assert not re.search(r"""(?:src|href)\s*=|@import|url\(|https?://(?!www\.w3\.org)""", own)
    assert text.count('class="figure"') == len(pictures(results))
    for part in (
        "NVIDIA H200",
        "2026-11-21",
        "3d392ef",
        "driver 580.159.04",
        "GHz",
        " W",
        "dependent launch",
    ):
        assert part in own


def test_the_docs_show_every_picture_in_both_themes(
    results: GpuResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    drawn: dict[Path, str] = {}

    def keep(figure: Any, path: Path) -> Path:  # in place of the browser
        drawn[path] = figure.layout.paper_bgcolor
        return path

    monkeypatch.setattr("wavesim.evaluation.results_page.save_figure", keep)
    words, *_ = write_results_docs(tmp_path, results)
    linked = re.findall(r'(?:src|srcset)="([^"]+)"', words.read_text(encoding="utf-8"))
    assert {tmp_path / name for name in linked} == set(drawn)
    grounds = {"light": LIGHT.background, "dark": DARK.background}
    assert all(ground == grounds[path.stem.rpartition("-")[2]] for path, ground in drawn.items())


def test_uncommitted_changes_are_told_wherever_the_commit_is(tmp_path: Path):
    path = changed(tmp_path, lambda d: d.update(commit="0123456789abcdef with uncommitted changes to gpu"))
    found = load_results(path)
    words = "commit 0123456 with uncommitted changes to gpu"
    assert words in " ".join(docs_text(found).split())
    for draw in (limit_figure, copy_figure):
        assert words in draw(found).layout.title.subtitle.text.replace("<br>", " ")


def test_a_page_that_fails_leaves_no_file(tmp_path: Path):
    path = changed(tmp_path, lambda d: d.update(cases=d["cases"][:2]))
    with pytest.raises(RecordingError, match="none of its 2 right cases"):
        write_results_docs(tmp_path / "docs", load_results(path))
    assert not (tmp_path / "docs").exists()


def test_semaphores_are_compared_with_stream_sync_in_the_same_tiles(tmp_path: Path):
    stream = raw("gpt3-mlp", "same-cut stream", 1024)
    halved = {**stream, "name": "same-cut", "rounds_ns": [time // 2 for time in stream["rounds_ns"]]}
    path = changed(tmp_path, lambda document: document["cases"].append(halved))
    (line,) = [line for line in findings(load_results(path)) if "the same tiles" in line]
    assert line.endswith("the most: 2.000.")


def test_the_words_are_made_from_the_file(results: GpuResults, capsys: pytest.CaptureFixture[str]):
    words = docs_text(results)
    assert "trimmed.json" in words
    for picture in pictures(results):
        assert f"images/results-{picture.name}-dark.svg" in words
    assert main(["results", str(SAMPLE), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["findings"] == findings(results)
    assert (document["commit"], document["wrong_results"]) == ("3d392ef", 0)
