"""Calls of `mlp` made ready: the way that a layout takes, and the shortest path from addresses to its launch.

Example: the first call of a layout chooses a way, by simulation or as tuning once found, and loads it: a
`PreparedLayout`. Every later call looks that up, allocates the output and the way's scratch memory, and
launches.
"""

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.model.device import Device
from wavesim.model.pipeline import Pipeline
from wavesim.plan.plan import Plan
from wavesim_gpu.driver.device import query
from wavesim_gpu.driver.tensors import allowed_while_capturing, dense_strides
from wavesim_gpu.layers import calls, choose, tuning_cache
from wavesim_gpu.layers.arguments import ALIGNMENT, Layout
from wavesim_gpu.layers.candidates import MlpCandidate
from wavesim_gpu.layers.choose import Choice
from wavesim_gpu.layers.description import MlpCall, MlpExecutable, MlpShape
from wavesim_gpu.layers.tuning_cache import used_software
from wavesim_gpu.run.planned_kernels import launched_safety

OFF_BITS = ALIGNMENT - 1  # set in an address that is no multiple
MOST_LAYOUTS = 16384
MOST_KEPT = 4096  # shapes: the oldest are dropped, but for those that a graph launches
# Whatever compiling and loading raise, the driver's and CuPy's errors too: something else computes it then.
UNAVAILABLE = (ValueError, ImportError, OSError, RuntimeError, MemoryError)
TORCH = "torch"  # label of PyTorch's own operations

# By all that a call's arrays look like: what `mlp` finds at once.
layouts: dict[Any, "PreparedLayout"] = {}
_chosen: dict[tuple[int, MlpShape], "LoadedMlp"] = {}
_launched_by_graphs: list["LoadedMlp"] = []  # as long as the process: nobody tells when a graph is gone
_forced: dict[MlpShape, MlpCandidate | None] = {}
_said: set[str] = set()
preparing = threading.RLock()


def _nothing() -> None:
    """There were no calls yet that could have failed."""


raise_known_failures: Callable[[], None] = _nothing


@dataclass
class LoadedMlp:
    """What was chosen for a shape on a device, loaded. Without a way: its library's own operations.

    `is_tuned`: measured here or in an earlier process, not only simulated.
    """

    shape: MlpShape
    choice: Choice
    way: MlpExecutable | None
    is_tuned: bool = False
    _is_in_graph: bool = False
    _for_any_address: MlpExecutable | None = None

    def note_capture(self) -> None:
        """Keeps it for as long as the process: a graph will launch it."""
        if not self._is_in_graph:
            self._is_in_graph = True
            _launched_by_graphs.append(self)

    def for_any_address(self) -> MlpExecutable | None:
        """A way that takes rows and addresses that are no multiples of 16 bytes: cuBLASLt."""
        if self.choice.candidate is None or self.way is None:
            return self.way
        if self._for_any_address is None:
            try:
                self._for_any_address = library_way(self.shape)
            except UNAVAILABLE as error:
                warn_once(f"wavesim_gpu.mlp needs cuBLASLt for rows that are not aligned: {error}")
        return self._for_any_address


