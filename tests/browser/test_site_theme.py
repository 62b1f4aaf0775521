"""The documentation's menu for light and dark, where storage is allowed and where it is not; its search."""

import logging
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parents[2]
MODE = "() => document.documentElement.dataset.bsTheme"
FORBID = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('denied'); } })"
PAGES = {
    "index.md": "# Waves\n\n`code`\n",
    "api/model.md": "# deadlock\n\ndeadlock_error deadlock deadlock deadlock\n",
    "why-hang.md": "# Debug a hang\n\nWhat a deadlock is, in a paragraph among others.\n",
}


class Quiet(SimpleHTTPRequestHandler):
    """Serves files and says nothing."""

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of three pages with the real site's settings."""
    sys.path.insert(0, str(ROOT / "tools"))
    from build_site import weigh_search

    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    for name, text in {**PAGES, "site.css": "", "highlight.css": ""}.items():
        (source / name).parent.mkdir(exist_ok=True)
        (source / name).write_text(text)
    logging.getLogger("mkdocs").setLevel(logging.ERROR)
    folders = {"docs_dir": str(source), "site_dir": str(out)}
    build(load_config(str(ROOT / "mkdocs.yml"), nav=[*PAGES], plugins=["search"], **folders))
    weigh_search(out)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=out)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/index.html"
        server.shutdown()


@pytest.mark.parametrize("stores", [True, False])
def test_the_menu_switches_the_theme_without_an_exception(site, first_visit, stores):
    page = first_visit.page
    if not stores:
        page.add_init_script(FORBID)
    page.goto(site)
    for theme in ("dark", "light", "dark"):
        page.locator("#theme-menu").click()
        page.locator(f"[data-bs-theme-value={theme}]").click()
        assert page.evaluate(MODE) == theme
    assert first_visit.console_errors == []


def test_what_is_wider_than_the_screen_or_hard_to_read_is_named_once(first_visit, tmp_path):
    sys.path.insert(0, str(ROOT / "tools"))
    from check_look import faults_of

    address = tmp_path / "page.html"
    address.write_text(
        "<p style='color:#999'>grey on white</p><p>black</p><div style='width:800px'>wide</div>"
        "<h1 style='color:#888'>large letters may be paler</h1>"
    )
    faults = list(faults_of(first_visit.page, address.as_uri()))
    assert [fault.partition(" px ")[2] for fault in faults if "wider" in fault] == ["wider than 390"]
    assert [fault for fault in faults if "contrast" in fault] == [
        f"grey on white: contrast 2.8 ({theme})" for theme in ("light", "dark")
    ]


def test_a_search_puts_the_guide_before_the_api(site, first_visit):
    page = first_visit.page
    page.goto(site)
    page.locator("[data-bs-target='#mkdocs_search_modal']").first.click()
    page.locator("#mkdocs-search-query").press_sequentially("deadlock")
    page.wait_for_selector("#mkdocs-search-results a")
    found = page.locator("#mkdocs-search-results a").evaluate_all("links => links.map(link => link.pathname)")
    assert found[0] == "/why-hang.html"
    assert "/api/model.html" in found
