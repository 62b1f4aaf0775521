"""Every install is made of pinned files: whatever a package needs on any system is named, with hashes.

Picture: from what pyproject.toml asks for, go along the needs that installed packages declare of themselves,
for every Python and system. Each must be in the file of that install, at a version that fits.
"""

import importlib.metadata
import itertools
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT, BUILD = PYPROJECT["project"], PYPROJECT["build-system"]["requires"]
EXTRAS = PROJECT["optional-dependencies"]
SYSTEMS = [
    {"sys_platform": "linux", "platform_system": "Linux", "os_name": "posix"},
    {"sys_platform": "darwin", "platform_system": "Darwin", "os_name": "posix"},
    {"sys_platform": "win32", "platform_system": "Windows", "os_name": "nt"},
]
ENVIRONMENTS = [
    {**default_environment(), **system, "python_version": python, "python_full_version": f"{python}.5"}
    for system, python in itertools.product(SYSTEMS, ("3.11", "3.12", "3.13"))
]
IN_A_BROWSER = {
    **default_environment(),
    "sys_platform": "emscripten",
    "platform_system": "Emscripten",
    "os_name": "posix",
    "python_version": "3.14",
    "python_full_version": "3.14.2",
}
GROUPS = PYPROJECT["dependency-groups"]
DEMO = ["numpy", "simpy", "plotly", "ijson"]
ROOTS = {
    "requirements/dev.txt": [
        *PROJECT["dependencies"],
        *EXTRAS["dev"],
        *EXTRAS["lab"],
        *EXTRAS["nvrtc"],
        *EXTRAS["docs"],
        *BUILD,
    ],
    "requirements/demo.txt": [*DEMO, *BUILD],
    "requirements/gpu.txt": [*EXTRAS["gpu"], *EXTRAS["nvrtc"]],
    "requirements/lock.txt": ["uv"],
    "requirements/lite.txt": GROUPS["lite"],
    "requirements/browser.txt": GROUPS["browser"],
    "binder/requirements.txt": [*PROJECT["dependencies"], *EXTRAS["lab"], *BUILD],
}