class PreparedLayout:
    """A layout and its way; what every call needs, where it is found fastest."""

    __slots__ = (
        *("_any_address", "_run", "can_launch", "chosen", "copies_x", "device", "layout", "out_shape"),
        *("out_strides", "scratch_bytes", "_absent"),
    )

    def __init__(self, layout: Layout, chosen: LoadedMlp) -> None:
        self.layout, self.chosen = layout, chosen
        way = chosen.way if layout.has_aligned_rows else chosen.for_any_address()
        self._run = way.run if way else None
        self.can_launch = way is not None
        self._any_address = way is None or chosen.choice.candidate is None or way is not chosen.way
        self.scratch_bytes = max(1, way.scratch_bytes) if way else 1
        self.copies_x, self.device, self.out_shape = layout.copies_x, layout.device, layout.out_shape
        self.out_strides = dense_strides(layout.out_shape)
        shape = layout.shape
        is_apart = shape.gate == "separate"
        given = (is_apart, shape.has_b1, shape.has_b1 and is_apart, shape.has_b2)
        self._absent = len(given) - sum(given)

    def takes(self, addresses: tuple[int, ...]) -> bool:
        """Whether its way can be launched on these addresses.

        Raises `DescriptionError` where one is 0 that should not be.
        """
        if addresses.count(0) != self._absent:
            raise DescriptionError(
                f"an argument of mlp of {described(self.layout.shape)} has no memory: its storage was freed, "
                "as FSDP frees parameters between their uses; call it where they are there"
            )
        x, w1, w2, gate, b1, b_gate, b2, out = addresses
        return self._any_address or not (x | w1 | w2 | gate | b1 | b_gate | b2 | out) & OFF_BITS

    def launch(
        self,
        addresses: tuple[int, ...],
        scratch: int,
        stream: int,
        is_captured: bool,
        limit_ns: int,
    ) -> None:
        """Launches on x, w1, w2, gate, b1, b_gate, b2 and out, which it takes; 0 where there is none."""
        x, w1, w2, gate, b1, b_gate, b2, out = addresses
        layout = self.layout
        if layout.shape.gate == "packed":
            gate, w1 = w1, w1 + layout.values_offset
            if b1:
                b_gate, b1 = b1, b1 + layout.values_bias_offset
        if is_captured:
            self.chosen.note_capture()
        assert self._run is not None
        self._run(
            MlpCall(
                x,
                layout.x_stride,
                w1,
                layout.w1_stride,
                w2,
                layout.w2_stride,
                out,
                scratch,
                stream,
                layout.device,
                is_captured,
                limit_ns,
                gate,
                b1,
                b_gate,
                b2,
            )
        )

    def for_any_address(self) -> "PreparedLayout":
        """The same layout by a way that takes addresses that are no multiples of 16 bytes."""
        way = self.chosen.for_any_address()
        only = choose.only(way.label if way else TORCH, "addresses that are no multiples of 16 bytes")
        return PreparedLayout(self.layout, LoadedMlp(self.layout.shape, only, way))


def force(shape: MlpShape, candidate: MlpCandidate | None) -> None:
    """Has later calls of the shape run this, or cuBLASLt for None, whatever the simulation chooses."""
    _forced[shape] = candidate
    forget(shape)


def forget(shape: MlpShape | None = None) -> None:
    """Chooses anew at the next call of the shape, or of any."""
    with preparing:
        for key in [key for key in _chosen if shape is None or key[1] == shape]:
            del _chosen[key]
        for key, layout in list(layouts.items()):
            if shape is None or layout.layout.shape == shape:
                layouts.pop(key, None)


def ready(layout: Layout, *, is_captured: bool) -> PreparedLayout:
    """The layout with the way of its shape, chosen and loaded at the first call, on the current device.

    Raises `DescriptionError` while a graph is captured, if it is not loaded yet.
    """
    key = layout.device, layout.shape
    with preparing:
        if key not in _chosen:
            if is_captured:
                raise DescriptionError(
                    f"mlp of {described(layout.shape)} is captured in a graph before it is loaded: call it "
                    "once before the capture"
                )
            while len(_chosen) >= MOST_KEPT:
                del _chosen[next(iter(_chosen))]
            _chosen[key] = _first(layout)
        return PreparedLayout(layout, _chosen[key])


def keep(key: Any, layout: PreparedLayout) -> None:
    """Has the next call whose arrays look alike find it."""
    while len(layouts) >= MOST_LAYOUTS:
        layouts.pop(next(iter(layouts)), None)
    layouts[key] = layout


