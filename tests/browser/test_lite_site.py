"""The site of `make lite` in Chromium, with no network and no server but a static one.

Example: the first notebook runs in the page itself, from cold start to slider, and the simulator's makespans
there are those of this Python. `make test` builds the site beside its other tests and runs this one alone,
last; `make lite-test` runs every other notebook too, on all cores.
"""

import contextlib
import fcntl
import io
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from slider_speed import WATCH, one_move, slowdown

ROOT = Path(__file__).parents[2]
LITE = ROOT / "build" / "lite"
FIRST, *OTHERS = (ROOT / "lite" / "notebooks.txt").read_text(encoding="utf-8").split()
LONGEST = "08_cusyncgen.ipynb"  # goes first, so that no process is left alone with it in the end
# A move simulates twice, each until memory and clock have settled: 170 ms on a quiet machine; the aim is 150.
COLD_S, MOVE_MS = 15, 300
UNREACHED = ("NewConnectionError", "Failed to establish", "Name or service", "ENOTFOUND", "EAI_AGAIN")
ASK = """async code => {
  const kernel = window.jupyterapp.shell.currentWidget.context.sessionContext.session.kernel;
  const asked = kernel.requestExecute({ code });
  let said = '';
  asked.onIOPub = message => { said += message.content.text ?? message.content.evalue ?? ''; };
  await asked.done;
  return said;
}"""
FORGET = """async () => {
  localStorage.clear();
  for (const { name } of await indexedDB.databases())
    await new Promise(done => { indexedDB.deleteDatabase(name).onsuccess = done; });
}"""
MAKESPANS = """
from wavesim import RowSync, SemaphoreSync, StreamSync, TileSync, device, gpt3_mlp, simulate
from wavesim.predict.defaults import default_costs

def makespans():
    h200, found = device("h200"), []
    for tokens in (768, 1024):
        mlp = gpt3_mlp(tokens)
        costs, _ = default_costs(mlp, h200)
        for plan in (StreamSync(), SemaphoreSync(RowSync()), SemaphoreSync(TileSync())):
            found.append(simulate(mlp, plan, h200, costs).makespan_ns)
    return found

print(makespans())
"""
SOLVED = """
from wavesim.teaching import check
print([check(number, answer).is_right for number, answer in ANSWERS.items()])
"""


pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.filterwarnings("default")]


