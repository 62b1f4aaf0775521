"""A JupyterLab of its own and a Chromium that reaches nothing else, for the browser tests.

What keeps these tests steady, each learnt from a failure: Lab is driven through its application object
and not its menus; the kernel's websocket is awaited before anything runs; sliders are moved by keyboard;
assertions wait for a text or a count, never for pixels or a time to pass. What keeps them quick: one server
and one browser for all modules, one page in which JupyterLab stays loaded while tests open and close their
notebooks in it, and no kernel that outlives its test.
"""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import nbformat
import pytest
from shared_chromium import SIZE, joined, running

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"
READY = """async () => {
  const app = window.jupyterapp;
  await app.restored;
  await app.serviceManager.ready;
  const notebook = app.shell.currentWidget, session = notebook.context.sessionContext;
  await notebook.context.ready; await notebook.revealed; await session.ready;
  const kernel = session.session.kernel;
  await kernel.info;
  while (kernel.connectionStatus !== 'connected') await new Promise(done => setTimeout(done, 50));
}"""
RUN_ALL = "async () => window.jupyterapp.commands.execute('notebook:run-all-cells')"
SHOW_CELL = """async words => {
  const notebook = window.jupyterapp.shell.currentWidget.content;
  const holds = cell => cell.model.sharedModel.source.includes(words);
  notebook.activeCellIndex = notebook.widgets.findIndex(holds);
  await notebook.scrollToItem(notebook.activeCellIndex, 'start');
}"""
OUTPUT_ERRORS = """() => window.jupyterapp.shell.currentWidget.content.widgets
  .filter(cell => cell.model.type === 'code').flatMap(cell => cell.model.outputs.toJSON())
  .filter(output => output.output_type === 'error').map(output => output.evalue)"""
OPEN = """async path => {
  await window.jupyterapp.commands.execute('docmanager:open', { path, factory: 'Notebook' });
}"""
# Closes what is open without a question, and ends its kernels.
LEAVE = """async () => {
  const app = window.jupyterapp;
  if (!app) return;
  for (const one of [...app.shell.widgets('main')]) one.dispose();
  await app.serviceManager.sessions.shutdownAll();
}"""
PATIENCE_MS = 60_000
# JupyterLab's own words about itself; none of them is about a notebook or a widget.
HARMLESS_CONSOLE = ("ResizeObserver loop", "favicon", "Failed to load resource")
# anywidget's words after two seconds on a busy machine; a test makes sure that our pictures hear even so.
GIVEN_UP = "[anywidget] Failed to initialize model."


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Lab:
    """A running JupyterLab: where its notebooks are and how to reach it."""

    root: Path
    port: int
    token: str

    def url(self, name: str) -> str:
        return f"http://127.0.0.1:{self.port}/lab/tree/{name}?token={self.token}&reset"

    def write(self, name: str, source: str) -> str:
        """A notebook with one cell; returns its name."""
        notebook = nbformat.v4.new_notebook()
        notebook.cells = [nbformat.v4.new_code_cell(source)]
        notebook.metadata["kernelspec"] = {
            "name": "python3",
            "display_name": "Python 3",
            "language": "python",
        }
        nbformat.write(notebook, self.root / name)
        return name


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory, chromium: str) -> Iterator[Lab]:
    """JupyterLab with nothing of the user's configuration, serving copies of the notebooks."""
    base = tmp_path_factory.mktemp("lab")
    root = base / "notebooks"
    shutil.copytree(NOTEBOOKS, root, ignore=shutil.ignore_patterns(".*"))
    lab = Lab(root, free_port(), secrets.token_hex(8))
    command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--ip=127.0.0.1", f"--port={lab.port}"]
    command += ["--ServerApp.port_retries=0", f"--IdentityProvider.token={lab.token}", "--allow-root"]
    command += [f"--ServerApp.root_dir={root}", "--LabApp.expose_app_in_browser=True"]
    with (base / "log").open("w") as log:
        server = subprocess.Popen(
            command, cwd=base, env=_environment(base), stdout=log, stderr=log, start_new_session=True
        )
        try:
            _await_port(lab.port, server, base / "log")
            yield lab
        finally:
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(timeout=30)


def _environment(base: Path) -> dict[str, str]:
    config = base / "config" / "labconfig"
    config.mkdir(parents=True)
    # Neither news nor, at every load, half a second of whether JupyterLab itself should be built again.
    quiet = {
        "disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True},
        "buildCheck": False,
    }
    (config / "page_config.json").write_text(json.dumps(quiet))
    folders = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
        "IPYTHONDIR": "ipython",
    }
    # A kernel reads what an earlier one compiled, where this process has been told to keep nothing too.
    ours = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**ours, **{name: str(base / folder) for name, folder in folders.items()}}


