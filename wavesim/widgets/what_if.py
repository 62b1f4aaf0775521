"""The what-if explorer: change tokens, tile, device, order or policy and see both timelines follow.

Example: stream sync above, the chosen plan below, the same time axis, and the gain in words. `code` is the
call that opens it as it is shown, `WhatIf(tokens=768)`; `address(site)` a link that opens it in a browser.
"""

import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

import ipywidgets

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.predict.recommendation import Recommendation
from wavesim.predict.recommendation_text import answer_lines
from wavesim.safe_io.bounds import MOST_BLOCKS, shown, whole
from wavesim.safe_io.escaping import Markup, element
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.ahead import Ahead, nearest_first
from wavesim.widgets.drawn import PlansPicture
from wavesim.widgets.explorer import LABEL, Explorer, menu, numbers, require_start_values, stops
from wavesim.widgets.scenario import KEPT, ORDERS, Answer, Scenario, advised, answer
from wavesim.widgets.summary import costs_html, finding_html, improvement, table_html
from wavesim.widgets.words import Words
from wavesim.workloads.catalogue import DEFAULTS, IMAGE_UNIT, WORKLOADS, Defaults
from wavesim.workloads.conv_networks import NETWORKS
from wavesim.workloads.mlps import KERNEL_TILES

# Every 128 rows where recordings and partly filled waves are, coarser where bars turn into a picture.
TOKENS = (*range(128, 4096, 128), *range(4096, 12_289, 256))
IMAGES = (1, 2, 4, *range(8, 129, 8))  # of a batch: 6,272 tiles of the largest convolutions
ORDER_TEXT = {
    "row": "row by row",
    "column": "column by column",
    "grouped:2": "groups of 2 rows",
    "grouped:4": "groups of 4 rows",
    "grouped:8": "groups of 8 rows",
    "row, consumer reversed": "row by row, consumer reversed",
}
POLICY_TEXT = {"row": "one semaphore per tile row", "tile": "one semaphore per tile"}
WORKLOAD_TEXT = {"toy": "Figure 1: 2 × 6 tiles"}
NAMES = {
    "gpt3": "GPT-3",
    "mlp": "MLP",
    "llama": "LLaMA",
    "resnet": "ResNet",
    "vgg": "VGG",
    "conv": "convolution",
    "qwen2.5": "Qwen2.5",
    "145b": "145B",
    "65b": "65B",
    "8b": "8B",
    "0.5b": "0.5B",
    "gemms": "GEMMs",
}
MOST_SMS, MOST_HEAD_START = 160, 12
NARROW_LABEL = "108px"
SMS_SAID = "A tile takes the same time whatever their number"
WAIT_KERNEL_SAID = "One block ahead of the consumer that ends when the producer has started"
HEAD_START_SAID = "Consumer blocks that reach the SMs before the producer's first: a race, lost"
ADVICE = 0  # comes after the sizes: the plan to run at the size that is shown, some thirty runs in a thread
IS_BROWSER = sys.platform == "emscripten"  # which has no threads
NEXT = 3  # sizes whose pictures are sent to the page before they are asked for
CONSOLE = "repl/index.html"  # of a JupyterLite site


