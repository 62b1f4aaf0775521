"""PyTorch-profiler (Kineto) traces: Chrome JSON, plain or gzipped, read as a stream.

Example: of 75,718 events 8,772 are kernels. Each carries its grid, block, registers and shared memory; the
runtime call that launched it shares its correlation id, the operator with the operand shapes its external
id. Names and categories have changed over the years ("Kernel", "kernel"), stamps from whole microseconds to
fractions; AMD's events lack most of the launch. What is missing becomes None and a note, never an error.

Source: pytorch/kineto, libkineto/src/output_json.cpp and CuptiActivity.cpp.
"""

from array import array
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from wavesim.errors import RecordingError
from wavesim.model.device import Device
from wavesim.profile.json_stream import MAX_UNPACKED_BYTES, read_json
from wavesim.profile.kineto_fields import (
    NANOSECONDS,
    NO_ID,
    gemm_of,
    identifier,
    is_matmul,
    nanoseconds,
    quotient_or_none,
    size_or_none,
    sizes_or_none,
)
from wavesim.profile.profile import CALL_UNKNOWN, UNKNOWN_NS, IntArray, Lane, Profile, call_kind
from wavesim.profile.profile_builder import (
    MAX_LAUNCHES,
    MAX_NAME,
    MAX_SHAPES,
    MAX_STEPS,
    ProfileBuilder,
    places_of,
)
from wavesim.profile.profiled_device import MOST_SMS, PROPERTIES, device_by_sm_count, device_from_properties

DEVICES = "deviceProperties.item"
COPIES = {"gpu_memcpy", "memcpy", "gpu_memset", "memset"}
HOST_CALLS = {"cuda_runtime", "cuda_driver", "runtime", "hip_runtime", "privateuse1_runtime"}
OPERATORS = {"cpu_op", "operator"}
ANNOTATIONS = {"user_annotation", "gpu_user_annotation", "operator"}
MAX_DEVICES = 1_024
MAX_JUNK = 100_000


def load_kineto(path: str | Path, *, max_bytes: int = MAX_UNPACKED_BYTES) -> Profile:
    """Reads a Kineto trace. Raises `RecordingError` in one line: not JSON, no kernels, past a limit."""
    reader = _Reader(Path(path))
    sinks = {
        "traceEvents.item": reader.event,
        DEVICES: reader.device,
    }
    reader.unpacked_bytes = read_json(reader.path, sinks, brief=(DEVICES,), max_bytes=max_bytes)
    return reader.profile()


def profile_of_trace(source: str, trace: Mapping[str, Any]) -> Profile:
    """The profile of a trace that is in memory, as `json.loads` reads a file that the profiler has just left.

    `parse_float` must be `Decimal`. `source` is what the profile is called. Raises `RecordingError`.
    """
    reader = _Reader(Path(source))
    for entry in trace.get("deviceProperties", ()):
        reader.device(entry)
    for event in trace.get("traceEvents", ()):
        reader.event(event)
    return reader.profile()


