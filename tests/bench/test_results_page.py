"""The results page and docs: from any file, and one clear line for a damaged one."""

import re
from pathlib import Path
from typing import Any

import pytest
from sample_results import SAMPLE, changed

from wavesim.bench.gpu_results import GpuResults, load_results, newest_results
from wavesim.bench.results_page import docs_text, policy_rows, write_results_docs, write_results_page
from wavesim.bench.results_text import findings
from wavesim.bench.speedups import pairs_of
from wavesim.cli.command_line import main
from wavesim.errors import RecordingError


@pytest.fixture
def results() -> GpuResults:
    return load_results(SAMPLE)


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


def test_the_docs_have_a_row_for_each_size_and_how_fast_each_plan_is_beside_the_library(results: GpuResults):
    cases = pairs_of(results, "gpt3-mlp")[1024]
    rows = [line for line in docs_text(results).splitlines() if line.startswith("| 1024 | ")]
    library = cases["cublaslt"].median_ns
    start = f"| 1024 | {library / 1e3:.1f} | {library / cases['tuned'].median_ns:.3f} |"
    assert any(row.startswith(start) for row in rows)


def test_other_generated_policies_fill_a_table_of_their_own_fastest_first():
    results = load_results(newest_results())
    measured = [case for case in results.of("gpt3-mlp") if case.name.startswith("block:")]
    assert len({case.name for case in measured}) > 20
    rows = policy_rows(results)
    times = [float(row[4]) for row in rows]
    assert times == sorted(times)
    assert len(rows) > 20
    assert {row[1] for row in rows} == {"1024"}


def test_a_page_that_fails_leaves_no_file(tmp_path: Path):
    path = changed(tmp_path, lambda d: d.update(cases=d["cases"][:2]))
    with pytest.raises(RecordingError, match="none of its 2 right cases"):
        write_results_docs(tmp_path / "docs", load_results(path))
    assert not (tmp_path / "docs").exists()
