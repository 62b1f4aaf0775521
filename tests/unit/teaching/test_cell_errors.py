"""What a failing cell says: a sentence with the next step, and a traceback where the reader needs one."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from wavesim.teaching.solved_file import keep_in

TOY = """
from wavesim import *
from wavesim.teaching import check
pair, toy_device = toy(), device('toy')
costs = zero_cost(pair, 1000)
"""
RACE = "simulate(pair, SemaphoreSync(TileSync(), wait_kernel=False, head_start=4), toy_device, costs)"


@pytest.fixture(scope="module")
def shell():
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_cell("%load_ext wavesim.teaching")
    keep_in(None)  # what tests behind this one solve is nobody's progress
    assert shell.run_cell(TOY).success
    return shell


def told(shell, cell, monkeypatch):
    """What a cell's failure shows."""
    seen = []
    monkeypatch.setattr(shell, "_showtraceback", lambda kind, error, lines: seen.extend(lines))
    assert not shell.run_cell(cell).success
    return "\n".join(seen)


def test_a_skipped_cell_and_a_typing_error_say_what_to_do(shell, monkeypatch):
    text = told(shell, "mlp.stages", monkeypatch)
    assert text.startswith("✗ name 'mlp' is not defined. Has every cell above run? Run > Run All Above")
    assert "Or did you mean 'pair'?" in told(shell, "piar", monkeypatch)


def test_an_error_of_wavesim_is_its_sentence_and_a_hint_stays_a_hint(shell, monkeypatch):
    assert told(shell, "device('h20')", monkeypatch).startswith("✗ unknown device 'h20'")
    wrong = told(shell, "check('1.1', (3, 3))", monkeypatch)
    assert wrong.startswith("✗ 1.1: 3 waves on one stream?")


def test_a_deadlock_says_how_it_is_repaired(shell, monkeypatch):
    text = told(shell, RACE, monkeypatch)
    assert "never issued: gemm1" in text
    assert text.endswith("run the cell again.")
    assert "wait_kernel=True" in text


def test_other_errors_and_names_that_a_function_elsewhere_lacks_keep_their_traceback(shell, monkeypatch):
    assert "Traceback" in told(shell, "1 / 0", monkeypatch)
    elsewhere = (
        "exec(compile('def inner(): return lacking', 'other.py', 'exec'), space := {})\nspace['inner']()"
    )
    text = told(shell, elsewhere, monkeypatch)
    assert "Traceback" in text
    assert "Run All Above" not in text


@pytest.mark.parametrize("line", ["from wavesim.widgets import Newer", "import wavesim.newer"])
def test_a_notebook_of_another_version_says_so(shell, monkeypatch, line):
    text = told(shell, line, monkeypatch)
    assert text.startswith("✗ ")
    assert "If this notebook came with another wavesim" in text


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("from wavesim.widgets import WhatIf\nWhatIf(workload='gpt3mlp')", "did you mean 'gpt3-mlp'?"),
        ("from wavesim.widgets import OccupancyExplorer\nOccupancyExplorer(device='h20')", "Device is 'h20'"),
        ("from wavesim.widgets import WavePlayer\nWavePlayer('toy')", "what is 'toy'; it must be a Trace"),
        ("from wavesim.widgets import DependencyExplorer\nDependencyExplorer('toy')", "must be a Pipeline"),
        ("from wavesim.teaching.litmus_explorer import LitmusExplorer\nLitmusExplorer('x')", "Test is 'x'"),
        ("timeline('x')", "traces[0] is 'x'; it must be a Trace"),
        ("timeline(None)", "traces is None; it must be a list"),
        ("metrics_of([1])", "it must be a Trace"),
        ("default_costs('mlp', toy_device)", "pipeline is 'mlp'; it must be a Pipeline"),
        ("simulate(pair, StreamSync, toy_device, costs)", "use StreamSync()"),
        ("simulate(pair, StreamSync(), 'toy', costs)", "it must be a Device"),
        ("check(1.1, 4)", "number is 1.1; it must be a str"),
        ("check('1,1', 4)", "there are"),
        ("gpt3_mlp('1024')", "must be an integer"),
    ],
)
def test_a_slip_in_a_cell_names_what_is_wrong_and_what_would_be_right(shell, monkeypatch, cell, words):
    text = told(shell, cell, monkeypatch)
    assert text.startswith("✗ ")
    assert words in text