class WhatIf(Explorer):
    """The explorer. Keyword arguments are the start values of its controls, by `Scenario`'s names.

    Raises `DescriptionError` or `DeadlockError` if the start values cannot run.
    """

    kinds = (PlansPicture,)

    def __init__(self, **start: Any) -> None:
        self._start = first = start_scenario(**start)
        self.finding, self.advice, self.table, self.costs = Words(), Words(), Words(), Words()
        names = list(WORKLOADS) if first.given is None else [first.workload]
        known = devices.names() if first.given is None else [first.device]
        waits = ipywidgets.Checkbox(
            value=first.wait_kernel, description="Wait-kernel", style=LABEL, tooltip=WAIT_KERNEL_SAID
        )
        controls = {
            "workload": menu("Workload", [(_workload_text(name), name) for name in names], first.workload),
            "tokens": stops(*_sizes(first.workload, first.tokens)),
            "tile": menu("Tile", _tiles(first.workload, first.tile), first.tile),
            "device": menu("Device", known, first.device),
            "sm_count": stops("SMs", range(1, MOST_SMS + 1), first.sm_count, tooltip=SMS_SAID),
            "order": menu("Tile order", [(ORDER_TEXT[word], word) for word in ORDERS], first.order),
            "policy": menu("Semaphores", [(text, word) for word, text in POLICY_TEXT.items()], first.policy),
            "wait_kernel": waits,
            "head_start": stops(
                "Consumers first", range(MOST_HEAD_START + 1), first.head_start, tooltip=HEAD_START_SAID
            ),
        }
        for control in controls.values():
            control.style.description_width = NARROW_LABEL  # three controls in a row of a cell
        self._gains: dict[Scenario, dict[int, float]] = {}
        self._advised: tuple[Scenario, Recommendation] | None = None
        self._settings = 0
        self._sent: set[int] = set()  # sizes whose pictures the page has
        self._ahead = Ahead(self._simulate_size, self._tell)
        super().__init__(
            controls,
            above=[self.finding],
            below=[self.advice, self.table, self.costs],
            fold="What to run, where the time goes, costs, measured values, safety",
        )
        self.picture.observe(self._pick, names="picked")
        self.picture.slider = self.tokens.model_id or ""
        self._say_below()
        self._ahead.restart(self._other_sizes())

    @property
    def scenario(self) -> Scenario:
        """What the controls say now."""
        said = self.values
        if self.wait_kernel.value:
            said["head_start"] = 0
        return replace(self._start, **said)

    @property
    def code(self) -> str:
        """The call that opens the explorer as it is shown now; "" for kernels that are in no catalogue."""
        return code_of(self.answer.scenario)

    def address(self, site: str) -> str:
        """A link that opens it on a site of `make lite`, with nothing installed. Raises as `address_of`."""
        return address_of(self.answer.scenario, site)

    def refresh(self) -> None:
        """As every explorer, with scene and strip in one message; then what the neighbouring sizes give."""
        before = self.answer.scenario.tokens
        with self.picture.hold_sync():
            super().refresh()
        self._ahead.soon(self._say_below)
        self._ahead.restart(self._other_sizes(before))

    def html(self) -> Markup:
        """As every explorer."""
        self._say_below()
        return super().html()

    def _other_sizes(self, before: int | None = None) -> list[int]:
        """What to simulate: the next sizes, with their pictures; those of unknown gain; then the advice."""
        now, known = self.tokens.value, self._gains_of(self.answer.scenario)
        self._near = nearest_first(self._sizes, now, 0 if before is None else now - before)
        sizes = [size for place, size in enumerate(self._near) if place < NEXT or size not in known]
        return sizes if IS_BROWSER else [*sizes, ADVICE]

    @property
    def _sizes(self) -> list[int]:
        return [] if self.tokens.disabled else [value for _, value in self.tokens.options]

    def _simulate_size(self, tokens: int) -> None:
        if tokens == ADVICE:
            self._advised = (self.answer.scenario, self.recommendation)
            return
        scenario = replace(self.scenario, tokens=tokens)
        answered, _ = _drawn(scenario)
        self._gains_of(scenario)[tokens] = improvement(answered)

    def _gains_of(self, scenario: Scenario) -> dict[int, float]:
        """By size, everything else as it is there."""
        return self._gains.setdefault(replace(scenario, tokens=0), {})

    @property
    def recommendation(self) -> Recommendation:
        """Which plan to run for what is shown, by the rule of all commands. Raises as `recommend`."""
        asked = self.answer.scenario

        def stay(_done: int, _total: int) -> None:
            if self.scenario != asked:
                raise DescriptionError("the controls have moved on")

        return advised(asked, stay)

    def _tell(self) -> None:
        """Shows the gains that are known by now, and sends the pictures of the next sizes."""
        self._show_strip()
        if self._advised is not None and self._advised[0] == self.answer.scenario:
            lines = answer_lines(self._advised[1], self.answer.scenario.device)
            self.advice.value = element("pre", "\n".join(lines))
        known = self._gains_of(self.answer.scenario)
        for size in self._near[:NEXT]:
            if size in known and size not in self._sent:
                self._sent.add(size)
                _, scene = _drawn(replace(self.answer.scenario, tokens=size))
                self.picture.ahead = {"of": self._settings, "at": size, "scene": scene}

    def _show_strip(self) -> None:
        """The gain at each size that has been simulated."""
        shown_now = self.answer.scenario
        known = self._gains_of(shown_now)
        self.picture.strip = {
            "of": self._settings,
            "label": shown_now.unit,
            "values": self._sizes,
            "gains": [round(known[size], 2) if size in known else None for size in self._sizes],
            "at": shown_now.tokens,
        }

    def _pick(self, change: Any) -> None:
        """A click on the strip."""
        if change.new in self._sizes:
            self.tokens.value = change.new

    def _scenes(self) -> Sequence[dict[str, Any]]:
        before = getattr(self, "answer", None)
        self.answer, scene = _drawn(self.scenario)
        if before is None or replace(self.answer.scenario, tokens=0) != replace(before.scenario, tokens=0):
            self._settings += 1
            self._sent = set()
        self._sent.add(self.answer.scenario.tokens)
        self._gains_of(self.answer.scenario)[self.answer.scenario.tokens] = improvement(self.answer)
        return [scene]

    def _say(self) -> None:
        self._show_strip()
        self.finding.value = finding_html(self.answer)

    def _say_below(self) -> None:
        """What is folded: it may come after the picture."""
        if self._advised is None or self._advised[0] != self.answer.scenario:
            self.advice.value = ""
        self.table.value = table_html(self.answer)
        self.costs.value = costs_html(self.answer, self.code)

    def _setting(self) -> str:
        return self.answer.setting

    def _follow(self, change: Any) -> None:
        if change.owner is self.workload:
            usual = _usual(change.new)
            tokens, tile = self.tokens.value, self.tile.value
            if usual.unit != _usual(change.old).unit:
                tokens, tile = usual.tokens, "{}x{}".format(*usual.tile)
            label, values, _ = _sizes(change.new, tokens)
            self.tokens.description = label
            self.tokens.options, self.tokens.value = numbers(values, tokens), tokens
            self.tile.options, self.tile.value = _tiles(change.new, tile), tile
            self.device.value = "toy" if change.new == "toy" else devices.default_device().name
        if change.owner in (self.workload, self.device):
            self.sm_count.value = devices.load(self.device.value).sm_count

    def _enable(self) -> None:
        is_fixed = self.workload.value == "toy" or self._start.given is not None
        self.tokens.disabled = self.tile.disabled = is_fixed
        self.head_start.disabled = self.wait_kernel.value


