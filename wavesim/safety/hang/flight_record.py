"""NCCL's flight recorder, a file a rank: which rank has not launched the collective that the others are in.

Example: ranks 0 and 2 have started all_reduce 17 of group "tp"; rank 1 has launched all_gather 17 there:
nobody launches the all_reduce that they wait for. PyTorch writes the files where a collective times out
(TORCH_FR_BUFFER_SIZE, TORCH_FR_DUMP_TEMP_FILE, or torch._C._distributed_c10d._dump_nccl_trace()).

Source: PyTorch 2.9, torch/csrc/distributed/c10d/FlightRecorder.hpp.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wavesim.errors import RecordingError
from wavesim.model import device as devices
from wavesim.safe_io.pickled_data import data_of_pickle
from wavesim.safe_io.reading import read_bytes
from wavesim.safety.hang.situation import BlockWait, DevicePart, PostedSemaphore, Situation
from wavesim.sim.streams.stream_order import StreamOperation

MOST_BYTES = 64 << 20
MOST_RANKS = 64
_RANK = re.compile(r"(\d+)(?:\.\w+)?$")


class RecordedCollective(NamedTuple):
    """One that a rank launched: of a process group, by its number there."""

    group: str
    number: int
    name: str
    state: str

    @property
    def label(self) -> str:
        """Its name and number."""
        return f"{self.name} {self.number} of {self.group}"


def is_flight_record(start: bytes) -> bool:
    """Whether a file is one, by its first bytes: a pickle, or JSON with its fields."""
    return start[:1] == b"\x80" or (b'"entries"' in start and b'"version"' in start)


def situation_of_records(path: Path) -> Situation:
    """The collectives that are not over, and the ranks that do not take part. Raises `RecordingError`.

    `path` is a folder of the ranks' files, or one of them: those of its name but for the number are read.
    """
    files = _files(path)
    if len(files) > MOST_RANKS:
        raise RecordingError(f"{path}: {len(files):,} ranks; at most {MOST_RANKS} are read")
    ranks = {rank: _collectives(file) for rank, file in files.items()}
    pending = {rank: _first_pending(launched) for rank, launched in ranks.items()}
    operations, waits, missing, notes = [], [], {}, []
    for rank, collectives in pending.items():
        for mine in collectives:
            name = f"rank {rank}: {mine.label}"
            operations.append(StreamOperation(name, f"rank {rank}", stream=mine.group, is_blocking=False))
            for other in sorted(set(ranks) - {rank}):
                if said := _absence(mine, other, ranks[other], pending[other]):
                    missing[said] = PostedSemaphore(said)
                    waits.append(BlockWait(name, semaphore=said))
    if not waits and operations:
        notes.append(
            "all ranks that were read are in the same collectives: a rank is missing, or the network"
        )
    return Situation(
        name=path.name,
        devices=[DevicePart(f"rank {rank}", devices.default_device()) for rank in ranks],
        operations=operations,
        waits=waits,
        semaphores=list(missing.values()),
        notes=[f"{len(ranks)} ranks were read; the GPU is not in the record, and one is assumed", *notes],
        has_all_waits=bool(waits) or not operations,
    )


def _files(path: Path) -> dict[int, Path]:
    folder, stem = (path, "") if path.is_dir() else (path.parent, _RANK.sub("", path.name))
    named = ((_RANK.search(file.name), file) for file in sorted(folder.iterdir()) if file.is_file())
    files = {int(match[1]): file for match, file in named if match and file.name.startswith(stem)}
    if not files and path.is_dir():
        raise RecordingError(f"{path}: no file whose name ends in a rank's number")
    return files or {0: path}


def _collectives(path: Path) -> list[RecordedCollective]:
    data = read_bytes(path, MOST_BYTES)
    try:
        document = data_of_pickle(data, path) if data[:1] == b"\x80" else json.loads(data)
    except RecordingError:
        raise
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path}: neither JSON nor a pickle: {str(error)[:80]}") from None
    entries = document.get("entries") if isinstance(document, Mapping) else None
    if not isinstance(entries, list):
        raise RecordingError(f"{path}: field 'entries' is missing: no record of NCCL's flight recorder")
    return [_collective(entry, path, number) for number, entry in enumerate(entries)]


def _collective(entry: Any, path: Path, number: int) -> RecordedCollective:
    said = entry if isinstance(entry, Mapping) else {}
    name, state, group = said.get("profiling_name"), said.get("state"), said.get("process_group", ("", ""))
    place = said.get("collective_seq_id", said.get("seq_id"))
    if not isinstance(name, str) or not isinstance(state, str) or not isinstance(place, int):
        raise RecordingError(f"{path}: entries[{number}] lacks profiling_name, state or collective_seq_id")
    words = group if isinstance(group, str) else " ".join(str(word) for word in list(group)[:2])
    return RecordedCollective(words[:60], place, name.rpartition(":")[2][:60], state)


def _first_pending(launched: Sequence[RecordedCollective]) -> list[RecordedCollective]:
    """Of each group the first that is not over."""
    first: dict[str, RecordedCollective] = {}
    for collective in launched:
        if collective.state != "completed":
            first.setdefault(collective.group, collective)
    return list(first.values())


def _absence(
    mine: RecordedCollective,
    rank: int,
    launched: Sequence[RecordedCollective],
    pending: Sequence[RecordedCollective],
) -> str:
    """What keeps a rank from a collective; "" where it is in it, has been, or is of other groups."""
    own = [other for other in launched if other.group == mine.group]
    same = [other for other in own if other.number == mine.number]
    if same and same[0].name == mine.name:
        return ""
    if same:
        return f"rank {rank} to launch {mine.label}: it launched {same[0].label}"
    if not own or own[-1].number > mine.number:
        return ""
    behind = f"; it is in {pending[0].label}" if pending else f"; its last is {own[-1].label}, which is over"
    return f"rank {rank} to launch {mine.label}{behind}"
