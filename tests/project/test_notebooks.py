"""Every notebook runs from top to bottom in a clean kernel, quickly, keeps the form that readers rely on,
and is committed without outputs."""

import ast
import re
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from traitlets.config import Config

import wavesim.widgets
from wavesim import RowSync, SemaphoreSync, TileSync, compare, gpt3_mlp, simulate
from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import load
from wavesim.predict.defaults import default_costs
from wavesim.teaching.exercises import LESSONS, exercises_of
from wavesim.teaching.policies import score
from wavesim.teaching.use_gpu import measuring

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MAX_LINES = 10
MAX_CELL_SECONDS = 120
MAX_CPU_SECONDS = 30  # of a notebook, so that it takes less than a minute on a machine that does more
FORBIDDEN = ("!pip", "%pip", "%conda", "urlopen", "urlretrieve", "requests.")
WIDGETS = (
    *wavesim.widgets.__all__,
    "LitmusExplorer",
    "AdviceBrowser",
    "PublishedView",
    "LintExplorer",
    "Mend",
)
LIVE = ("01_start_here", "07_policies", "09_rivals", "11_predicted_and_measured", "13_two_triton_kernels")
# Said of a misconception, in the notebook that meets it.
MISCONCEPTIONS = {
    "occupancy is speed": "02_waves_and_occupancy",
    "ceil(waves) is time": "02_waves_and_occupancy",
    "waiting is lost time": "03_stream_order",
    "two streams run concurrently": "04_two_streams",
    "resident is not busy": "04_two_streams",
    "atomics order data": "05_semaphores_and_memory",
    "a faster clock means a better schedule": "11_predicted_and_measured",
}

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def code_cells(path: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(path, 4).cells if cell.cell_type == "code"]


def code_of(path: Path) -> str:
    """All cells' Python, without the magic that loads our extension."""
    return "\n".join(cell.source.removeprefix("%load_ext wavesim.teaching\n") for cell in code_cells(path))


def prose_of(path: Path) -> str:
    return "\n".join(c.source for c in nbformat.read(path, 4).cells if c.cell_type == "markdown")


def cpu_seconds_of_ended_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def execute(notebook: nbformat.NotebookNode, folder: Path) -> None:
    """Over sockets in a folder: of two workers' kernels, both may find the same network port free."""
    NotebookClient(
        notebook,
        timeout=MAX_CELL_SECONDS,
        kernel_name="python3",
        config=Config(KernelManager={"transport": "ipc", "ip": str(folder / "kernel")}),
        store_widget_state=False,
        resources={"metadata": {"path": str(folder)}},
    ).execute()


def test_there_is_a_notebook_for_every_lesson_in_order():
    assert [int(path.stem[:2]) for path in NOTEBOOKS] == list(LESSONS) == sorted(LESSONS)
    assert NOTEBOOKS[0].name == "01_start_here.ipynb"


# Under a kernel the sockets that jupyter leaves to the garbage collector are warned about.
@pytest.mark.filterwarnings("default")
@each_notebook
def test_a_notebook_runs_in_a_clean_kernel_in_half_a_minute_of_cpu_time(path, tmp_path):
    before = cpu_seconds_of_ended_children()
    execute(nbformat.read(path, 4), tmp_path)
    taken = cpu_seconds_of_ended_children() - before
    assert 0.5 < taken < MAX_CPU_SECONDS


@pytest.mark.filterwarnings("default")
def test_a_wrong_answer_stops_a_notebook_with_a_hint_and_a_right_one_does_not(tmp_path):
    notebook = nbformat.read(NOTEBOOKS[0], 4)
    place, cell = next((i, cell) for i, cell in enumerate(notebook.cells) if 'check("1.1"' in cell.source)
    notebook.cells = notebook.cells[: place + 1]
    cell.source = cell.source.replace("answer = ...", "answer = (4, 3)")
    execute(notebook, tmp_path)
    assert "right" in cell.outputs[0].data["text/plain"]
    cell.source = cell.source.replace("answer = (4, 3)", "answer = (3, 3)")
    with pytest.raises(CellExecutionError, match=r"1\.1: 3 waves on one stream\?"):
        execute(notebook, tmp_path)


