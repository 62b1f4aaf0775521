"""What cuda-gdb prints of a process that hangs: `info cuda kernels`, `blocks`, `warps` and `lanes`, as text.

Example: of `consume` 132 of 384 blocks are there, on 132 SMs, and `produce` has been sent and has no block:
the text says who holds the SMs and who has none. It does not say who waits for whom: --waits does.

Source: CUDA-GDB 13.0, section 8.4 (info cuda commands).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.model.kernel import Block
from wavesim.safe_io.reading import read_text
from wavesim.safety.hang.situation import DevicePart, Situation
from wavesim.sim.streams.stream_order import StreamOperation

MOST_BYTES = 32 << 20
MOST_KERNELS = 64
_TRIPLE = r"\(\s*(\d{1,10})\s*,\s*(\d{1,10})\s*,\s*(\d{1,10})\s*\)"
_KERNEL = re.compile(
    rf"^[* ]*(\d+)\s+(?:-|\d+)\s+(\d+)\s+(\d+)\s+(\w+)\s+(0x[0-9a-fA-F]+|-)\s+{_TRIPLE}\s+{_TRIPLE}\s+(.+)$"
)
_SECTION = re.compile(r"^\s*Kernel\s+(\d+)\s*$")
_BLOCKS = re.compile(rf"^[* ]*{_TRIPLE}\s+{_TRIPLE}\s+(\d+)\s+(\w+)")
_ONE_BLOCK = re.compile(rf"^[* ]*{_TRIPLE}\s+(running|exited)\b")
_PLACE = re.compile(r"^\s*Device\s+(\d+)\s+SM\s+(\d+)")
_WARP = re.compile(rf"^[* ]*\d+\s+0x[0-9a-fA-F]+\s+0x[0-9a-fA-F]+\s+(0x[0-9a-fA-F]+)\s+(\d+)\s+{_TRIPLE}")
_LANE = re.compile(r"^[* ]*\d+\s+(active|divergent|inactive|exited)\s+(0x[0-9a-fA-F]+|n/a)")


@dataclass
class SeenKernel:
    """A kernel in the text. `blocks` are seen running, on `sms`; `places` are the addresses of its warps."""

    name: str
    device: int
    status: str
    grid: int
    threads: int
    sms: int
    blocks: int = 0
    warps: int = 0
    places: set[str] = field(default_factory=set)
    on: set[tuple[int, int]] = field(default_factory=set)


def is_debugger_text(start: bytes) -> bool:
    """Whether a file is such text, by its first bytes."""
    return b"GridDim" in start and b"Invocation" in start


def situation_of_text(path: Path) -> Situation:
    """The kernels of the text in their order, and notes of who is there. Raises `RecordingError`."""
    kernels = _kernels(read_text(path, MOST_BYTES).splitlines())
    if not kernels:
        raise RecordingError(f"{path}: no kernel in the text; print it with `info cuda kernels` in cuda-gdb")
    if len(kernels) > MOST_KERNELS:
        raise RecordingError(f"{path}: {len(kernels):,} kernels; at most {MOST_KERNELS} are read")
    used = sorted({kernel.device for kernel in kernels})
    names = [kernel.name for kernel in kernels]
    operations = [
        StreamOperation(
            name=kernel.name if names.count(kernel.name) == 1 else f"{kernel.name} #{number}",
            device=f"gpu{kernel.device}",
            blocks=max(1, kernel.grid),
            block=_block(kernel),
            carveout="full",
            stream=f"stream {number}",
            is_blocking=False,
        )
        for number, kernel in enumerate(kernels)
    ]
    return Situation(
        name=path.name,
        devices=[DevicePart(f"gpu{number}", devices.default_device()) for number in used],
        operations=operations,
        notes=[*map(_note, kernels), *_judgement(kernels), NOT_SAID],
        has_all_waits=False,
    )


NOT_SAID = (
    "The debugger names no registers, shared memory, streams, waits or GPU: no more blocks are taken "
    "to fit on an SM than were seen there. --out writes what was read, and --waits says who waits for whom."
)


def _block(kernel: SeenKernel) -> Block:
    """A block of as much shared memory as leaves room for no more of them on an SM than are seen there."""
    device = devices.default_device()
    per_sm = max(1, -(-kernel.blocks // max(1, len(kernel.on), kernel.sms)))
    share = device.shared_bytes_per_sm // per_sm - device.reserved_shared_bytes_per_block
    size = min(max(0, share), device.shared_bytes_per_block)
    return Block(min(max(1, kernel.threads), device.max_threads_per_block), dynamic_shared_bytes=size)


def _kernels(lines: Iterable[str]) -> list[SeenKernel]:
    seen: dict[int, SeenKernel] = {}
    current, place = None, (0, 0)
    for line in lines:
        if match := _KERNEL.match(line):
            number, device, _, status, mask = match.groups()[:5]
            grid, block = ([int(size) for size in match.groups()[i : i + 3]] for i in (5, 8))
            sms = 0 if mask == "-" else int(mask, 16).bit_count()
            name = match[12].partition("(")[0].strip()[:120]
            sizes = (grid[0] * grid[1] * grid[2], block[0] * block[1] * block[2])
            seen.setdefault(int(number), SeenKernel(name, int(device), status, *sizes, sms))
        elif match := _SECTION.match(line):
            current = seen.get(int(match[1]))
        elif match := _PLACE.match(line):
            place = (int(match[1]), int(match[2]))
        elif match := _WARP.match(line):
            _warp(seen.get(int(match[2])), match[1], place)
        elif current is not None and (match := _BLOCKS.match(line)):
            current.blocks += int(match[7]) * (match[8] == "running")
        elif current is not None and (match := _ONE_BLOCK.match(line)):
            current.blocks += match[4] == "running"
    return [seen[number] for number in sorted(seen)]


def _warp(kernel: SeenKernel | None, address: str, place: tuple[int, int]) -> None:
    if kernel is not None:
        kernel.warps += 1
        kernel.places.add(address)
        kernel.on.add(place)


def _note(kernel: SeenKernel) -> str:
    sms = max(len(kernel.on), kernel.sms)
    if not kernel.blocks and not sms:
        return f"{kernel.name}: {kernel.status.lower()}, none of its {kernel.grid:,} blocks is seen there"
    there = f"{kernel.blocks:,} of " if kernel.blocks else "some of "
    warps = f"; {kernel.warps:,} warps at {len(kernel.places):,} addresses" if kernel.warps else ""
    return f"{kernel.name}: {there}{kernel.grid:,} blocks are there, on {sms:,} SMs{warps}"


def _judgement(kernels: list[SeenKernel]) -> list[str]:
    """Who holds SMs while others have no block: what it looks like, and no verdict."""
    absent = [kernel for kernel in kernels if not kernel.blocks and not kernel.on and not kernel.sms]
    there = [kernel for kernel in kernels if kernel not in absent]
    return [
        f"{first.name} has no block while {' and '.join(kernel.name for kernel in there)} hold SMs: if they "
        "wait for it, that is the hang"
        for first in absent
        if there
    ]
