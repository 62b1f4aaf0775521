"""A user's file: what it must define, and one line with file and line for whatever goes wrong in it."""

import re
import sys
from pathlib import Path

import pytest

from wavesim.errors import DescriptionError
from wavesim_gpu.__main__ import main
from wavesim_gpu.trial.user_model import load_user_model

torch = pytest.importorskip("torch")
PAGE = Path(__file__).parents[4] / "docs" / "in-your-model.md"
MAKERS = """import torch
def make_model(): return torch.nn.Linear(2, 3)
def make_inputs(): return torch.ones(1, 2)
"""
GOOD = "import torch\nmodel = torch.nn.Linear(2, 3)\ninputs = (torch.ones(1, 2),)\n"


def write(folder, text):
    path = folder / "mine.py"
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("inputs = ", "inputs = list").replace("list(", "list((").replace(",)\n", ",))\n"),
        MAKERS,
        GOOD.replace("(torch.ones(1, 2),)", "{'input': torch.ones(1, 2)}"),
        GOOD + "def step(model, inputs): return model(*inputs) * 1\n",
    ],
)
def test_a_file_that_defines_a_model_and_inputs_is_run(tmp_path, text):
    user = load_user_model(write(tmp_path, text))
    assert user.run().shape == (1, 3)


def test_a_name_behind_a_colon_is_the_model_or_makes_it(tmp_path):
    path = write(tmp_path, GOOD + "other = torch.nn.Linear(2, 5)\ndef wide(): return torch.nn.Linear(2, 7)\n")
    assert load_user_model(f"{path}:other").run().shape == (1, 5)
    assert load_user_model(f"{path}:wide").run().shape == (1, 7)


def test_a_module_is_imported_by_its_name(tmp_path, monkeypatch):
    (tmp_path / "mine_package").mkdir()
    (tmp_path / "mine_package" / "net.py").write_text(GOOD)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert load_user_model("mine_package.net").run().shape == (1, 3)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ("x = 1\n", "", "defines neither model nor make_model()"),
        ("import torch\nmodel = torch.nn.Linear(2, 3)\n", "", "defines neither inputs nor make_inputs()"),
        ("model = 3\ninputs = ()\n", "", "model is 3; it must be a torch.nn.Module"),
        (GOOD, ":other", "defines no other"),
        (GOOD, ":no good", "write FILE.py:NAME"),
        (GOOD + "step = 3\n", "", "step is 3; it must be a function"),
        (
            "import torch\n\nraise ValueError('mine\\nis broken')\n",
            "",
            "mine.py:3: ValueError: mine?is broken",
        ),
        ("import torch\nmodel = (\n", "", "mine.py:2: SyntaxError"),
        ("import sys\nsys.exit(3)\n", "", "mine.py:2: SystemExit: 3"),
        ("import no_such_thing\n", "", "mine.py:1: ModuleNotFoundError"),
        ("import torch\ndef make_model():\n    return 1 / 0\n", "", "mine.py:3: ZeroDivisionError"),
    ],
)
def test_what_is_missing_or_raises_is_one_line_with_its_place(tmp_path, text, name, said):
    with pytest.raises(DescriptionError) as caught:
        load_user_model(write(tmp_path, text) + name)
    assert said in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_an_error_in_a_step_names_the_line_of_the_file(tmp_path):
    user = load_user_model(
        write(tmp_path, GOOD + "def step(model, inputs):\n    return model(inputs[0].T)\n")
    )
    with pytest.raises(DescriptionError, match=r"mine.py:5: RuntimeError: mat1 and mat2"):
        user.run()


def test_a_file_that_wants_a_gpu_where_there_is_none_is_told_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    raising = "raise RuntimeError('Found no NVIDIA driver on your system')\n"
    with pytest.raises(DescriptionError, match=r"mine.py:1: .*; without a GPU, let the file make model"):
        load_user_model(write(tmp_path, raising))


@pytest.mark.filterwarnings("ignore")  # what transformers warns of is its own
def test_the_example_in_the_documentation_can_be_tried(tmp_path):
    pytest.importorskip("transformers")
    (example,) = re.findall("```python\n(# model.py\n.*?)```", PAGE.read_text(), re.DOTALL)
    small = example.replace('"cuda" if', '"cpu" if').replace("(1, 1024)", "(1, 8)")
    assert load_user_model(write(tmp_path, small)).run().logits.shape == (1, 8, 512)


def test_the_command_ends_with_status_two_and_one_line(tmp_path, capsys):
    path = write(tmp_path, "raise ValueError('mine')\n")
    assert main(["try", path]) == 2
    (said,) = capsys.readouterr().err.splitlines()
    assert said.endswith("mine.py:1: ValueError: mine")