def module(name):
    """A script of requirements/, which is no package."""
    sys.path.insert(0, str(ROOT / "requirements"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


PINS = {file: module("pins").pins_of(ROOT / file) for file in ROOTS}


def environments_of(requirement, among):
    """Those in which it is needed. Extras are taken as asked for by name."""
    marker = requirement.marker
    return [one for one in among if marker is None or marker.evaluate(one)]


def needs(file):
    """Everything that is needed by what is needed, each with the extras asked for and where that is."""
    everywhere = [IN_A_BROWSER] if file == "requirements/browser.txt" else ENVIRONMENTS
    queue, seen = [(Requirement(line), everywhere) for line in ROOTS[file]], set()
    while queue:
        requirement, among = queue.pop()
        name, where = canonicalize_name(requirement.name), environments_of(requirement, among)
        if name == PROJECT["name"] or not where:
            continue
        yield name, requirement, where
        extras = requirement.extras or {""}
        key = name, frozenset(extras), len(where)
        if key in seen:
            continue
        seen.add(key)
        try:
            declared = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system; the resolver has followed it
        with_extras = [{**one, "extra": extra} for one in where for extra in extras]
        queue += [(Requirement(line), with_extras) for line in declared]


@pytest.mark.parametrize("file", ROOTS)
def test_whatever_an_install_needs_on_any_system_is_pinned_at_a_version_that_fits(file):
    for name, requirement, where in needs(file):
        assert name in PINS[file], f"{file}: {requirement} is not pinned; run make lock"
        pin = PINS[file][name]
        assert requirement.specifier.contains(pin.version), f"{file}: {requirement}, not {pin.version}"
        marker = Requirement(f"{name} ; {pin.marker}").marker if pin.marker else None
        assert all(marker is None or marker.evaluate(one) for one in where), f"{file}: {name} ; {pin.marker}"


def test_every_package_that_is_installed_is_pinned_as_it_is():
    """But for what an environment begins with, and what a developer or a GPU's machine adds."""
    pins = module("pins").all_pins()
    versions = {
        canonicalize_name(one.metadata["Name"]): one.version for one in importlib.metadata.distributions()
    }
    needed = {name for name, _, _ in needs("requirements/dev.txt")}
    assert {name for name in needed if name in versions and versions[name] != pins[name].version} == set()


def test_the_files_agree_on_versions_and_hashes():
    for first, second in itertools.combinations(PINS.values(), 2):
        for name in first.keys() & second.keys():
            assert (first[name].version, first[name].hashes) == (second[name].version, second[name].hashes)


@pytest.mark.parametrize(
    "line",
    ["numpy>=2", "numpy==2.4.6", "numpy", "-r other.txt", "numpy @ file:///x --hash=sha256:" + "0" * 64],
)
def test_a_line_without_version_and_hashes_is_refused(line, tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text(line + "\n")
    with pytest.raises(ValueError, match="no pinned package with hashes"):
        module("pins").pins_of(path)


@pytest.mark.parametrize("target", ["setup", "demo", "lite"])
def test_make_installs_nothing_but_pinned_files(target):
    done = subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True
    )
    installs = [line for line in done.stdout.splitlines() if "pip install" in line]
    assert len(installs) == (1 if target == "lite" else 2)
    for line in installs:
        is_pinned = "--require-hashes" in line and "--only-binary :all:" in line
        assert is_pinned or "--no-build-isolation --no-deps --editable . && printf" in line


def test_binder_builds_the_project_from_what_is_pinned():
    script = (ROOT / "binder" / "postBuild").read_text(encoding="utf-8")
    assert "pip install --no-deps --no-build-isolation ." in script
    assert "setuptools" in PINS["binder/requirements.txt"]


@pytest.mark.installs
@pytest.mark.parametrize("file", ["requirements/demo.txt", "requirements/lock.txt"])
def test_pip_finds_all_it_needs_in_an_empty_environment_among_the_pinned_files(file, tmp_path):
    """With hashes required, pip stops at the first need that is not pinned; so does `make setup`."""
    env = tmp_path / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", env], check=True)
    command = [sys.executable, "-m", "pip", "--python", env / "bin" / "python", "install", "--dry-run"]
    command += ["--quiet", "--report", "-", "--require-hashes", "--only-binary", ":all:", "-r", ROOT / file]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": ""}
    )
    if any(
        words in done.stderr for words in ("NewConnectionError", "Failed to establish", "Name or service")
    ):
        pytest.skip("no package index can be reached")
    assert done.returncode == 0, done.stderr
    chosen = {canonicalize_name(one["metadata"]["name"]) for one in json.loads(done.stdout)["install"]}
    assert chosen == set(PINS[file])


def test_the_list_of_parts_and_the_licences_are_those_of_the_pins():
    parts, pins = module("parts"), module("pins").all_pins()
    bill = json.loads(parts.SBOM.read_text(encoding="utf-8"))
    assert bill["bomFormat"] == "CycloneDX"
    components = {one["name"]: one for one in bill["components"]}
    assert set(components) == set(pins)
    for name, one in components.items():
        assert one["version"] == pins[name].version, "run make lock"
        assert one["purl"] == f"pkg:pypi/{name}@{one['version']}"
        assert [entry["content"] for entry in one["hashes"]] == list(pins[name].hashes)
        assert one["licenses"][0]["license"]["name"], name
    page = parts.PAGE.read_text(encoding="utf-8")
    for name, one in components.items():
        assert f"| {name} | {one['version']} | {one['licenses'][0]['license']['name']} |" in page


def test_licences_are_those_that_installed_packages_declare_and_copyleft_is_flagged():
    parts = module("parts")
    bill = json.loads(parts.SBOM.read_text(encoding="utf-8"))
    copyleft = next(
        line for line in parts.PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("Copyleft:")
    )
    for one in bill["components"]:
        name, licence = one["name"], one["licenses"][0]["license"]["name"]
        try:
            assert parts.licence_of(name) == licence, f"{name}: run make lock"
        except importlib.metadata.PackageNotFoundError:
            continue  # of another Python
        assert (parts.kind_of(licence) == "copyleft") == (f"{name} (" in copyleft), name
    for licence, kind in [("MPL-2.0", "copyleft"), ("GPL-3.0-only", "copyleft"), ("LGPLv3+", "copyleft")]:
        assert parts.kind_of(licence) == kind
    assert parts.kind_of("LicenseRef-NVIDIA-Proprietary") == "proprietary"
    assert parts.kind_of("MIT") == "permissive"
