"""The GPU runner's command line where there is no GPU: clear errors, exit status 2, and the report."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wavesim.errors import RecordingError
from wavesim_gpu.__main__ import main
from wavesim_gpu.bench import report as reports
from wavesim_gpu.bench import timed_sources
from wavesim_gpu.bench.timed_sources import timed_hash
from wavesim_gpu.driver import kernel_sources
from wavesim_gpu.kernels.backends import BACKENDS, OTHERS

SHIPPED = Path(__file__).parents[3] / "gpu" / "results"


def case(name, workload, times, **tags):
    return {"name": name, "workload": workload, "rounds_ns": times, "verdict": {"is_good": True}, **tags}


def write(folder, **changes):
    pair = {"workload": "gpt3-mlp", "tokens": 1024, "weight_bytes": 300_000}
    small = pair | {"tokens": 64}
    cases = [
        case("matmul", "limit", [1000], flops=700_000_000),
        case("copy", "limit", [1000], bytes=4_000_000),
        case("ours", "product", [1000, 2000, 3000], tokens=1024, of="gpt3-mlp", stage="gemm1"),
        case("cublaslt", "product", [1000, 1000, 1000], tokens=1024, of="gpt3-mlp", stage="gemm1"),
        case("ours", "product", [500], tokens=1024, of="llama-mlp", stage="gemm1"),
        case("cublaslt", "product", [400], tokens=1024, of="llama-mlp", stage="gemm1"),
        case("stream", times=[4000], **pair),
        case("row", times=[3200], roles=["cusync", "tuned"], **pair),
        case("same-cut", times=[3200], **pair),
        case("same-cut stream", times=[4800], **pair),
        case("cublaslt", times=[1600], **pair),
        case("tile", times=[1], is_final=False, **pair),
        case("row", times=[90], roles=["tuned"], **small),
        case("pdl", times=[85], **small),  # faster in the final rounds, and not what screening chose
        case("cublaslt", times=[10], **small),
        case("stream", "copy-pair", [100, 100, 100], threads=128),
        case("ready", "copy-pair", [101, 102, 103], threads=128),
        case("timed", "recording", [1000], tile="128x256"),
        case("recorded", "recording", [1005], tile="128x256"),
    ]
    result = {
        "date": "d",
        "commit": "c",
        "device": {"name": "H200"},
        "versions": {"driver": "1"},
        "kernels": "portable",
        "kernel_sources": timed_hash("portable"),
        "cases": cases,
    }
    (folder / "2026.json").write_text(json.dumps(result | changes))


@pytest.mark.parametrize(("ended", "now"), [("record", "gemms-second"), ("layers", "mlps")])
def test_a_command_that_has_ended_names_what_does_it_now(ended, now, capsys):
    assert main([ended, "--out", "x"]) == 2
    assert capsys.readouterr().err == (
        f"{ended} has ended: python -m wavesim_gpu measure {now} --blind --out DIR\n"
    )


def test_the_report_gives_ratios_of_medians(tmp_path, capsys):
    write(tmp_path)
    assert main(["report", "--json", "--results", str(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["matmul_tflops"] == 700
    assert found["copy_gbs"] == 4000
    assert found["gemm_vs_cublas_large_min"] == 0.5
    assert found["gpt3_vs_stream_max"] == 1.25
    assert found["gpt3_same_tile_vs_stream_max"] == 1.5
    assert found["gpt3_vs_cublas_min"] == 0.5
    assert found["small_m_time_over_limit_max"] == 1.2
    assert 2 < found["copy_overhead_percent_upper95"] <= 3
    assert found["copy_overhead_best_way_by_threads"]["128"]["percent"] == 2
    assert found["recording_overhead_percent"]["128x256"] == pytest.approx(0.5)


def test_a_damaged_case_exits_2_and_names_the_file(tmp_path, capsys):
    write(tmp_path, cases=[{"name": "stream", "workload": "gpt3-mlp", "rounds_ns": ["x"]}])
    assert main(["report", "--json", "--results", str(tmp_path)]) == 2
    assert "2026.json: cases[0]: rounds_ns[0] is 'x'" in capsys.readouterr().err


@pytest.mark.parametrize("field", [{"device": {}}, {"device": 7}, {"kernels": []}, {"kernels": "fast"}])
def test_a_damaged_field_exits_2_in_one_line(tmp_path, capsys, field):
    write(tmp_path, **field)
    assert main(["report", "--json", "--results", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            ("--only", "fast"),
            "--only is 'fast'; it is in none of the 81 names, which are such as '",
        ),
        (("--minutes", "0"), "--minutes is 0; it must be above 0"),
        (("--device", "gtx"), "gtx"),
    ],
)
def test_a_blind_run_of_nothing_or_for_no_time_is_refused_before_it_begins(tmp_path, capsys, given, words):
    folder = tmp_path / "run"
    assert main(["measure", "gemms-second", "--blind", "--out", str(folder), *given]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1
    assert not folder.exists()


@pytest.mark.parametrize("minutes", ["nan", "inf", "1e400", "1_0", "-1", "many"])
def test_no_finite_time_is_refused_in_one_line(tmp_path, capsys, minutes):
    with pytest.raises(SystemExit) as ended:
        main(["measure", "gemms-second", "--out", str(tmp_path / "run"), f"--minutes={minutes}"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert f"argument --minutes: it is '{minutes}'; it must be a number from 0 to 1e+18" in said
    assert said.count("\n") == 1


def test_a_folder_that_cannot_be_made_is_told_in_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["measure", "gemms-second", "--out", str(tmp_path / "file" / "run")]) == 2
    assert capsys.readouterr().err == f"{tmp_path / 'file' / 'run'}: Not a directory; give another path\n"


def test_gpu_tests_without_cupy_say_so_in_one_line():
    done = subprocess.run(
        ["make", "gpu-test", "PYTHON=/bin/false"],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert done.stderr.startswith("no GPU or no CuPy: run on a machine with an NVIDIA GPU")


def test_every_kernel_that_is_timed_counts_in_the_results_hash(monkeypatch, tmp_path, capsys):
    timed = {path.name for name in BACKENDS for path in timed_sources.kernel_files(name)}
    root = kernel_sources.ROOT / "kernels"
    # Of two GPUs, of ladders, of decode steps and of MoE layers others are the measurements.
    folders = set(root.rglob("*")) - {root / name for name in ("collective", "ladder", "decode", "moe")}
    there = {path.name for folder in folders for path in folder.glob("*.cu")}
    # Beside GEMMs, which alone are timed; convolutions are computed by the same file.
    of_gemms = {backend.source.name for backend in BACKENDS.values()}
    of_layers = {backend.source.name for backend in OTHERS.values()} - of_gemms
    assert timed == (there - of_layers - {"pack_pixels.cu"}) | {"control.cu", "primitives.cu"}
    write(tmp_path)
    for source in timed_sources.BESIDE:
        changed = tmp_path / source.name
        beside = tuple(changed if path == source else path for path in timed_sources.BESIDE)
        for more, status in (("// more\n", 0), ("int more;\n", 2)):
            changed.write_text(source.read_text() + more)
            kernel_sources.source_hash.cache_clear()
            with monkeypatch.context() as patch:
                patch.setattr(timed_sources, "BESIDE", beside)
                assert main(["report", "--json", "--results", str(tmp_path)]) == status
        assert "measured with portable kernel sources" in capsys.readouterr().err
        changed.unlink()
    assert main(["report", "--json", "--results", str(tmp_path)]) == 0


def test_a_report_on_other_kernels_exits_2(tmp_path, capsys):
    write(tmp_path, kernel_sources="other")
    assert main(["report", "--json", "--results", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "measured with portable kernel sources other" in captured.err


def test_a_report_on_other_sources_needs_a_link_to_these_that_their_machine_code_is_the_same(tmp_path):
    write(tmp_path, kernel_sources="old")
    folder = tmp_path / "machine_code"
    folder.mkdir()

    def link(name, before, after):
        (folder / name).write_text(json.dumps({"from": before, "to": after}))

    link("later.json", "between", timed_hash("portable"))
    link("other.json", "other", timed_hash("portable"))
    link("back.json", timed_hash("portable"), "old")
    with pytest.raises(reports.StaleResultsError, match="measured with portable kernel sources old"):
        reports.sum_up(tmp_path)
    link("first.json", "old", "between")
    assert reports.sum_up(tmp_path)["wrong_results"] == 0
    link("first.json", "old", 7)
    with pytest.raises(RecordingError, match=r"first\.json: field 'to' is 7"):
        reports.sum_up(tmp_path)


@pytest.mark.parametrize(("text", "words"), [("{", "not JSON"), ("{}", "'device' is missing")])
def test_a_damaged_result_exits_2_and_names_the_file(tmp_path, capsys, text, words):
    (tmp_path / "2026.json").write_text(text)
    assert main(["report", "--json", "--results", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "2026.json" in error
    assert words in error


def test_a_report_without_results_exits_2(tmp_path, capsys):
    assert main(["report", "--results", str(tmp_path)]) == 2
    assert "no results" in capsys.readouterr().err


def test_wrong_results_are_left_out_and_counted(tmp_path):
    write(tmp_path)
    data = json.loads((tmp_path / "2026.json").read_text())
    data["cases"].append(
        case("row", "gpt3-mlp", [1], tokens=1024, roles=["tuned"]) | {"verdict": {"is_good": False}}
    )
    (tmp_path / "2026.json").write_text(json.dumps(data))
    found = reports.sum_up(tmp_path)
    assert (found["wrong_results"], found["wrong"]) == (1, ["gpt3-mlp 1024 row"])
    assert found["gpt3_vs_stream_max"] == 1.25


def test_a_wrong_product_is_left_out_and_the_others_are_reported(tmp_path):
    write(tmp_path)
    data = json.loads((tmp_path / "2026.json").read_text())
    for one in data["cases"]:
        if one["name"] == "ours" and one["of"] == "gpt3-mlp":
            one["verdict"] = {"is_good": False}
    (tmp_path / "2026.json").write_text(json.dumps(data))
    found = reports.sum_up(tmp_path)
    assert (found["wrong_results"], found["gemm_vs_cublas_large_min"]) == (1, 0.8)


def test_the_shipped_results_are_of_the_shipped_kernels():
    assert reports.sum_up(SHIPPED)["wrong_results"] == 0


def test_without_cupy_the_error_names_the_install_line():
    code = (
        "import sys; sys.modules['cupy'] = None\n"
        "from wavesim_gpu.driver.device import require_cupy\n"
        "from wavesim.errors import DeviceError\n"
        "try: require_cupy()\n"
        "except DeviceError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ".venv/bin/pip install -e '.[gpu]'" in done.stdout


def test_importing_the_runner_needs_no_gpu_cupy_simpy_or_plotly():
    code = (
        "import sys\n"
        "for name in ('cupy', 'simpy', 'plotly'): sys.modules[name] = None\n"
        "import wavesim_gpu.run.runner, wavesim_gpu.bench.kinds.bench_sizes\n"
        "import wavesim_gpu.bench.report, wavesim_gpu.bench.harness\n"
        "import wavesim_gpu.bench.kinds.plans, wavesim_gpu.bench.kinds.labs\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_blind_run_without_simpy_says_what_is_missing_and_exits_2(tmp_path):
    code = (
        "import sys; sys.modules['simpy'] = None\n"
        "from wavesim_gpu.__main__ import main\n"
        f"sys.exit(main(['measure', 'gemms-second', '--blind', '--out', {str(tmp_path / 'run')!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "predictions need simpy: pip install simpy, or put its wheel on PYTHONPATH\n"
