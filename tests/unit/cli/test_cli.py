"""The command line: the JSON that scripts read, and one clear line for bad input."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import wavesim
from wavesim.cli.command_line import COMMANDS, DEV_COMMANDS, main

PAIR = Path(__file__).parents[3] / "docs" / "pair.toml"
TILES = ("--tile-rows", "128")

SIMULATE_NAMES = {
    "support",
    "interval",
    "caveats",
    "history",
    "workload",
    "device",
    "sync",
    "makespan_ns",
    "waves",
    "busy_utilisation",
    "resident_utilisation",
    "improvement_points",
    "basis",
    "defaults",
    "low",
    "high",
    "scored",
    "safety",
}


def run_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main([*arguments, "--json"]) == 0
    document: dict[str, object] = json.loads(capsys.readouterr().out)
    return document


@pytest.mark.parametrize(
    ("arguments", "waves", "improvement"),
    [
        (("--sync", "stream"), 4.0, 0.0),
        (("--sync", "row"), 3.0, 25.0),
        (("--sync", "tile"), 3.0, 25.0),
        (("--sync", "tile", "--order", "column"), 3.5, 12.5),
        (("--sync", "row", "--order", "column"), 4.0, 0.0),
        (("--sync", "graph"), 4.0, 0.0),
        (("--sync", "pdl"), 4.0, 0.0),
        (("--sync", "pdl:0.5"), 3.5, 12.5),
        (("--sync", "stream-k"), None, 25.0),
        (("--sync", "persistent:tile"), 3.0, 25.0),
        (("--sync", "persistent-stream"), 4.0, 0.0),
        (("--launch", "graph"), 4.0, 0.0),
        (("--launch", "pdl"), 4.0, 0.0),
        (("--launch", "pdl", "--sync", "row"), 3.0, 25.0),
        (("--launch", "streams", "--sync", "tile"), 3.0, 25.0),
        (("--schedule", "stream-k"), None, 25.0),
        (("--schedule", "persistent"), 4.0, 0.0),
        (("--schedule", "persistent", "--launch", "pdl", "--sync", "tile"), 3.0, 25.0),
        (("--schedule", "fused", "--launch", "one-stream", "--sync", "tile"), 3.0, 25.0),
    ],
)
def test_simulate_gives_the_papers_figure_one(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], waves: float | None, improvement: float
):
    document = run_json(capsys, "simulate", "toy", *arguments)
    assert set(document) == SIMULATE_NAMES
    assert (document["waves"], document["improvement_points"]) == (waves, improvement)


def test_waves_are_null_where_tile_times_differ(capsys: pytest.CaptureFixture[str]):
    document = run_json(
        capsys, "simulate", "gpt3-mlp", "--tokens", "512", "--sync", "row", "--device", "a100-80gb"
    )
    assert document["waves"] is None
    assert isinstance(document["makespan_ns"], int)


def test_compare_lists_plans_with_the_baseline_first(capsys: pytest.CaptureFixture[str]):
    document = run_json(capsys, "compare", "toy", "--sync", "tile,row")
    rows = document["rows"]
    assert isinstance(rows, list)
    assert [row["plan"] for row in rows] == ["stream", "tile", "row"]


def test_commands_predict_the_same_gain_for_the_same_plan(capsys: pytest.CaptureFixture[str]):
    for order in ("row", "grouped:4"):
        words = ("gpt3-mlp", "--tokens", "768", "--sync", "row", "--order", order)
        simulated, compared = (run_json(capsys, command, *words) for command in ("simulate", "compare"))
        rows = compared["rows"]
        assert isinstance(rows, list)
        assert simulated["improvement_points"] == rows[1]["predicted_points"]
        assert main(["simulate", *words]) == 0
        assert f": {rows[1]['predicted_ns'] / 1e3:.1f} us (" in capsys.readouterr().out


def test_costs_recorded_in_another_order_say_so(capsys: pytest.CaptureFixture[str]):
    assert main(["simulate", "gpt3-mlp", "--order", "column"]) == 0
    assert "stream-sync run in row order, not this plan's" in capsys.readouterr().out


def test_split_k_is_an_option_and_what_is_only_predicted_is_said(capsys: pytest.CaptureFixture[str]):
    arguments = ("simulate", "gpt3-mlp", "--tokens", "128")
    whole, split = (run_json(capsys, *arguments, "--split-k", count) for count in ("1", "2"))
    assert split["makespan_ns"] < whole["makespan_ns"]  # 24 of 132 SMs have work without it
    assert main([*arguments, "--sync", "stream-k", "--verbose"]) == 0
    assert "what partial sums cost is an estimate, often several points off" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "gpt5"], "'gpt5'; known are"),
        (["simulate", "toy", "--sync", "magic"], "'magic'; known are stream, row, tile"),
        (["simulate", "toy", "--schedule", "magic"], "schedule is 'magic'; known are tile, persistent"),
        (["simulate", "toy", "--launch", "magic"], "launch is 'magic'; known are one-stream, graph"),
        (
            ["simulate", "toy", "--launch", "pdl", "--sync", "graph"],
            "sync is 'graph'; known are boundary, row",
        ),
        (
            ["simulate", "toy", "--launch", "pdl", "--sync", "row", "--no-wait-kernel"],
            "are for consumers on a stream of their own; use --launch streams",
        ),
        (
            ["simulate", "toy", "--sync", "stream", "--no-wait-kernel"],
            "leaving out the wait-kernel and a head",
        ),
        (["simulate", "toy", "--head-start", "-3"], "head-start is -3; it must be at least 0"),
        (
            ["simulate", "gpt3-mlp", "--sync", "row", "--no-wait-kernel", "--head-start", "500"],
            "blocks wait for semaphores that will not be posted, the first: gemm2 block",
        ),
        (
            ["simulate", "toy", "--tokens", "-3"],
            "toy is Figure 1 of the paper, in one size; leave --tokens and",
        ),
        (
            ["gen", "toy", "--sync", "stream-k"],
            "'stream-k', a plan whose kernels a library or you must bring",
        ),
        (["gen", "toy", "--sync", "stream", "--no-wait-kernel"], "'stream', which has no wait-kernel; leave"),
        (["tune", "toy", "--top", "-3"], "top is -3; it must be at least 1"),
        (["tune", "toy", "--measure", "-1"], "measure is -1; it must be at least 0"),
        (["simulate", "gpt3-mlp", "--tile", "128"], "'128'; write ROWSxCOLUMNS"),
        (["compare", "toy", "--html", "/proc/nowhere/page.html"], "/proc/nowhere"),
        (["predict", "nowhere.toml"], "nowhere.toml: cannot be read"),
    ],
)
def test_bad_input_is_one_line_and_status_two(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
):
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_tune_searches_all_orders_and_takes_none(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["tune", "toy", "--order", "grouped:2"])
    assert ended.value.code == 2
    assert "unrecognized arguments: --order grouped:2" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["streams:no-wait-kernel+row"], ["row", "--no-wait-kernel"]])
def test_a_plan_without_wait_kernel_says_whether_it_is_safe(
    capsys: pytest.CaptureFixture[str], words: list[str]
):
    assert main(["simulate", "toy", "--sync", *words]) == 0
    assert "without the wait-kernel: can deadlock: 4 blocks of gemm2" in capsys.readouterr().err


def test_arguments_of_the_wrong_kind_are_one_line_and_status_two(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        main(["simulate", "gpt3-mlp", "--tokens", "many"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "argument --m/--tokens: it is 'many'; it must be an integer from" in message
    assert message.count("\n") == 1


def test_a_mistyped_command_is_answered_by_the_nearest(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["simulat", "toy"])
    assert ended.value.code == 2
    assert "there is no command 'simulat'; did you mean simulate?" in capsys.readouterr().err


def test_the_version_is_one_line(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"wavesim {wavesim.__version__}\n"


def test_parts_and_short_words_name_the_same_plans(capsys: pytest.CaptureFixture[str]):
    for words, parts in (
        (("row",), ("--launch", "streams", "--sync", "row")),
        (("pdl+tile",), ("--launch", "pdl", "--sync", "tile")),
        (
            ("persistent-stream",),
            ("--schedule", "persistent", "--launch", "one-stream", "--sync", "boundary"),
        ),
        (("row", "--no-wait-kernel"), ("--launch", "streams", "--sync", "row", "--no-wait-kernel")),
    ):
        named, built = (
            run_json(capsys, "simulate", "toy", "--sync", *words),
            run_json(capsys, "simulate", "toy", *parts),
        )
        assert named | {"sync": ""} == built | {"sync": ""}


def test_every_command_is_a_file_with_options_and_a_line():
    import wavesim.cli

    files = Path(wavesim.cli.__file__).parent.glob("*.py")
    commands = [file for file in files if "\ndef run(" in file.read_text(encoding="utf-8")]
    assert {file.stem.replace("_", "-") for file in commands} == {*COMMANDS, *DEV_COMMANDS}


@pytest.mark.parametrize("command", [*COMMANDS, *DEV_COMMANDS])
def test_every_command_explains_its_options(capsys: pytest.CaptureFixture[str], command: str):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert "--json" in capsys.readouterr().out


def test_the_bare_command_shows_what_users_need_and_dev_the_rest(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        main([])
    shown = capsys.readouterr().out
    assert all(f"    {name} " in shown for name in COMMANDS)
    assert len(COMMANDS) == 8
    assert main(["dev"]) == 0
    rest = capsys.readouterr().out
    assert all(f"  {name} " in rest for name in DEV_COMMANDS)
    assert main(["dev", "devices", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_lab_copies_the_notebooks_and_keeps_what_the_reader_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    folder = tmp_path / "waves"
    assert main(["lab", str(folder), "--no-open"]) == 0
    first = folder / "notebooks" / "01_start_here.ipynb"
    assert json.loads(first.read_text())["cells"]
    first.write_text("mine")
    assert main(["lab", str(folder), "--no-open"]) == 0
    assert first.read_text() == "mine"
    assert "0 files copied" in capsys.readouterr().err


def test_help_loads_no_command(tmp_path: Path):
    code = (
        "import sys\nfrom wavesim.cli.command_line import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('numpy', 'wavesim.model.device', 'wavesim.cli.simulate') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert all(name in done.stdout for name in COMMANDS)
    assert done.stdout.endswith("[]\n")


def test_gen_writes_triton_functions_for_a_pair_of_ones_own(tmp_path, capsys):
    out = tmp_path / "tiles.py"
    pair = str(Path(__file__).parents[3] / "docs" / "pair.toml")
    assert (
        main(["gen", pair, "--triton", "--sync", "pdl+row", "--order", "grouped:4", "--out", str(out)]) == 0
    )
    assert "dependent launch" in capsys.readouterr().out
    text = out.read_text()
    compile(text, "tiles.py", "exec")
    assert "# Launch gemm1: 192 programs, behind what is on the stream.\n" in text
    assert "# Launch gemm2: 384 programs, with launch_pdl=True.\n" in text
    assert "def gemm2_wait(sync, x, y):" in text
    assert main(["gen", pair, "--triton"]) == 0
    assert (
        "on a stream of its own, behind gemm2_wait_for_start[(1,)](sync, num_warps=1)."
        in capsys.readouterr().out
    )


def test_gen_writes_a_header_for_dependent_launch_too(capsys):
    pair = str(Path(__file__).parents[3] / "docs" / "pair.toml")
    assert main(["gen", pair, "--sync", "pdl+row"]) == 0
    header = capsys.readouterr().out
    assert "with the attribute programmaticStreamSerialization" in header
    assert "Safety: rests on what CUDA promises." in header
    assert "wait_for_start" not in header


def test_a_package_that_is_not_installed_is_named_only_where_it_is_needed(tmp_path: Path):
    pair = Path(__file__).parents[3] / "docs" / "pair.toml"
    code = "import sys; sys.modules['plotly'] = None; from wavesim.cli.command_line import main; "

    def ended(*words: str) -> subprocess.CompletedProcess[str]:
        line = f"{code}sys.exit(main({[*words]!r}))"
        return subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=False)

    for command in ("predict", "compare", "simulate"):
        assert ended(command, str(pair)).returncode == 0
    done = ended("predict", str(pair), "--html", str(tmp_path / "pair.html"))
    assert done.returncode == 2
    assert "this needs plotly, which is not installed: pip install plotly" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "old", "now"),
    [
        (["tune", "toy", "--rows", "2"], "--rows", "--top"),
        (["compare", "toy", "--gpu", "never"], "--gpu", "--measure"),
        (["crossover", str(PAIR), *TILES, "--m", "128", "--ways", "row"], "--ways", "--sync"),
    ],
)
def test_an_option_that_moved_works_under_its_old_name_and_says_the_new_one(words, old, now, capsys):
    assert main(words) == 0
    said = capsys.readouterr()
    assert f"{old} is called {now} now" in said.err
    assert main([now if word == old else word for word in words]) == 0
    again = capsys.readouterr()
    assert f"{old} is called" not in again.err
    assert without_seconds(again.out) == without_seconds(said.out)


def test_an_option_that_is_given_under_both_names_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["tune", "toy", "--top", "3", "--rows", "2"])
    assert "argument --rows: is called --top now, which is given, too" in capsys.readouterr().err


def without_seconds(text: str) -> str:
    return re.sub(r"in [\d.]+ s", "", text)
