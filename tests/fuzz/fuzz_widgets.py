"""Messages from a page to the widgets: any trait that the page may set, to any JSON value."""

import functools
import json
import random
import traceback
from pathlib import Path
from typing import Any

from harness import Target
from judging import require
from mutations import HOSTILE, with_values_changed

MOST_MESSAGES = 12


def made(chance: random.Random, data: bytes) -> bytes:
    """Other messages: widgets by number, traits by number or name."""
    try:
        messages = json.loads(data)
    except ValueError:
        messages = []
    if chance.random() < 0.7:
        value = chance.choice((*HOSTILE, 0, 1, 2, 3))
        message = [chance.randrange(80), chance.choice(["index", "value", "step", "chosen", 0, 1]), value]
        messages = [*(messages if isinstance(messages, list) else []), message]
    return json.dumps(with_values_changed(chance, messages)).encode("utf-8", errors="surrogatepass")


@functools.cache
def _widgets() -> tuple[Any, ...]:
    """One of each of ours, and the controls in it."""
    from wavesim.model import device as devices
    from wavesim.plan.plan import SemaphoreSync
    from wavesim.profile.advice import advise
    from wavesim.profile.profile_file import EXAMPLE, load_profile
    from wavesim.widgets.advice_browser import AdviceBrowser
    from wavesim.widgets.dependency_explorer import DependencyExplorer
    from wavesim.widgets.sm_explorers import OccupancyExplorer
    from wavesim.widgets.tuner_view import TunerView
    from wavesim.widgets.wave_player import WavePlayer
    from wavesim.widgets.what_if import WhatIf
    from wavesim.workloads.figure_one import toy

    widgets: list[Any] = []
    waiting: list[Any] = [
        *(WhatIf(), OccupancyExplorer(), TunerView.recorded(), DependencyExplorer(toy())),
        *(
            WavePlayer(toy(), SemaphoreSync(), devices.load("toy")),
            AdviceBrowser(advise(load_profile(EXAMPLE))),
        ),
    ]
    while waiting:
        widget = waiting.pop(0)
        widgets.append(widget)
        waiting += [child for child in getattr(widget, "children", ()) if child not in widgets]
    return tuple(widgets)


def call(path: Path) -> bool:
    """Sends the messages. A trait may refuse them, no code of ours fails. Returns whether all passed."""
    from traitlets import TraitError

    try:
        messages = json.loads(path.read_bytes())
    except ValueError:
        return False
    passed = True
    for message in messages[:MOST_MESSAGES] if isinstance(messages, list) else []:
        if not isinstance(message, list) or len(message) != 3 or not isinstance(message[0], int):
            continue
        number, trait, value = message
        widget = _widgets()[number % len(_widgets())]
        synced = sorted(name for name in widget.keys if not name.startswith("_"))
        name = synced[trait % len(synced)] if isinstance(trait, int) else trait
        try:
            widget.set_state({name: value} if isinstance(name, str) else {})
        except TraitError:
            passed = False
        except Exception as error:
            ours = [
                frame for frame in traceback.extract_tb(error.__traceback__) if "/wavesim/" in frame.filename
            ]
            if ours:
                raise
            passed = False
    for widget in _widgets():
        if hasattr(widget, "html"):
            require("<script>alert" not in widget.html(), "a message is a script in the page")
    return passed


TARGET = Target(made, call, needs=("ipywidgets", "anywidget", "plotly"))