@lru_cache(maxsize=KEPT // 2)
def _drawn(scenario: Scenario) -> tuple[Answer, dict[str, Any]]:
    """The answer, and the picture of it. Raises as `answer`."""
    answered = answer(scenario)
    return answered, scene_of_timeline(timeline_parts([answered.stream, answered.chosen]))


def start_scenario(**chosen: Any) -> Scenario:
    """A scenario from some of its fields; device and SMs follow the workload unless they are given."""
    require_start_values("WhatIf", Scenario, chosen)
    whole("head_start", chosen.get("head_start", 0), 0, MOST_BLOCKS)
    if chosen.get("given") is not None:
        given: Scenario = replace(chosen["given"].scenario(), **chosen)
        return given
    name = chosen.get("workload", Scenario.workload)
    device = chosen.get("device", "toy" if name == "toy" else devices.default_device().name)
    m, n = _usual(name).tile
    size = {"tokens": _usual(name).tokens, "tile": f"{m}x{n}"}
    defaults = {**size, "device": device, "sm_count": devices.load(device).sm_count}
    return replace(Scenario(), **(defaults | chosen))


def _workload_text(name: str) -> str:
    """A name of the catalogue as it is read: resnet-conv-64 is ResNet convolution 64."""
    network, _, size = name.rpartition("-")
    if network in NETWORKS:
        return f"{'-'.join(NAMES.get(part, part) for part in network.split('-'))}, images of {size} × {size}"
    words = " ".join(NAMES.get(part, part) for part in name.split("-"))
    return WORKLOAD_TEXT.get(name) or words[0].upper() + words[1:]


def _usual(name: str) -> Defaults:
    """Of a workload; the catalogue's most common ones for kernels that are in none."""
    return DEFAULTS.get(name, Defaults())


def _sizes(name: str, tokens: int) -> tuple[str, Sequence[int], int]:
    """Label, stops and start of the slider of a workload's size."""
    is_images = _usual(name).unit == IMAGE_UNIT
    return ("Images", IMAGES, tokens) if is_images else ("Tokens (rows)", TOKENS, tokens)


def _tiles(name: str, tile: str) -> list[tuple[str, str]]:
    usual = _usual(name)
    known = [f"{m}x{n}" for m, n in (*(usual.tiles or KERNEL_TILES), usual.tile)]
    return [(word.replace("x", " × "), word) for word in dict.fromkeys((*known, tile))]


def code_of(scenario: Scenario) -> str:
    """The call that opens the what-if at this setting; "" for kernels that are in no catalogue."""
    if scenario.given is not None:
        return ""
    start = start_scenario(workload=scenario.workload)
    usual = start_scenario(workload=scenario.workload, device=scenario.device)
    said = {"workload": Scenario().workload, "device": start.device}
    words = [
        f"{item.name}={getattr(scenario, item.name)!r}"
        for item in fields(scenario)
        if getattr(scenario, item.name) != said.get(item.name, getattr(usual, item.name))
    ]
    return f"WhatIf({', '.join(words)})"


def address_of(scenario: Scenario, site: str) -> str:
    """The link to this setting on a site that `make lite` built, given the address of its folder.

    Raises `DescriptionError` for an address that is none of a web page, and for kernels in no catalogue.
    """
    code = code_of(scenario)
    if not code:
        raise DescriptionError("these kernels are in no catalogue, so that no link opens them; save the page")
    if not site.startswith(("http://", "https://")):
        raise DescriptionError(
            f"site is {shown(site)}; give its address, such as https://example.org/wavesim"
        )
    lines = f"from wavesim.widgets import WhatIf\n{code}"
    return f"{site.rstrip('/')}/{CONSOLE}?{urlencode({'kernel': 'python', 'toolbar': 1, 'code': lines})}"