class _Reader:
    """Takes events in any order, joins what belongs together at the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.builder = ProfileBuilder(path, "Kineto")
        self.unpacked_bytes = 0
        self._properties: dict[int, dict[str, Any]] = {}
        self._gpu_steps: list[tuple[str, int, int]] = []
        self._calls = (array("q"), array("q"), array("q"))  # correlation id, host time, kind of call
        self._graph_calls = array("q")
        self._operators = (array("q"), array("q"))  # external id, number in `_gemms`
        self._gemms: dict[tuple[int, int, int], int] = {}
        self._externals = array("q")  # one per row of the builder
        self._replayed = array("b")
        self._sm_hints: dict[int, tuple[int, int]] = {}  # most blocks, SMs
        self._has_fractions = False
        self._junk = self._devices_seen = 0

    def device(self, entry: Any) -> None:
        """One entry of deviceProperties."""
        self._devices_seen += 1
        if self._devices_seen > MAX_DEVICES:
            raise RecordingError(
                f"{self.path}: field 'deviceProperties' has more than {MAX_DEVICES:,} entries"
            )
        if isinstance(entry, dict):
            number = entry.get("id")
            kept = {key: entry[key] for key in PROPERTIES if isinstance(entry.get(key), str | int)}
            self._properties[number if isinstance(number, int) else len(self._properties)] = kept

    def event(self, event: Any) -> None:
        """One trace event; those of no use here are ignored."""
        if not isinstance(event, dict) or not isinstance(event.get("ph"), str):
            self._count_junk()
            return
        if event["ph"] != "X":
            return
        kind = event.get("cat")
        if not isinstance(kind, str):
            return
        kind = kind.lower()
        if kind == "kernel" or kind in COPIES:
            self._operation(event, kind == "kernel")
        elif kind in HOST_CALLS:
            self._host_call(event)
        elif kind in OPERATORS or kind in ANNOTATIONS:
            self._host_event(event, kind)

    def _count_junk(self) -> None:
        self._junk += 1
        if self._junk > MAX_JUNK:
            raise RecordingError(
                f"{self.path}: field 'traceEvents' has over {MAX_JUNK:,} entries that are no events"
            )

    def _operation(self, event: dict[str, Any], is_kernel: bool) -> None:
        start, duration, name = nanoseconds(event.get("ts")), nanoseconds(event.get("dur")), event.get("name")
        if start is None or duration is None or duration < 0 or not isinstance(name, str):
            self.builder.skipped += 1
            self._count_junk()
            return
        arguments = event.get("args")
        said = arguments if isinstance(arguments, dict) else {}
        self._has_fractions = self._has_fractions or not isinstance(event["ts"], int)
        device = size_or_none(said.get("device"), 0)
        number = 0 if device is None else device
        stream = said.get("stream", event.get("tid"))
        lane = Lane(str(event.get("pid"))[:60], number, str(stream)[:60])
        correlation = identifier(said.get("correlation"))
        key = None
        if is_kernel:
            key = (name[:MAX_NAME], number, *_launch(said))
            self._hint_at_sms(number, said)
        self.builder.add(key, lane, start, duration, correlation)
        self._externals.append(identifier(said.get("External id", said.get("external id"))))
        self._replayed.append("graph node id" in said)

    def _hint_at_sms(self, device: int, said: dict[str, Any]) -> None:
        grid = sizes_or_none(said.get("grid"))
        if grid is None:
            return
        blocks = grid[0] * grid[1] * grid[2]
        sm_count = quotient_or_none(blocks, said.get("blocks per SM"), MOST_SMS)
        if sm_count is not None and blocks > self._sm_hints.get(device, (0, 0))[0]:
            self._sm_hints[device] = (blocks, sm_count)

    def _host_call(self, event: dict[str, Any]) -> None:
        name, said, start = event.get("name"), event.get("args"), nanoseconds(event.get("ts"))
        if not isinstance(name, str) or "aunch" not in name or not isinstance(said, dict) or start is None:
            return
        correlation = identifier(said.get("correlation"))
        if correlation != NO_ID and len(self._calls[0]) < MAX_LAUNCHES:
            self._calls[0].append(correlation)
            self._calls[1].append(start)
            self._calls[2].append(call_kind(name))
            if "Graph" in name and len(self._graph_calls) < MAX_LAUNCHES:
                self._graph_calls.append(correlation)

    def _host_event(self, event: dict[str, Any], kind: str) -> None:
        name, said = event.get("name"), event.get("args")
        if not isinstance(name, str):
            return
        if name.startswith("ProfilerStep"):
            start, duration = nanoseconds(event.get("ts")), nanoseconds(event.get("dur"))
            steps = self._gpu_steps if kind == "gpu_user_annotation" else self.builder.steps
            if start is not None and duration is not None and duration >= 0 and len(steps) < MAX_STEPS:
                steps.append((name[:60], start, start + duration))
        elif is_matmul(name) and isinstance(said, dict) and len(self._operators[0]) < MAX_LAUNCHES:
            external = identifier(said.get("External id", said.get("external id")))
            gemm = gemm_of(name, said.get("Input Dims", said.get("Input dims")))
            if external != NO_ID and gemm is not None and len(self._gemms) < MAX_SHAPES:
                self._operators[0].append(external)
                self._operators[1].append(self._gemms.setdefault(gemm, len(self._gemms)))

    def profile(self) -> Profile:
        """What was read, joined."""
        builder = self.builder
        if self._gpu_steps:
            builder.steps = self._gpu_steps
        self._name_gemms()
        host_ns, is_replayed, call = self._launched()
        if not self._has_fractions:
            builder.timer_step_ns = NANOSECONDS
            builder.notes.append(
                "Stamps are whole microseconds: a kernel's time is known to ±1 µs, and gaps under 2 µs "
                "not at all."
            )
        facts = {"unpacked_bytes": self.unpacked_bytes}
        return builder.build(self._devices(), host_ns, is_replayed, call, **facts)

    def _name_gemms(self) -> None:
        ids, numbers = self._operators
        shapes = self.builder.column("shape")
        places = places_of(np.array(self._externals, dtype=np.int64), ids)
        known = np.flatnonzero((places >= 0) & (shapes >= 0))
        gemms = tuple(self._gemms)
        for shape, place in zip(shapes[known].tolist(), places[known].tolist(), strict=True):
            self.builder.set_gemm(shape, gemms[numbers[place]])

    def _launched(self) -> tuple[IntArray, np.ndarray[Any, np.dtype[np.bool_]], IntArray]:
        links = self.builder.column("link")
        replayed = np.frombuffer(self._replayed, dtype=np.int8).astype(bool)
        replayed |= np.isin(links, np.array(self._graph_calls, dtype=np.int64))
        places = places_of(links, self._calls[0])
        host_ns = np.append(np.array(self._calls[1], dtype=np.int64), UNKNOWN_NS)[places]
        if replayed.any():
            self.builder.notes.append(
                f"{int(replayed.sum()):,} operations are replayed by CUDA graphs: their launch gaps are "
                "the device's own."
            )
        call = np.append(np.array(self._calls[2], dtype=np.int64), CALL_UNKNOWN)[places]
        return host_ns, replayed, call

    def _devices(self) -> dict[int, Device | None]:
        devices: dict[int, Device | None] = {}
        for number in sorted(self.builder.kernel_devices()):
            if number in self._properties:
                devices[number], note = device_from_properties(self._properties[number])
            elif number in self._sm_hints:
                devices[number], note = device_by_sm_count(self._sm_hints[number][1])
            else:
                devices[number] = None
                note = (
                    "No device properties in the profile: occupancy and waves are unknown. "
                    "Name it with --device."
                )
            if note and note not in self.builder.notes:
                self.builder.notes.append(note)
        return devices


def _launch(
    said: dict[str, Any],
) -> tuple[tuple[int, int, int] | None, int | None, int | None, int | None, float | None]:
    """Grid, threads, registers, shared memory and the profiler's own occupancy, as far as they are given."""
    block = sizes_or_none(said.get("block"))
    occupancy = said.get("est. achieved occupancy %")
    return (
        sizes_or_none(said.get("grid")),
        None if block is None else size_or_none(block[0] * block[1] * block[2], 1),
        size_or_none(said.get("registers per thread"), 1),
        size_or_none(said.get("shared memory"), 0),
        float(occupancy) if isinstance(occupancy, int | Decimal) and 0 <= occupancy <= 100 else None,
    )