def test_no_notebook_holds_outputs():
    command = [sys.executable, "-m", "nbstripout", "--verify", *map(str, NOTEBOOKS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@each_notebook
def test_a_notebooks_cells_are_short_and_install_nothing(path):
    for cell in code_cells(path):
        assert cell.source.count("\n") < MAX_LINES, cell.source
        assert not [word for word in FORBIDDEN if word in cell.source]


@each_notebook
def test_a_notebook_asks_one_question_and_says_what_it_takes_and_what_it_gives(path):
    first = nbformat.read(path, 4).cells[0].source
    assert re.match(r"# [^\n]+\?\n", first)
    assert prose_of(path).count("\n# ") == 0
    assert "**You need** " in first
    assert re.search(r"\*\*Time:\*\* \d+ minutes", first)
    objectives = first.partition("**Afterwards you can**\n")[2].partition("\n\n")[0].splitlines()
    assert [line[:2] for line in objectives] == [f"{n}." for n in range(1, len(objectives) + 1)]
    assert 2 <= len(objectives) <= 3


@each_notebook
def test_every_prediction_is_shown_and_later_revealed(path):
    code = code_of(path)
    names = re.findall(r"^(\w+) = Prediction\(", code, flags=re.MULTILINE)
    assert names
    for name in names:
        shown, revealed = (
            re.search(rf"^{name}$", code, re.MULTILINE),
            re.search(rf"^{name}\.reveal\(", code, re.MULTILINE),
        )
        assert shown is not None, name
        assert revealed is not None, name
        assert shown.start() < revealed.start(), name
        assert not re.match(r'"[^"]*"\)', code[revealed.end() :]), f"{name}: an answer to read beforehand"
    # Notebook 9 asks for two predictions under one heading.
    assert prose_of(path).count("**Predict") == len(names) - (path.stem == "09_rivals")


@each_notebook
def test_a_notebook_offers_exactly_its_lessons_exercises_and_says_where_solutions_are(path):
    asked = re.findall(r'^(?:check|Mend)\("([\d.]+)"[,)]', code_of(path), flags=re.MULTILINE)
    assert asked == [one.number for one in exercises_of(int(path.stem[:2]))]
    assert f"(../solutions/s{path.stem}.py)" in prose_of(path)


@each_notebook
def test_a_notebook_says_what_to_do_next_when_a_cell_fails(path):
    """The extension is loaded with the first thing that a reader could get wrong."""
    code = "\n".join(cell.source for cell in code_cells(path))
    loaded = re.search(r"^%load_ext wavesim\.teaching$", code, re.MULTILINE)
    assert loaded is not None
    assert loaded.start() < re.search(r"\b(Prediction|check)\(", code).start()


@each_notebook
def test_a_notebook_has_a_widget(path):
    code = code_of(path)
    shown = [name for name in WIDGETS if re.search(rf"^(?:\w+ = )?{name}[(.]", code, flags=re.MULTILINE)]
    assert shown


@each_notebook
def test_a_notebook_checks_what_it_shows(path):
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(code_of(path)))) >= 3


@each_notebook
def test_what_can_be_measured_live_is_under_use_gpu_and_no_parameter_is_idle(path):
    cells = code_cells(path)
    parameters = [cell for cell in cells if "parameters" in cell.metadata.get("tags", [])]
    rest = "\n".join(cell.source for cell in cells if cell not in parameters)
    names = [line.split(" = ")[0] for cell in parameters for line in cell.source.splitlines()]
    assert all(re.search(rf"\b{name}\b", rest) for name in names)
    assert ("USE_GPU" in names) == (path.stem in LIVE)
    if path.stem in LIVE:
        assert 'USE_GPU = "auto"' in parameters[0].source
        assert "measuring(USE_GPU)" in rest
    assert ("compare(" in rest or "score(" in rest) <= (path.stem in LIVE)