class Site:
    """The built site behind a static server."""

    def __init__(self, folder, port):
        self.folder, self.port = folder, port

    def url(self, name):
        return f"http://127.0.0.1:{self.port}/lab/index.html?path={name}"

    def forget(self, page):
        """Clears what earlier pages stored, so that a notebook is opened as by its first reader.

        JupyterLab puts back what was open while the next notebook opens. A notebook that leaves the page in
        the frame after its cells changed has JupyterLab's own `contentVisibility` mode fail ("null (reading
        'observe')"), with or without widgets in it.
        """
        page.goto(f"http://127.0.0.1:{self.port}/jupyter-lite.json")
        page.evaluate(FORGET)


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(chromium, request, testrun_uid):
    """The site, built by whichever process of a run comes first: the others wait, and use what it built."""
    for command in ("make", "npm"):
        if shutil.which(command) is None:
            pytest.skip(f"no {command}, with which the site is built")
    run = request.config.getoption("testrunuid") or testrun_uid
    LITE.mkdir(parents=True, exist_ok=True)
    built_by = LITE / "built-by"
    with (LITE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built_by.exists() or built_by.read_text() != run:
            built_by.unlink(missing_ok=True)
            build()
            built_by.write_text(run)
    folder = LITE / "site"
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield Site(folder, server.server_address[1])
        server.shutdown()


def build():
    """Runs `make lite`; skips the test where packages cannot be reached."""
    command = ["make", "lite", f"PYTHON={sys.executable}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if any(words in done.stdout + done.stderr for words in UNREACHED):
        pytest.skip("no package registry can be reached, from which the site is built")
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"/lab/index.html?path={FIRST}" in done.stdout


@pytest.fixture
def visit(first_visit):
    """Of a page that no JupyterLab is in yet."""
    return first_visit


def run_every_cell(site, visit, name):
    """Opens a notebook of the site, runs it whole and returns the seconds until Python answered."""
    site.forget(visit.page)
    began = time.monotonic()
    visit.open(site, name)
    assert visit.page.evaluate(ASK, "print(6 * 7)").strip() == "42"
    seconds = time.monotonic() - began
    assert visit.run_all() == []
    assert visit.console_errors == []
    assert visit.outside == []
    return seconds


def solved(visit, name):
    """Whether the page's graders take the notebook's solutions."""
    answers = (ROOT / "solutions" / f"s{name.removesuffix('.ipynb')}.py").read_text(encoding="utf-8")
    return visit.page.evaluate(ASK, f"{answers}\n{SOLVED}").strip()


@pytest.mark.alone
@pytest.mark.lite
def test_the_first_notebook_runs_without_network_as_it_does_with_numpy(site, visit, capsys):
    """Times hold on a quiet machine as they stand, and as many times longer where others take the cores."""
    busy = slowdown()
    cold_s = run_every_cell(site, visit, FIRST)
    busy = max(1.0, (busy + slowdown()) / 2)
    assert visit.page.evaluate("() => typeof SharedArrayBuffer") == "undefined"
    visit.show("plays=True")
    visit.page.wait_for_function("() => Number(document.querySelector('.wavesim-player')?.dataset.step) > 0")
    visit.show("timeline([stream, tile]")
    # Nobody has committed to a prediction of it: it is folded until it is opened.
    visit.page.locator(".jp-mod-active .wavesim-veil summary").click()
    visit.page.wait_for_selector(".jp-mod-active .jp-RenderedHTML canvas[data-drawn] >> visible=true")
    assert solved(visit, FIRST) == "[True, True, True]"
    with contextlib.redirect_stdout(io.StringIO()) as here:
        exec(MAKESPANS, {})  # noqa: S102  # our own words, here and in the page
    assert visit.page.evaluate(ASK, MAKESPANS).strip() == here.getvalue().strip()
    lacking = visit.page.evaluate(ASK, "import numpy\nnumpy.fft")
    assert "numpy.fft is not in this page" in lacking
    assert "run the notebook with wavesim installed" in lacking

    visit.show("WhatIf(")
    visit.page.wait_for_selector(".wavesim .noUi-handle[aria-label]")
    for tokens in ("896", "768", "640"):
        visit.move("Tokens (rows)", "ArrowLeft", tokens)
        visit.await_label(f"{tokens} tokens", ".wavesim")
    visit.page.evaluate(WATCH)
    move_ms, tiles = one_move(visit, "ArrowLeft")
    with capsys.disabled():  # the figures are what this test is for
        sys.stdout.write(
            f"\nJupyterLite: start {cold_s:.1f} s (limit {COLD_S} s), slider to redraw {move_ms:.0f} ms"
            f" at {tiles} tiles (limit {MOVE_MS} ms); computing takes {busy:.2f} times as long here\n"
        )
    assert cold_s / busy < COLD_S
    assert tiles == 576
    assert move_ms / busy < MOVE_MS


@pytest.mark.lite
@pytest.mark.parametrize("name", sorted(OTHERS, key=lambda name: name != LONGEST))
def test_a_notebook_of_the_site_runs_whole_and_takes_its_solutions(site, visit, name):
    visit.page.set_default_timeout(300_000)
    run_every_cell(site, visit, name)
    assert set(solved(visit, name).strip("[]").split(", ")) <= {"True"}


def test_a_browser_that_stores_nothing_says_so_in_a_sentence(site, visit):
    forbid = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })"
    visit.page.add_init_script(forbid)
    visit.page.goto(site.url(FIRST))
    said = visit.page.get_by_role("alert").text_content()
    assert "store nothing" in said
    assert "WebAssembly" not in said
