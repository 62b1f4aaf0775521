"""One Chromium for all test modules of a process, which each of them joins and leaves.

Playwright's event loop cannot outlive a module, as other tests' loops do not run beside it; a browser that
it starts ends with it. So the browser is a process of its own here, and `joined` is a module's connection.
Its cache and its open pages stay from one module to the next.

Example: `with running("chromium", folder) as address, joined(address) as browser: page = browser.new_page()`.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

START_S = 60
SIZE = {"width": 1440, "height": 1300}
# DNS that knows only this machine is also the test that nothing is fetched from outside.
NO_DNS = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
# Of these, the first four keep pages that are not in front as quick as the one that is; the rest is
# headless Chromium without news, questions, services or a sandbox, which root cannot have.
FLAGS = (
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-ipc-flooding-protection",
    "--headless",
    "--hide-scrollbars",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-back-forward-cache",
    "--disable-breakpad",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-field-trial-config",
    "--disable-features=DestroyProfileOnBrowserClose,HttpsUpgrades,MediaRouter,OptimizationHints,Translate",
    "--disable-search-engine-choice-screen",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--metrics-recording-only",
    "--mute-audio",
    "--password-store=basic",
    "--remote-debugging-port=0",
)


@contextmanager
def running(chromium: str, folder: Path) -> Iterator[str]:
    """A browser with its profile in a folder; its address for `joined`. `TimeoutError` if it never starts."""
    profile, log = folder / "profile", folder / "chromium.log"
    profile.mkdir()
    command = [chromium, *FLAGS, NO_DNS, f"--user-data-dir={profile}", "about:blank"]
    with log.open("w") as said:
        browser = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        try:
            yield _address(browser, profile / "DevToolsActivePort", log)
        finally:
            os.killpg(browser.pid, signal.SIGTERM)
            browser.wait(timeout=30)


def _address(browser: "subprocess.Popen[bytes]", found: Path, log: Path) -> str:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and browser.poll() is None:
        # Two lines, the port and a path; the file is there before they are.
        if found.exists() and len(lines := found.read_text().split()) == 2:
            return f"ws://127.0.0.1:{lines[0]}{lines[1]}"
        time.sleep(0.05)
    raise TimeoutError(f"Chromium did not start:\n{log.read_text()[-2000:]}")


@contextmanager
def joined(address: str, patience_ms: int) -> Iterator[Any]:
    """The browser's one context, with what pages of earlier modules are still open."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.connect_over_cdp(address)
        (context,) = browser.contexts
        context.set_default_timeout(patience_ms)
        yield context
        browser.close()  # the connection: the process stays
