"""The controls of the what-if widget: labelled, keyboard-usable, and a `Scenario` when read.

Example: three columns of drop-downs and sliders above the figure; Tab reaches each, arrow keys change it.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import ipywidgets

from wavesim.model import device as devices
from wavesim.safe_io.bounds import MOST_BLOCKS, whole
from wavesim.widgets.menus import LABEL, menu, require_start_values
from wavesim.widgets.scenario import ORDERS, Scenario
from wavesim.workloads.catalogue import DEFAULTS, IMAGE_UNIT, WORKLOADS, Defaults
from wavesim.workloads.conv_networks import NETWORKS
from wavesim.workloads.gpt3 import KERNEL_TILES

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
MOST_SMS = 160
MOST_HEAD_START = 12


class Controls:
    """Nine controls; `box` shows them, `scenario` reads them, `on_change` is called once per change."""

    def __init__(self, start: Scenario, on_change: Callable[[], None]) -> None:
        self._on_change, self._start = on_change, start
        self._is_following = False
        names = list(WORKLOADS) if start.given is None else [start.workload]
        self.workload = menu("Workload", [(_workload_text(name), name) for name in names], start.workload)
        self.tokens = _slider("Tokens (rows)", TOKENS, start.tokens)
        self.tile = menu("Tile", [(start.tile, start.tile)], start.tile)
        self._offer_sizes(start.tokens, start.tile)
        self.device = menu("Device", devices.names() if start.given is None else [start.device], start.device)
        self.sm_count = _slider("SMs", range(1, MOST_SMS + 1), start.sm_count)
        self.order = menu("Tile order", [(ORDER_TEXT[word], word) for word in ORDERS], start.order)
        self.policy = menu("Semaphores", [(words, word) for word, words in POLICY_TEXT.items()], start.policy)
        self.wait_kernel = ipywidgets.Checkbox(
            value=start.wait_kernel, description="Wait-kernel", style=LABEL, indent=True
        )
        self.head_start = _slider("Consumers first", range(MOST_HEAD_START + 1), start.head_start)
        self._explain()
        self._enable()
        for control in self.all:
            control.observe(self._changed, names="value")
        self.box = ipywidgets.GridBox(self.all)
        self.box.add_class("wavesim-controls")

    @property
    def all(self) -> tuple[Any, ...]:
        """In reading and Tab order."""
        return (
            *(self.workload, self.tokens, self.tile),
            *(self.device, self.sm_count, self.order),
            *(self.policy, self.wait_kernel, self.head_start),
        )

    @property
    def scenario(self) -> Scenario:
        """What the controls say now."""
        return replace(
            self._start,
            workload=self.workload.value,
            tokens=self.tokens.value,
            tile=self.tile.value,
            device=self.device.value,
            sm_count=self.sm_count.value,
            order=self.order.value,
            policy=self.policy.value,
            wait_kernel=self.wait_kernel.value,
            head_start=0 if self.wait_kernel.value else self.head_start.value,
        )

    def _changed(self, change: dict[str, Any]) -> None:
        """Lets other controls follow, then reports once."""
        if self._is_following:
            return
        self._is_following = True
        try:
            if change["owner"] is self.workload:
                usual = _usual(change["new"])
                is_same = usual.unit == _usual(change["old"]).unit
                m, n = usual.tile
                self._offer_sizes(*(self._size if is_same else (usual.tokens, f"{m}x{n}")))
                is_toy = self.workload.value == "toy"
                self.device.value = "toy" if is_toy else devices.default_device().name
            if change["owner"] in (self.workload, self.device):
                self.sm_count.value = devices.load(self.device.value).sm_count
            self._enable()
        finally:
            self._is_following = False
        self._on_change()

    @property
    def _size(self) -> tuple[int, str]:
        return self.tokens.value, self.tile.value

    def _offer_sizes(self, tokens: int, tile: str) -> None:
        """Lets choose among the workload's sizes and tiles; these are chosen."""
        usual = _usual(self.workload.value)
        is_images = usual.unit == IMAGE_UNIT
        self.tokens.description = "Images" if is_images else "Tokens (rows)"
        self.tokens.options = _numbers(IMAGES if is_images else TOKENS, tokens)
        self.tokens.value = tokens
        tiles = [f"{m}x{n}" for m, n in dict.fromkeys((*(usual.tiles or KERNEL_TILES), usual.tile))]
        self.tile.options = [(word.replace("x", " × "), word) for word in dict.fromkeys((*tiles, tile))]
        self.tile.value = tile

    def _enable(self) -> None:
        """Controls that have no effect now are greyed out."""
        self.tokens.disabled = self.tile.disabled = (
            self.workload.value == "toy" or self._start.given is not None
        )
        self.head_start.disabled = self.wait_kernel.value

    def _explain(self) -> None:
        self.sm_count.tooltip = "A tile takes the same time whatever their number"
        self.wait_kernel.tooltip = "One block ahead of the consumer that ends when the producer has started"
        self.head_start.tooltip = (
            "Consumer blocks that reach the SMs before the producer's first: a race, lost"
        )


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


def _numbers(values: Iterable[int], value: int) -> list[tuple[str, int]]:
    """The values, and the start value if it lies between them."""
    return [(f"{number:,}", number) for number in sorted({*values, value})]


def _slider(label: str, values: Iterable[int], value: int) -> ipywidgets.SelectionSlider:
    options = _numbers(values, value)
    return ipywidgets.SelectionSlider(description=label, options=options, value=value, style=LABEL)


__all__ = ["Controls", "start_scenario"]
