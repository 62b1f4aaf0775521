"""The built wheel holds everything and works elsewhere; notebooks carry no outputs."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import nbformat
import pytest

import wavesim

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
MAX_RECORDINGS_BYTES = 10_000_000
MAX_WHEEL_BYTES = 6_000_000
# Recordings that only `wavesim validate` reads.
IN_A_CHECKOUT = ("wavesim/recordings/blind/", "wavesim/recordings/foreign/", "wavesim/recordings/sketch/")
PREDICTIONS = "wavesim/recordings/predictions.json.xz"


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """The wheel of the committed and uncommitted sources, built without touching the network."""
    out = tmp_path_factory.mktemp("wheel")
    copy = tmp_path_factory.mktemp("source")
    # A copy, so that a stale build folder of the checkout cannot end up in the wheel.
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for name in ("wavesim", "gpu/wavesim_gpu", "notebooks", "solutions"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, copy]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("wavesim_cuda-*.whl")
    return path


@pytest.fixture(scope="session")
def installed(wheel, tmp_path_factory) -> Path:
    """A folder that holds the installed wheel and nothing of the checkout."""
    target = tmp_path_factory.mktemp("elsewhere")
    # What is imported is compiled then; compiling all the rest takes longer.
    options = ["--quiet", "--no-compile", "--no-deps", "--no-index", "--target", target]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, wheel], check=True)
    return target


def run_installed(installed: Path, *arguments: str) -> str:
    """Standard output of the interpreter, run outside the checkout with the wheel first on its path."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=installed,
        env={**os.environ, "PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_source_and_data_file_but_what_only_validate_reads(wheel):
    packages = {"wavesim": ROOT, "wavesim_gpu": ROOT / "gpu"}
    expected = {
        path.relative_to(base).as_posix()
        for package, base in packages.items()
        for path in (base / package).rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    left_out = {name for name in expected if name.startswith(IN_A_CHECKOUT)} | {PREDICTIONS}
    assert expected - left_out <= names
    assert not names & left_out
    assert wheel.stat().st_size <= MAX_WHEEL_BYTES


def test_the_wheel_installs_wavesim_and_wavesim_gpu_and_nothing_else(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    own = {top for top in tops if not top.endswith((".dist-info", ".data"))}
    assert own == {"wavesim", "wavesim_gpu"}
    data = {name.partition("/data/")[2].split("/")[2] for name in names if "/data/" in name}
    assert data == {"notebooks", "solutions"}


def test_the_wheels_lab_copies_the_notebooks(installed, tmp_path):
    command = (
        f"from wavesim.cli.command_line import main; print(main(['lab', {str(tmp_path)!r}, '--no-open']))"
    )
    assert run_installed(installed, "-c", command).strip() == "0"
    committed = {path.name for path in (ROOT / "notebooks").glob("*.ipynb")}
    assert {path.name for path in (tmp_path / "notebooks").iterdir()} == committed


CORE = """
import sys
sys.modules.update(dict.fromkeys(
    ("plotly", "ipywidgets", "anywidget", "traitlets", "IPython", "jupyterlab", "ipykernel", "notebook")
))
from wavesim.cli.command_line import main
for words in (
    ["predict", PAIR], ["simulate", "gpt3-mlp"], ["compare", PAIR], ["gen", PAIR], ["devices"],
    ["lint", PTX], ["why-hang", HANG],
):
    status = main(words)
    assert status in (0, 1), (words, status)
print("all")
"""


def test_the_core_predicts_generates_and_proves_without_the_lab(installed):
    assert len(PROJECT["dependencies"]) <= 4  # wavesim itself is the fifth package
    pair = str(ROOT / "docs" / "pair.toml")
    ptx = str(ROOT / "tests" / "data" / "lint" / "sealed_2" / "templates" / "ptx_bulk.ptx")
    hang = str(ROOT / "wavesim" / "safety" / "hang" / "cases" / "mpk-775.toml")
    code = CORE.replace("PAIR", repr(pair)).replace("PTX", repr(ptx)).replace("HANG", repr(hang))
    assert run_installed(installed, "-c", code).splitlines()[-1] == "all"


# The whole of it takes minutes and is computed once, in test_recordings.
FIRST_OF_EACH = """
from wavesim.bench import published_cases
from wavesim.bench import recorded_cases
from wavesim.predict.score_history import committed_scores
found = [
    jobs()[0]()
    for jobs in (
        recorded_cases.recorded_jobs,
        published_cases.published_jobs,
    )
]
print([len(members) for members in found], len(committed_scores()))
"""


def test_the_wheel_predicts_stored_measurements_of_every_kind_where_there_is_no_checkout(installed):
    where = run_installed(installed, "-c", "import wavesim; print(wavesim.__file__)").strip()
    assert Path(where).is_relative_to(installed)
    counts, scores = run_installed(installed, "-c", FIRST_OF_EACH).rsplit(maxsplit=1)
    assert all(json.loads(counts))
    assert len(json.loads(counts)) == 2
    assert int(scores) > 0


def test_the_wheels_validate_says_that_it_needs_a_checkout(installed):
    command = "from wavesim.cli.command_line import main; print(main(['validate']))"
    assert run_installed(installed, "-c", command).strip() == "2"


def test_the_wheel_announces_its_command_its_gpu_runner_and_its_compiler(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith("entry_points.txt"))
        text = archive.read(name).decode()
    assert "wavesim = wavesim.__main__:main" in text
    assert "cupy = wavesim_gpu.runner:CupyRunner" in text
    assert "nvrtc = wavesim_gpu.driver.user_sources:compile_user_source" in text


def test_a_script_beside_a_clone_called_wavesim_finds_the_package_and_not_the_folder(tmp_path):
    if not Path(sysconfig.get_path("purelib"), "wavesim.pth").exists():
        pytest.skip("not an environment of make setup, or one from before it wrote wavesim.pth")
    (tmp_path / "wavesim").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", "from wavesim import simulate; import wavesim_gpu"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["binder/postBuild", "binder/start", ".ci/run"])
def test_scripts_that_are_run_by_name_are_executable(name):
    assert os.access(ROOT / name, os.X_OK)


def test_the_version_is_the_same_everywhere():
    assert wavesim.__version__ == PROJECT["version"]


def test_the_recordings_stay_small():
    found = (ROOT / "wavesim" / "recordings").rglob("*")
    sizes = [path.stat().st_size for path in found if path.name.endswith((".npz", ".npz.xz"))]
    assert sum(sizes) < MAX_RECORDINGS_BYTES


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_are_committed_without_outputs_or_widget_state(path):
    notebook = nbformat.read(path, as_version=4)
    assert "widgets" not in notebook.metadata
    for cell in notebook.cells:
        if cell.cell_type == "code":
            assert not cell.outputs
            assert cell.execution_count is None
