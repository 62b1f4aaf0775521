"""What mybinder.org would do, without Docker: the Dockerfile is rendered and the install emulated.

Picture: the files that git knows are copied to a fresh folder, a fresh environment gets
binder/requirements.txt and binder/postBuild, and the first notebook runs there. Both tests need a package
index; without one they skip.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
REPO2DOCKER = "jupyter-repo2docker==2026.4.0"
# Compiling every module of every package would take half of the time, and few are imported.
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")
UNREACHABLE = ("No matching distribution", "NewConnectionError", "Failed to establish", "Name or service")


def run(*command: Any, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )


def environment(folder: Path, *requirements: str, without: tuple[str, ...] = ()) -> Path:
    """A fresh environment's bin folder with the requirements installed; skips where there is no index."""
    assert run(sys.executable, "-m", "venv", *without, folder).returncode == 0
    done = run(
        sys.executable, *PIP, "--python", folder / "bin" / "python", "install", "--no-compile", *requirements
    )
    if done.returncode and any(words in done.stderr for words in UNREACHABLE):
        pytest.skip(f"no package index can be reached: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return folder / "bin"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that git knows or would add, as binder would clone them."""
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    if listed.returncode:
        pytest.skip("not a git checkout")
    folder = tmp_path_factory.mktemp("clone")
    for name in listed.stdout.splitlines():
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    return folder


@pytest.mark.installs
def test_repo2docker_renders_a_dockerfile_with_our_pins_and_scripts(checkout, tmp_path):
    tools = environment(tmp_path / "r2d", REPO2DOCKER, without=("--without-pip",))
    done = run(tools / "jupyter-repo2docker", "--no-build", "--debug", checkout)
    assert done.returncode == 0, done.stderr[-2000:]
    dockerfile = done.stdout + done.stderr
    for words in ("binder/requirements.txt", "./binder/postBuild", "R2D_ENTRYPOINT", "binder/start", "3.11"):
        assert words in dockerfile, words
    assert "Dockerfile" not in {path.name for path in checkout.iterdir()}


@pytest.mark.installs
def test_what_binder_installs_runs_the_first_notebook(checkout, tmp_path):
    tools = environment(tmp_path / "env", "-r", str(checkout / "binder" / "requirements.txt"))
    inside = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    inside.pop("PYTHONPATH", None)
    built = run(checkout / "binder" / "postBuild", cwd=checkout, env=inside)
    assert built.returncode == 0, built.stderr
    started = run(checkout / "binder" / "start", "jupyter", "lab", "--version", cwd=checkout, env=inside)
    assert started.stdout.startswith("4.6."), started.stderr
    first = checkout / "notebooks" / "01_start_here.ipynb"
    convert = ("jupyter", "nbconvert", "--execute", "--to", "html", "--output-dir", tmp_path, first)
    shown = run(*convert, cwd=tmp_path, env={**inside, "JUPYTER_DATA_DIR": str(tmp_path / "data")})
    assert shown.returncode == 0, shown.stderr[-2000:]
    assert (tmp_path / "01_start_here.html").stat().st_size > 100_000


def test_pages_name_the_command_and_no_repository_that_may_not_be_there():
    readme, zero_install = (
        (ROOT / name).read_text("utf-8") for name in ("README.md", "docs/zero-install.md")
    )
    assert "mybinder.org/v2/gh" not in readme + zero_install
    assert "`make binder`" in zero_install


@pytest.mark.parametrize("remote", ["https://github.com/who/what.ever.git", "git@github.com:who/what.ever"])
def test_make_binder_prints_the_link_of_the_checkouts_own_repository(remote, tmp_path):
    run("git", "init", tmp_path)
    command = ("make", "-s", "-f", ROOT / "Makefile", "binder")
    nowhere = run(*command, cwd=tmp_path)
    assert nowhere.returncode != 0
    assert "Binder needs a public one" in nowhere.stderr
    run("git", "remote", "add", "origin", remote, cwd=tmp_path)
    link = run(*command, cwd=tmp_path).stdout.strip()
    found = re.fullmatch(r"https://mybinder\.org/v2/gh/who/what\.ever/HEAD\?urlpath=lab/tree/(.+)", link)
    assert found is not None, link
    assert (ROOT / found[1]).is_file()
