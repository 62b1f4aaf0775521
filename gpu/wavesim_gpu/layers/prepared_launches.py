"""Kernel launches whose parameters lie ready: to launch a call again is one call of the driver per kernel.

Example: a `CallTemplate` has the parameters of a call's kernels with addresses that mean nothing.
`template.new(stream)` copies them, `template.fill(...)` stores a call's addresses there, as words. The driver
copies parameters while it launches, so the same memory serves the stream's next call, of whatever thread.
"""

import ctypes
from collections.abc import Sequence
from ctypes import c_void_p
from dataclasses import dataclass
from typing import Any, NamedTuple

from wavesim.errors import DeviceError
from wavesim_gpu.cusync.layout import CALL, SYNC_PARAMS
from wavesim_gpu.driver.driver_api import require_driver, status_name
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_config
from wavesim_gpu.kernels.gemm.gemm_backend import AddressField, Operand

ALIGNMENT = 64  # of a tensor map, in the host's memory too
WORD = 8
# Of each stage of a call, in this order: those of a product without residual, RoPE and caches.
OPERANDS: tuple[Operand, ...] = ("a", "b", "b_values", "c", "bias", "values_bias", "partials", "tickets")
assert SYNC_PARAMS.fields is not None
assert CALL.fields is not None
_CALL = SYNC_PARAMS.fields["call"][1] // WORD
_NUMBER = _CALL + CALL.fields["number"][1] // WORD
_REPORT = (  # words of what a `Report` has
    *(SYNC_PARAMS.fields[name][1] // WORD for name in ("counters", "errors", "limit_ns")),
    *(_CALL + CALL.fields[name][1] // WORD for name in ("slot", "bell", "result", "result_quads")),
)
assert (CALL.fields["number"][1] % WORD, CALL.fields["begins"][1] % WORD) == (0, 4)
BEGINS, LARGEST_NUMBER = 1 << 32, (1 << 32) - 1  # in the number's word
NOTHING = c_void_p()


@dataclass(frozen=True)
class StageTemplate:
    """One stage's two parameters as bytes, and where in the second there are addresses.

    `has_words`: every address is a word there, a tensor map's too, as `are_words` found.
    """

    sync: bytes
    gemm: bytes
    fields: Sequence[AddressField]
    has_words: bool


def are_words(record: bytes, other: bytes, fields: Sequence[AddressField], addresses: Sequence[int]) -> bool:
    """Whether storing `addresses`, in the order of `OPERANDS`, in one record's fields makes the other."""
    made = bytearray(record)
    for field in fields:
        address = addresses[OPERANDS.index(field.operand)] + field.shift
        made[field.offset : field.offset + WORD] = address.to_bytes(WORD, "little")
    return bytes(made) == other


@dataclass(frozen=True)
class LaunchTemplate:
    """A kernel's address, how it is launched, and the parameters of each stage that it computes.

    `begins`: it is the first of a call and is launched before what is ahead of it in the stream has ended.
    """

    function: int
    shape: KernelLaunch
    stages: tuple[StageTemplate, ...]
    begins: bool


class Report(NamedTuple):
    """What the kernels are told of their call: counters, error buffer and time limit; slot, bell, result.

    `slot` is 0 where no wait can give up. `result_quads` are pieces of 16 bytes, of the whole result.
    """

    counters: int
    errors: int
    limit_ns: int
    slot: int
    bell: int
    result: int
    result_quads: int


class ReadyCall:
    """A call's launches: arguments of `cuLaunchKernelEx` for the first kernel and for the others.

    `words` is the memory behind them, `base` its address; `numbers` are the places of the call's number.
    """

    __slots__ = ("base", "first", "numbers", "others", "words")

    def __init__(
        self, words: Any, base: int, arguments: list[Any], numbers: Sequence[tuple[int, int]]
    ) -> None:
        self.words, self.base, self.numbers = words, base, numbers
        self.first, *others = arguments
        self.others = tuple(others)

    def set_number(self, number: int) -> None:
        """The call's number over its state, for the kernels launched from now on."""
        words = self.words
        for place, flag in self.numbers:
            words[place] = number & LARGEST_NUMBER | flag


class CallTemplate:
    """The launches of a call, for operands of some strides."""

    def __init__(self, launches: Sequence[LaunchTemplate]) -> None:
        self._launches = tuple(launches)
        self._syncs: list[tuple[int, ...]] = []  # words of each stage, in the order of `Report`
        self._numbers: list[tuple[int, int]] = []  # words and flags
        self._addresses: list[tuple[int, int, int]] = []  # words, operands by their number, shifts
        self._maps: list[tuple[int, int, int]] = []  # bytes, operands, shifts: for the driver to write
        self._pointers: list[tuple[int, int]] = []  # words, and the bytes that they point at
        self._parameters: list[int] = []  # bytes where a launch's pointers begin
        image = bytearray()
        for launch in self._launches:
            self._add(launch, image)
        self._image = bytes(image)
        self._memory = ctypes.c_char * (len(image) + ALIGNMENT)
        self._configs: dict[int, list[tuple[Any, ...]]] = {}

    def new(self, stream: int) -> ReadyCall:
        """Parameters of their own for calls on a stream; the addresses are still to be filled in."""
        memory, size = self._memory(), len(self._image)
        start = ctypes.addressof(memory)
        base = -(-start // ALIGNMENT) * ALIGNMENT
        ctypes.memmove(base, self._image, size)
        words = memoryview(memory).cast("B")[base - start : base - start + size].cast("Q")  # keeps the memory
        for place, target in self._pointers:
            words[place] = base + target
        configs = self._configs.get(stream) or self._new_configs(stream)
        arguments = [
            (config, function, c_void_p(base + at), NOTHING)
            for (config, function, _), at in zip(configs, self._parameters, strict=True)
        ]
        return ReadyCall(words, base, arguments, self._numbers)

    def fill(self, ready: ReadyCall, report: Report, operands: Sequence[int]) -> None:
        """Stores a call's addresses; `operands` are all stages', each in the order of `OPERANDS`.

        Raises `DeviceError` for an address that no tensor map takes.
        """
        words = ready.words
        for places in self._syncs:
            for at, value in zip(places, report, strict=True):
                words[at] = value
        for at, index, shift in self._addresses:
            words[at] = operands[index] + shift
        for at, index, shift in self._maps:
            status = require_driver().cuTensorMapReplaceAddress(ready.base + at, operands[index] + shift)
            if status:
                raise DeviceError(f"no tensor map for {operands[index]:#x}: {status_name(status)}")

    def _new_configs(self, stream: int) -> list[tuple[Any, ...]]:
        """Each launch's configuration and function as the driver takes them, and what keeps the first."""
        configs = [launch_config(launch.shape, stream) for launch in self._launches]
        self._configs[stream] = [
            (c_void_p(ctypes.addressof(config)), c_void_p(launch.function), config)
            for config, launch in zip(configs, self._launches, strict=True)
        ]
        return self._configs[stream]

    def _add(self, launch: LaunchTemplate, image: bytearray) -> None:
        """Appends a launch's pointers to its parameters, and these."""
        pointers = _append(image, bytes(2 * WORD * len(launch.stages)))
        self._parameters.append(pointers)
        for index, stage in enumerate(launch.stages):
            sync, gemm = _append(image, stage.sync), _append(image, stage.gemm)
            place = pointers // WORD + 2 * index
            self._pointers += [(place, sync), (place + 1, gemm)]
            flag = BEGINS if launch.begins else 0
            at = sync // WORD
            image[(at + _NUMBER) * WORD : (at + _NUMBER + 1) * WORD] = flag.to_bytes(WORD, "little")
            self._numbers.append((at + _NUMBER, flag))
            for field in stage.fields:
                operand = len(self._syncs) * len(OPERANDS) + OPERANDS.index(field.operand)
                if field.kind == "map" and not stage.has_words:
                    self._maps.append((gemm + field.offset, operand, field.shift))
                else:
                    self._addresses.append(((gemm + field.offset) // WORD, operand, field.shift))
            self._syncs.append(tuple(at + place for place in _REPORT))


def _append(image: bytearray, text: bytes) -> int:
    """Where the text begins in the image, aligned."""
    start = len(image)
    image += text.ljust(-(-len(text) // ALIGNMENT) * ALIGNMENT, b"\0")
    return start
