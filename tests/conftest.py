"""What every test module shares: reproducible random tests, and where a browser is needed, the browser.

This file is also loaded on a GPU machine that has neither simpy nor plotly, so it imports neither.
"""

import gc
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from wavesim.errors import DeviceError
from wavesim.lint import disassembler

# The same random pipelines in every run, so that a fresh machine passes or fails as the last one did.
# `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("reproducible", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", deadline=None, print_blob=True, max_examples=1000)
settings.load_profile("reproducible")

# `-m` expressions that take none but the tests of one marker.
ONLY = re.compile(r"(alone|browser)( and (?!.*\bor\b).*)?")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Whether no test of the file can have the marker asked for: to import them all takes 15 s of a core."""
    asked = ONLY.fullmatch(config.getoption("markexpr"))
    if asked is None or collection_path.suffix != ".py":
        return None
    return f"mark.{asked[1]}" not in collection_path.read_text(encoding="utf-8") or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no worker is left alone with one of them in the end."""
    items.sort(key=lambda item: not {"browser", "slow"} <= {mark.name for mark in item.iter_markers()})


# What a skipped test lacks, by words of its reason, and the line that adds it.
ADDS = {
    "no browser": "apt-get install chromium",
    "torch": ".venv/bin/pip install torch transformers",
    "transformers": ".venv/bin/pip install torch transformers",
    "triton": ".venv/bin/pip install triton",
    "cutlass": ".venv/bin/pip install nvidia-cutlass nvidia-cutlass-dsl",
    "distributed": ".venv/bin/pip install distributed",
    "g++": "apt-get install g++",
}


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Last of all: how many tests were skipped, for lack of what, and the line that adds it."""
    skipped = Counter(_addition(report) for report in terminalreporter.stats.get("skipped", ()))
    if not skipped:
        return
    terminalreporter.section("skipped, and how to run them")
    for line, count in skipped.most_common():
        terminalreporter.write_line(f"{count:4} {line}")


def _addition(report: pytest.TestReport) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    lines = (line for words, line in ADDS.items() if words in reason.lower())
    return next(lines, reason.removeprefix("Skipped: "))


CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Half a million objects come to stay: no garbage is looked for among them, neither now nor later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of an installed Chromium; skips the test where there is none."""
    for name in CHROMIUM_NAMES:
        if path := shutil.which(name):
            return path
    pytest.skip(f"no browser: install one of {', '.join(CHROMIUM_NAMES)} (Debian: apt-get install chromium)")


@pytest.fixture(scope="session")
def nvdisasm() -> str:
    """Path of NVIDIA's disassembler, from the CUDA toolkit or its wheel; skips where there is neither."""
    try:
        return disassembler.nvdisasm()
    except DeviceError as error:
        pytest.skip(str(error))


@pytest.fixture
def nvrtc():
    """Skips where CUDA's compiler is not installed; it needs no GPU."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="pip install 'wavesim[nvrtc]'")
    from wavesim.errors import CompileError
    from wavesim_gpu.driver import compiler

    try:
        compiler._nvrtc()
    except CompileError as error:
        pytest.skip(str(error))