def pin_choice(layout: Layout, choice: Choice, way: MlpExecutable | None) -> None:
    """Has later calls of the shape take a way that was measured."""
    with preparing:
        forget(layout.shape)
        _chosen[layout.device, layout.shape] = LoadedMlp(layout.shape, choice, way, is_tuned=True)


def described(shape: MlpShape) -> str:
    """Sizes and type of a shape, for messages."""
    gate = f" {shape.activation}" if shape.activation else ""
    return f"{(shape.m, shape.k, shape.n1, shape.n2)} {shape.dtype}{gate}"


def _first(layout: Layout) -> LoadedMlp:
    """As forced, tuned or simulated; the library where that cannot be had; else no way."""
    shape = layout.shape
    try:
        device = query()
    except DeviceError as error:
        return _library(shape, f"our kernels cannot run: {error}")
    choice = _choice(shape, device)
    is_measured = choice.basis == "measured"
    if choice.candidate is None:
        return _library(shape, "", choice, is_measured)
    try:
        return LoadedMlp(shape, choice, planned_way(shape, choice.candidate), is_measured)
    except UNAVAILABLE as error:
        return _library(shape, f"{choice.label} cannot run: {error}")


def _choice(shape: MlpShape, device: Device) -> Choice:
    if shape in _forced:
        return choose.forced(_forced[shape])
    choice = tuning_cache.read(shape, device, used_software()) if tuning_cache.is_any() else None
    return choice or choose.choose(shape, device)


def planned_way(shape: MlpShape, candidate: MlpCandidate) -> MlpExecutable:
    """A candidate of ours, compiled and loaded, even while another thread captures a graph.

    Raises `WavesimError`, also where the plan could deadlock, or is safe only by what CUDA does not promise.
    """
    from wavesim_gpu.layers.planned import PlannedMlp  # noqa: PLC0415  # with all that compiles kernels

    pipeline, plan = candidate.planned(shape)
    _require_safe(pipeline, plan, query())
    with allowed_while_capturing():
        way: MlpExecutable = PlannedMlp(shape, pipeline, plan)
    global raise_known_failures  # noqa: PLW0603  # one log per process
    raise_known_failures = calls.process_log().raise_failures
    return way


def _require_safe(pipeline: Pipeline, plan: Plan, device: Device) -> None:
    """Also what was kept on disk is asked: a wait that never ends would hold the caller's GPU."""
    verdict = launched_safety(pipeline, plan, device)
    if not verdict.is_safe or verdict.basis != "cuda":
        raise DescriptionError(f"mlp does not run {plan.label}: {verdict.reason}")


def library_way(shape: MlpShape, choice: Choice | None = None) -> MlpExecutable:
    """The library, by the algorithms that a choice names, loaded even while another thread captures a graph.

    Raises `WavesimError`.
    """
    from wavesim_gpu.layers.library import LibraryMlp  # noqa: PLC0415  # loads cuBLASLt

    with allowed_while_capturing():
        way: MlpExecutable = LibraryMlp(shape, dict(choice.algorithms) if choice else None)
    return way


def _library(
    shape: MlpShape, reason: str, choice: Choice | None = None, is_measured: bool = False
) -> LoadedMlp:
    """cuBLASLt; no way, with a warning, where that cannot be had. `reason` is what went wrong before."""
    try:
        way: MlpExecutable | None = library_way(shape, choice)
        label = choose.LIBRARY
    except UNAVAILABLE as error:
        way, label = None, TORCH
        reason = f"{reason}; cuBLASLt neither: {error}" if reason else f"cuBLASLt cannot run: {error}"
    if reason:
        used = label if way else "the operations of the arrays' own library"
        warn_once(f"wavesim_gpu.mlp uses {used}: {reason}")
    library = choice if choice and way else choose.only(label, reason)
    return LoadedMlp(shape, library, way, is_measured and way is not None)


def warn_once(text: str) -> None:
    """Warns of a reason once per process."""
    if text not in _said:
        _said.add(text)
        warnings.warn(text, RuntimeWarning, stacklevel=5)
