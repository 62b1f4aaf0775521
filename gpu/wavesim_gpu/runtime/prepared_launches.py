"""Kernel launches whose parameters lie ready: to launch one again is one call of the driver.

Example: a `LaunchTemplate` has a kernel's parameters with addresses that mean nothing. `template.ready(...)`
copies them, puts a call's addresses in, and returns what `cuLaunchKernelEx` takes. The driver copies
parameters while it launches, so the same buffers serve the stream's next call, of whatever thread.
"""

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wavesim.errors import DeviceError
from wavesim_gpu.cusync.layout import CALL, SYNC_PARAMS
from wavesim_gpu.kernels.backend import AddressField, KernelLaunch
from wavesim_gpu.runtime.driver import require_driver, status_name
from wavesim_gpu.runtime.launch_attributes import launch_config

ALIGNMENT = 64  # of a tensor map, in the host's memory too
assert SYNC_PARAMS.fields is not None
assert CALL.fields is not None
_CALL = SYNC_PARAMS.fields["call"][1]
_LIMIT = SYNC_PARAMS.fields["limit_ns"][1]
_NUMBER, _BEGINS = (_CALL + CALL.fields[name][1] for name in ("number", "begins"))
_REPORT = struct.Struct("<QQQQ")  # slot, bell, result, result_quads


@dataclass(frozen=True)
class Report:
    """What a kernel is told of its call: counters, error buffer and time limit; slot, bell and whole result.

    `slot` is 0 where no wait can give up. `result_quads` are pieces of 16 bytes.
    """

    counters: int
    errors: int
    limit_ns: int
    slot: int
    bell: int
    result: int
    result_quads: int


@dataclass(frozen=True)
class StageTemplate:
    """One stage's two parameters as bytes, and where in the second there are addresses."""

    sync: bytes
    gemm: bytes
    fields: Sequence[AddressField]


class ReadyLaunch:
    """One launch: `arguments` of `cuLaunchKernelEx`, and where the call's number is put before it."""

    __slots__ = ("_kept", "arguments", "numbers")

    def __init__(self, arguments: tuple[Any, ...], numbers: list[Any], kept: Any) -> None:
        self.arguments, self.numbers, self._kept = arguments, numbers, kept


@dataclass(frozen=True)
class LaunchTemplate:
    """A kernel: its address, how it is launched, and the parameters of each stage that it computes.

    `begins`: it is the first of a call and is launched before what is ahead of it in the stream has ended.
    """

    function: int
    shape: KernelLaunch
    stages: tuple[StageTemplate, ...]
    begins: bool

    def ready(self, stream: int, report: Report, operands: Sequence[Mapping[str, int]]) -> ReadyLaunch:
        """The launch on a stream; `operands` has each stage's addresses by `AddressField.operand`.

        Raises `DeviceError` for an address that no tensor map takes.
        """
        sizes = [_padded(len(text)) for stage in self.stages for text in (stage.sync, stage.gemm)]
        memory = ctypes.create_string_buffer(sum(sizes) + ALIGNMENT)
        at = -ctypes.addressof(memory) % ALIGNMENT
        pointers, numbers = [], []
        for stage, addresses in zip(self.stages, operands, strict=True):
            self._put_sync(memory, at, stage, report)
            numbers.append(ctypes.c_uint32.from_buffer(memory, at + _NUMBER))
            pointers.append(ctypes.addressof(memory) + at)
            at += _padded(len(stage.sync))
            _put_gemm(memory, at, stage, addresses)
            pointers.append(ctypes.addressof(memory) + at)
            at += _padded(len(stage.gemm))
        config = launch_config(self.shape, stream)
        parameters = (ctypes.c_void_p * len(pointers))(*pointers)
        places = (ctypes.addressof(config), self.function, ctypes.addressof(parameters), 0)
        return ReadyLaunch(tuple(map(ctypes.c_void_p, places)), numbers, (memory, config, parameters))

    def _put_sync(self, memory: Any, at: int, stage: StageTemplate, report: Report) -> None:
        ctypes.memmove(ctypes.addressof(memory) + at, stage.sync, len(stage.sync))
        struct.pack_into("<QQ", memory, at, report.counters, report.errors)
        struct.pack_into("<Q", memory, at + _LIMIT, report.limit_ns)
        _REPORT.pack_into(memory, at + _CALL, report.slot, report.bell, report.result, report.result_quads)
        struct.pack_into("<i", memory, at + _BEGINS, self.begins)


def _put_gemm(memory: Any, at: int, stage: StageTemplate, addresses: Mapping[str, int]) -> None:
    base = ctypes.addressof(memory)
    ctypes.memmove(base + at, stage.gemm, len(stage.gemm))
    for field in stage.fields:
        address, place = addresses[field.operand] + field.shift, at + field.offset
        if field.kind == "pointer":
            struct.pack_into("<Q", memory, place, address)
            continue
        status = require_driver().cuTensorMapReplaceAddress(base + place, address)
        if status:
            raise DeviceError(f"{field.operand} at {address:#x} fits no tensor map: {status_name(status)}")


def _padded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