def _await_port(port: int, server: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    pytest.fail(f"JupyterLab did not start:\n{log.read_text()[-2000:]}")


@dataclass
class Visit:
    """A notebook open in Chromium, and what went wrong in the page so far."""

    page: Any
    console_errors: list[str] = field(default_factory=list)
    outside: list[str] = field(default_factory=list)
    given_up: int = 0  # how often anywidget has given up on a model

    def open(self, lab: Lab, name: str) -> None:
        """Opens a notebook, in the JupyterLab that is in the page or else in a new one."""
        if self.page.evaluate("() => 'jupyterapp' in window"):
            self.page.evaluate(OPEN, name)
        else:
            self.page.goto(lab.url(name))
        self._await_notebook(name)

    def reload(self, lab: Lab, name: str) -> None:
        """Loads JupyterLab again, without what it noted as open in tests before."""
        self.page.goto(lab.url(name))
        self._await_notebook(name)

    def _await_notebook(self, name: str) -> None:
        is_open = "name => window.jupyterapp?.shell?.currentWidget?.context?.path === name"
        self.page.wait_for_function(is_open, arg=name)
        self.page.evaluate(READY)

    def save_and_reload(self, lab: Lab, name: str) -> None:
        self.page.evaluate("async () => window.jupyterapp.commands.execute('docmanager:save')")
        self.reload(lab, name)

    def show(self, source: str) -> None:
        """Scrolls to the first cell that holds these words; JupyterLab draws only what is near the screen."""
        self.page.evaluate(SHOW_CELL, source)

    def slider(self, label: str) -> Any:
        """The slider with that label, as a keyboard user and a screen reader find it."""
        return self.page.get_by_role("slider", name=label)

    def move(self, label: str, key: str, value: str) -> None:
        """Presses a key on a slider and waits until it reads a value."""
        self.slider(label).press(key)
        said = "([label, value]) => document.querySelector(`[aria-label='${label}']`).ariaValueText === value"
        self.page.wait_for_function(said, arg=[label, value])

    def picture(self, inside: str = "") -> Any:
        """The first canvas in an element; its label says what is seen."""
        return self.page.locator(f"{inside} .wavesim-drawn canvas").first

    def pixels(self, inside: str = "") -> str:
        """What the canvas shows, to be compared."""
        return str(self.picture(inside).evaluate("canvas => canvas.toDataURL()"))

    def await_label(self, words: str, inside: str = "") -> None:
        """Until the label of the first canvas holds the words."""
        found = "([path, words]) => document.querySelector(path)?.getAttribute('aria-label')?.includes(words)"
        self.page.wait_for_function(found, arg=[f"{inside} .wavesim-drawn canvas".strip(), words])

    def run_all(self) -> list[str]:
        """Runs every cell; the errors among their outputs."""
        self.page.evaluate(RUN_ALL)
        return list(self.page.evaluate(OUTPUT_ERRORS))

    def watch(self) -> Iterator["Visit"]:
        """Notes what goes wrong in the page while a test has it."""
        handlers = {
            "console": lambda message: _note_console(self, message),
            "pageerror": lambda error: _note_error(self, str(error)),
            "request": lambda request: _note_request(self, request.url),
        }
        for event, handler in handlers.items():
            self.page.on(event, handler)
        yield self
        self.page.evaluate(LEAVE)
        for event, handler in handlers.items():
            self.page.remove_listener(event, handler)


@pytest.fixture(scope="session")
def chromium_address(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a browser that cannot resolve any name and whose cache and pages serve all modules."""
    with running(chromium, tmp_path_factory.mktemp("browser")) as address:
        yield address


# Not for the session: other tests' event loops cannot run beside Playwright's.
@pytest.fixture(scope="module")
def browser(chromium_address: str) -> Iterator[Any]:
    """The browser, for a module."""
    with joined(chromium_address, PATIENCE_MS) as context:
        yield context


@pytest.fixture
def visit(browser: Any, lab: Lab) -> Iterator[Visit]:
    """The page of JupyterLab, with nothing open in it."""
    pages = [page for page in browser.pages if page.url.startswith(f"http://127.0.0.1:{lab.port}/lab")]
    page = pages[0] if pages else browser.new_page()
    page.set_viewport_size(SIZE)
    yield from Visit(page).watch()


@pytest.fixture
def first_visit(browser: Any) -> Iterator[Visit]:
    """A page of its own, which nothing has been loaded into."""
    page = browser.new_page()
    page.set_viewport_size(SIZE)
    yield from Visit(page).watch()
    page.close()


def _note_console(visit: Visit, message: Any) -> None:
    if message.type == "error" and not any(words in message.text for words in HARMLESS_CONSOLE):
        _note_error(visit, message.text)


def _note_error(visit: Visit, text: str) -> None:
    if GIVEN_UP in text:
        visit.given_up += 1
    else:
        visit.console_errors.append(text)


def _note_request(visit: Visit, url: str) -> None:
    if not url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")):
        visit.outside.append(url)