@each_notebook
def test_a_notebooks_links_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", prose_of(path)):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize(("words", "stem"), MISCONCEPTIONS.items())
def test_a_misconception_is_met_head_on(words, stem):
    assert words in prose_of(ROOT / "notebooks" / f"{stem}.ipynb").lower()


def test_the_list_of_notebooks_and_misconceptions_agrees_with_them():
    listed, _, misconceptions = (ROOT / "notebooks" / "README.md").read_text("utf-8").partition("## Misc")
    for path in NOTEBOOKS:
        first = nbformat.read(path, 4).cells[0].source
        question, minutes = first.splitlines()[0][2:], re.search(r"\*\*Time:\*\* (\d+)", first)[1]
        assert f"| {int(path.stem[:2])} | [{question}]({path.name}) | {minutes} |" in listed
    rows = re.findall(r'^\| "[^|]+\|([^|]+)\|', misconceptions, flags=re.MULTILINE)
    assert len(rows) == len(MISCONCEPTIONS)
    for row, stem in zip(rows, MISCONCEPTIONS.values(), strict=True):
        assert f"({stem}.ipynb)" in row


def test_reading_paths_take_the_time_they_promise():
    prose = prose_of(NOTEBOOKS[0])
    minutes = {p.stem: int(re.search(r"\*\*Time:\*\* (\d+)", prose_of(p))[1]) for p in NOTEBOOKS}
    path = prose.partition("75 minutes")[2].partition(";")[0]
    named = re.findall(r"\((\w+)\.ipynb\)", path)
    assert minutes["01_start_here"] == 20
    assert 70 <= minutes["01_start_here"] + sum(minutes[name] for name in named) <= 75


def test_use_gpu_takes_recordings_or_fails_as_it_is_told(monkeypatch):
    assert measuring("never").runner is None
    assert "recordings" in repr(measuring("never"))
    with pytest.raises(DescriptionError, match="'auto', 'never' or 'require'"):
        measuring("maybe")
    monkeypatch.setattr("wavesim.recordings.runner.entry_points", lambda group: [])
    assert measuring("auto").runner is None
    with pytest.raises(DeviceError):
        measuring("require")


class PretendedRunner:
    """A GPU that measures what the simulator says of an H200 of as many SMs."""

    def __init__(self, sm_count: int = 132, shared_bytes: int = 232_448):
        self.device = replace(load("h200"), name="pretended", shared_bytes_per_block=shared_bytes)
        self.device = self.device.with_sm_count(sm_count)

    def measure(self, pipeline, plans, *, rounds=20):
        costs, _ = default_costs(pipeline, load("h200"))
        return [self._measured(simulate(pipeline, plan, self.device, costs)) for plan in plans]

    def _measured(self, trace):
        head = replace(trace.header, source="measured", rounds_ns=(trace.time_ns,) * 3, date="2026-01-01")
        return replace(trace, header=head)


def pretend_gpu(monkeypatch, **limits):
    entry = SimpleNamespace(load=lambda: lambda: PretendedRunner(**limits))
    monkeypatch.setattr("wavesim.recordings.runner.entry_points", lambda group: [entry])


def test_a_gpu_with_another_number_of_sms_is_measured_and_predicted_as_itself(monkeypatch):
    pretend_gpu(monkeypatch, sm_count=108)
    where = measuring("require")
    assert where.device.sm_count == 108
    assert repr(where) == "measurements: live, on pretended"
    found = compare(gpt3_mlp(1024), [SemaphoreSync(RowSync())], where.device, runner=where.runner)
    assert found.source.startswith("live")
    assert abs(found.rows[1].error_points) < 1
    mine = score(TileSync(), where)
    assert mine.source.startswith("live")
    assert abs(mine.predicted_points - mine.measured.median) < 1


def test_a_gpu_that_is_too_small_for_the_kernels_is_left_alone_unless_it_is_required(monkeypatch):
    pretend_gpu(monkeypatch, shared_bytes=65_536)
    assert measuring("auto").runner is None
    assert "need another GPU" in repr(measuring("auto"))
    with pytest.raises(DescriptionError, match="98304"):
        measuring("require")
