"""Every notebook runs from top to bottom in a clean kernel, quickly, and is committed without outputs."""

import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = sorted((Path(__file__).parent.parent / "notebooks").glob("*.ipynb"))
MAX_LINES = 10
MAX_SECONDS = 60
FORBIDDEN = ("!pip", "%pip", "%conda", "urlopen", "urlretrieve", "requests.")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


def test_there_is_a_first_notebook():
    assert NOTEBOOKS[0].name == "01_start_here.ipynb"


# Under a kernel the sockets that jupyter leaves to the garbage collector are warned about.
@pytest.mark.filterwarnings("default")
@each_notebook
def test_a_notebook_runs_in_a_clean_kernel_within_a_minute(path, tmp_path):
    notebook = nbformat.read(path, 4)
    start = time.monotonic()
    NotebookClient(
        notebook,
        timeout=MAX_SECONDS,
        kernel_name="python3",
        store_widget_state=False,
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    assert time.monotonic() - start < MAX_SECONDS


@each_notebook
def test_a_notebook_holds_no_outputs(path):
    command = [sys.executable, "-m", "nbstripout", "--verify", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@each_notebook
def test_a_notebooks_cells_are_short_and_install_nothing(path):
    for cell in code_cells(path):
        assert cell.source.count("\n") < MAX_LINES, cell.source
        assert not [word for word in FORBIDDEN if word in cell.source]


@each_notebook
def test_a_notebook_checks_what_it_shows_and_lets_its_reader_say_where_measurements_come_from(path):
    cells = code_cells(path)
    assert sum("assert " in cell.source for cell in cells) >= 3
    parameters = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    assert len(parameters) == 1
    assert 'USE_GPU = "auto"' in parameters[0].source
