"""The page without a kernel: a what-if with sizes simulated ahead, and a simulator for the reader's own pair.

Example: `wavesim page` writes one file that opens from a disk or a static host with nothing installed. A
slider over tokens shows both plans at once, two plans race, a link restores what its sender saw. Without
JavaScript it is one picture and a sentence.
"""

import base64
import json
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from wavesim.safe_io.escaping import Markup, element, script_json
from wavesim.view.display import trace_html
from wavesim.view.page_shell import whole_page
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.scenario import Answer, Scenario, answer
from wavesim.widgets.scripts import PLANS_SCRIPTS, script, style
from wavesim.widgets.summary import improvement

HERE = Path(__file__).parent
SIZES = tuple(range(128, 4097, 128))
PLANS = {"row": "a semaphore per tile row", "tile": "a semaphore per tile"}
STILL_TOKENS = 1024
TITLE = "Will overlapping two dependent GPU kernels pay off?"
LEAD = (
    "On one stream the second kernel waits for all of the first, whose last wave leaves SMs idle. With "
    "semaphores, tiles of the second start as soon as the tiles they read are there. Move the slider; race "
    "the two."
)
LINKS = (
    ("index.html", "What wavesim is, and how far its predictions have differed from measurements"),
    ("quickstart.html", "Ten minutes: your own pair from a description to a prediction"),
    ("notebooks/index.html", "The notebooks, with every widget"),
    ("course/course.html", "A course in eight lessons"),
)
SAID = "Every number says what it was simulated with; nothing here was measured in your browser."


def kernelless_page(
    show: Callable[[int, int], None], *, puzzles: Markup | None = None, site: str = ""
) -> Markup:
    """The page. `show(done, total)` after each size; `site` is the address that links begin with."""
    data = _data(show)
    body = Markup((HERE / "open_page.html").read_text(encoding="utf-8")).format(
        plans=Markup("").join(element("option", words, value=word) for word, words in PLANS.items()),
        still=_still(),
        sentence=_sentence(),
        source=_source(),
        puzzles=puzzles or "",
        links=Markup("").join(element("li", element("a", words, href=f"{site}{to}")) for to, words in LINKS),
    )
    scripts = script(*PLANS_SCRIPTS, "pair_simulator.js", "open_page.js", is_page=True)
    return whole_page(
        TITLE,
        LEAD,
        body,
        styles=[style("drawn.css", "open_page.css")],
        scripts=[f"{{\nconst OPEN_DATA = {script_json(data)};\n{scripts}\n}}"],
        said=SAID,
    )


def _data(show: Callable[[int, int], None]) -> dict[str, Any]:
    """Heads and deflated panels by size and plan, gains by plan and size."""
    heads, panels = {}, {}
    gains: dict[str, list[float]] = {plan: [] for plan in PLANS}
    for done, tokens in enumerate(SIZES, start=1):
        for plan in PLANS:
            both = answer(Scenario(tokens=tokens, policy=plan))
            scene = scene_of_timeline(timeline_parts([both.stream, both.chosen]))
            panels[f"{tokens} stream"], panels[f"{tokens} {plan}"] = map(deflated, scene.pop("panels"))
            heads[f"{tokens} {plan}"] = scene
            gains[plan].append(round(improvement(both), 2))
        show(done, len(SIZES))
    return {"sizes": list(SIZES), "plans": list(PLANS), "heads": heads, "panels": panels, "gains": gains}


def deflated(panel: dict[str, Any]) -> str:
    """A panel: a JSON head, in which an array is {"at": [offset, length, type]}, then the arrays."""
    arrays: list[bytes] = []

    def placed(value: Any) -> Any:
        if isinstance(value, dict) and value.keys() == {"type", "data"}:
            raw = value["data"]
            arrays.append(raw)
            return {"at": [sum(map(len, arrays[:-1])), len(raw), value["type"]]}
        if isinstance(value, dict):
            return {name: placed(entry) for name, entry in value.items()}
        return value

    head = json.dumps(placed(panel), separators=(",", ":"), ensure_ascii=False).encode()
    whole = len(head).to_bytes(4, "little") + head + b"".join(arrays)
    return base64.b64encode(zlib.compress(whole, 9)).decode()


def _shown_first() -> Answer:
    return answer(Scenario(tokens=STILL_TOKENS))


def _still() -> Markup:
    """What is seen without JavaScript."""
    both = _shown_first()
    return Markup("").join(Markup(trace_html(trace)) for trace in (both.stream, both.chosen))


def _sentence() -> str:
    """What that picture shows."""
    both = _shown_first()
    first, sms = both.scenario.pipeline.stages[0], both.scenario.sm_count
    return (
        f"GPT-3's MLP at {STILL_TOKENS:,} tokens on {sms} SMs, simulated. On one stream, above, "
        f"{-first.grid.tiles % sms} SMs idle in the last wave of the first kernel; with semaphores, below, "
        f"tiles of the second fill that hole, and the pair takes {improvement(both):.0f} % less time."
    )


def _source() -> str:
    both = _shown_first()
    costs: Sequence[str] = (both.costs.source, both.costs.tile_times)
    words = "; ".join(text.removesuffix(".") for text in costs if text)
    device = both.scenario.device.upper()
    return (
        f"GPT-3's MLP under 8-way model parallelism, fp16, tiles of {both.scenario.tile}, simulated on "
        f"{device}. At {STILL_TOKENS:,} tokens: {words}."
    )
