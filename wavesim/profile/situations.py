"""A situation from whatever file there is: TOML, a launch recorder's JSON, a mirror, a profile, NCCL's flight
recorder, or what cuda-gdb prints.

The first bytes decide, not the name, except that TOML ends in .toml. Of a profile it is the launch
configurations: 1,465 launches of 47 shapes on one stream become 47 operations in the order of their first
launch. A profile does not know who waits for whom: until a file of waits says so nothing is called safe.

A profile is of a run that came to its end: kernels that hang are in none. So what the host and the streams
ordered did not keep it from ending, and is left out. Where the same shape is launched again and again on one
stream, the first stands for all.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from wavesim.errors import DescriptionError, RecordingError
from wavesim.model import device as devices
from wavesim.model.kernel import Block
from wavesim.model.occupancy import require_runnable
from wavesim.profile.kernel_names import parsed_name
from wavesim.profile.nsight import SQLITE_MAGIC
from wavesim.profile.profile import UNKNOWN_NS, LaunchShape, Profile
from wavesim.profile.profile_file import load_profile
from wavesim.safe_io.reading import open_data
from wavesim.safety.hang.autopsy import Autopsy
from wavesim.safety.hang.debugger_text import is_debugger_text, situation_of_text
from wavesim.safety.hang.facts import SituationFacts
from wavesim.safety.hang.flight_record import is_flight_record, situation_of_records
from wavesim.safety.hang.mirror import MAGIC, Mirror, load_mirror
from wavesim.safety.hang.situation import DevicePart, Situation
from wavesim.safety.hang.situation_file import MOST_JSON_BYTES, MOST_OPERATIONS, load_situation, with_waits
from wavesim.safety.hang.verdict import HangVerdict, judge, verdict_after
from wavesim.sim.streams.stream_order import StreamOperation

FIRST_BYTES = 4_096
GZIP = b"\x1f\x8b"
MOST_NAME = 120
NOT_SAID = (
    "A profile says nothing of carve-outs, clusters, cooperative and dependent launches, priorities and "
    "events: carve-outs are taken to be the driver's choice, and the others not to be there. --out writes a "
    "file in which they can be set."
)


def is_profile(path: Path, start: bytes) -> bool:
    """Whether a file is a profile, by its first bytes and its size."""
    if start.startswith((SQLITE_MAGIC, GZIP)) or path.stat().st_size > MOST_JSON_BYTES:
        return True
    return b'"traceEvents"' in start or b'"schemaVersion"' in start or b'"deviceProperties"' in start


def situation_of_profile(path: Path) -> Situation:
    """The launches of a profile. Raises `RecordingError`."""
    profile = load_profile(path)
    used = sorted({profile.lanes[lane].device for lane in np.unique(profile.launches.lane).tolist()})
    parts, notes = [], [NOT_SAID, *profile.notes]
    for number in used:
        known = profile.devices.get(number)
        if known is None:
            notes.append(f"device {number} is not known: taken to be one {devices.default_device().name}")
        parts.append(DevicePart(f"gpu{number}", known or devices.default_device()))
    operations = _operations(profile, {part.name: part for part in parts}, notes)
    return Situation(
        name=profile.source,
        devices=tuple(parts),
        operations=tuple(operations),
        notes=tuple(notes),
        has_all_waits=False,
    )


def _operations(profile: Profile, parts: dict[str, DevicePart], notes: list[str]) -> list[StreamOperation]:
    """One operation per shape and stream, in the order in which the host first launched them."""
    launches = profile.launches
    rows = np.flatnonzero(launches.is_kernel)
    times = np.where(launches.host_ns == UNKNOWN_NS, launches.start_ns, launches.host_ns)[rows]
    rows = rows[np.argsort(times, kind="stable")]
    pairs = np.stack([launches.shape[rows], launches.lane[rows]], axis=1)
    firsts = np.sort(np.unique(pairs, axis=0, return_index=True)[1])
    if len(firsts) < len(rows):
        notes.append(f"{len(rows):,} launches of {len(firsts):,} kernels: the first of each stands for all.")
    if len(firsts) > MOST_OPERATIONS:
        notes.append(f"The first {MOST_OPERATIONS:,} of {len(firsts):,} kernels were looked at.")
    names: dict[str, int] = {}
    operations, left_out = [], 0
    for shape, lane in pairs[firsts[:MOST_OPERATIONS]].tolist():
        operation = _operation(profile.shapes[shape], profile, lane, parts)
        if operation is None:
            left_out += 1
            continue
        names[operation.name] = names.get(operation.name, 0) + 1
        operations.append(
            operation
            if names[operation.name] == 1
            else replace(operation, name=f"{operation.name} #{names[operation.name]}")
        )
    if left_out:
        notes.append(f"{left_out:,} kernels lack a grid or a block that their device can run: left out.")
    return operations


def _operation(
    shape: LaunchShape, profile: Profile, lane: int, parts: dict[str, DevicePart]
) -> StreamOperation | None:
    where = profile.lanes[lane]
    part = parts[f"gpu{where.device}"]
    if not shape.blocks or not shape.threads:
        return None
    block = Block(shape.threads, shape.registers or 32, dynamic_shared_bytes=shape.shared_bytes or 0)
    try:
        require_runnable(part.device, block)
    except DescriptionError:
        return None
    return StreamOperation(
        name=parsed_name(shape.name).short[:MOST_NAME],
        device=part.name,
        blocks=shape.blocks,
        block=block,
        stream=where.stream,
        is_blocking=False,
        process=where.process,
    )


def verdict_on(path: Path | None, mirror: Path | None = None, waits: Path | None = None) -> HangVerdict:
    """What there is to say of files: before launch, or after a hang with what a mirror file has.

    The files are those of `read_files`, which says what is raised.
    """
    return verdict_of(*read_files(path, mirror, waits))


def verdict_of(situation: Situation, mirror: Mirror | None) -> HangVerdict:
    """The verdict on a situation, after a hang with its mirror."""
    if mirror is None:
        return judge(situation)
    return verdict_after(Autopsy(SituationFacts(situation), mirror))


def read_files(
    path: Path | None, mirror: Path | None = None, waits: Path | None = None
) -> tuple[Situation, Mirror | None]:
    """The situation, and the mirror where there is one.

    Without `path` the mirror has the launches, too. `waits` is a TOML file of waits and semaphores, for a
    profile. Raises `RecordingError` and `DescriptionError`.
    """
    if path is None:
        if mirror is None:
            raise DescriptionError(
                "FILE is missing: give the launches, or --mirror with a mirror that has them"
            )
        load_mirror(mirror)  # which refuses any other file
        path, mirror = mirror, None
    if path.is_dir():
        return situation_of_records(path), None
    with open_data(path) as file:
        start = file.read(FIRST_BYTES)
    if not start:
        raise RecordingError(f"{path}: the file is empty")
    if start.startswith(MAGIC):
        if mirror is not None:
            raise DescriptionError(
                f"{path} is a mirror itself; leave --mirror out, or give the launches as FILE"
            )
        mirror = path
        mirrored = load_mirror(path)
        if mirrored.situation is None:
            raise RecordingError(
                f"{path}: this mirror has no launches; give a file that has them, and this one as --mirror"
            )
        situation = mirrored.situation
    else:
        situation = _situation(path, start)
    if waits is not None:
        situation = with_waits(situation, waits)
    return situation, load_mirror(mirror) if mirror is not None else None


def _situation(path: Path, start: bytes) -> Situation:
    if is_flight_record(start):
        return situation_of_records(path)
    if is_debugger_text(start):
        return situation_of_text(path)
    if path.suffix != ".toml" and is_profile(path, start):
        return situation_of_profile(path)
    if path.suffix != ".toml" and not start.lstrip().startswith((b"{", b"[")):
        raise RecordingError(
            f"{path}: neither JSON, nor a mirror, nor a profile in SQLite or gzip; a file of TOML must be "
            "named so: NAME.toml"
        )
    return load_situation(path)
