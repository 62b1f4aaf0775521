"""Products across two GPUs beside what libraries do: right results first, then times in turns.

A process per rank stays for many shapes. Example: the case 2,048 x 4,096 x 8,192 goes to both, which check
and time every way together; rank 0 answers. Needs two GPUs of one host with peer access, and PyTorch. With
the devices (0, 0) both ranks have one GPU in turns: results, a rank that ends and ranks that are held up can
be tried, but there is no link to time. NVLink multicast stays off.
"""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wavesim.bench.results import ResultRow
from wavesim.errors import DescriptionError, WavesimError
from wavesim_gpu.bench.kinds.two_gpus.cases import Setting
from wavesim_gpu.bench.measuring_process import MeasuringProcess
from wavesim_gpu.bench.rows import MeasuredCase

# What one process may hand out to peers: nothing of it is freed before the process ends.
MEMORY_BYTES = 40e9
ROUNDS = 7
# Ways, products and all-reduces alone, both; PyTorch's calls; whole decoders.
TIMED = ("times", "alone", "both", "operators", "model")


class Ranks:
    """A process per rank, which are started with the first question and end together."""

    def __init__(self, devices: Sequence[int], make: Any = None) -> None:
        self._devices, self._make = tuple(devices), make or rank_worker
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._processes: list[MeasuringProcess] = []

    def ask(self, limit_s: float, setting: Setting, size: tuple[int, int, int]) -> Any:
        """What rank 0 answers. Where one fails all are ended, and the next question gets new ones."""
        if not self._processes:
            self._folder = tempfile.TemporaryDirectory()
            meeting = str(Path(self._folder.name) / "meeting")
            ranks = range(len(self._devices))
            self._processes = [MeasuringProcess(self._make, rank, self._devices, meeting) for rank in ranks]
        try:
            for process in self._processes:
                process.send("take", setting, size)
            result = self._processes[0].answer(limit_s)
            if setting.part != "killed":
                for process in self._processes[1:]:
                    process.answer(limit_s)
        except WavesimError:
            self.close()
            raise
        if setting.part == "killed":
            self.close()
        return result

    def close(self) -> None:
        """Ends all of them."""
        for process in self._processes:
            process.close()
        self._processes = []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def rank_worker(rank: int, devices: tuple[int, ...], meeting: str) -> Any:
    """What a rank's process runs; called there."""
    from wavesim_gpu.bench.kinds.two_gpus.worker import RankWorker  # noqa: PLC0415  # PyTorch

    return RankWorker(rank, devices, meeting)


class PeerMeasurer:
    """Measures shapes; a case's fields are m, k and n, and perhaps part, kind, ways, calls and devices."""

    limit_s = 180.0
    starts_processes = True

    def __init__(self, commit: str, rounds: int, make: Any = None) -> None:
        self._rounds, self._make = rounds or ROUNDS, make
        self._ranks: dict[tuple[int, ...], Ranks] = {}
        self._bytes = 0.0

    def prepare(self, cases: Sequence[Any]) -> None:
        """Raises `DescriptionError` for times where ranks share a GPU."""
        for case in cases:
            _, setting, devices = self._told(case)
            if setting.part in TIMED and len(set(devices)) < len(devices):
                raise DescriptionError(
                    f"{case.name}: devices are {devices}; ranks that share a GPU have no link to time. Use "
                    "part = 'skew' or 'killed'"
                )

    def measure(self, case: Any, has_traces: bool = False) -> MeasuredCase:
        """A row per way of a timed shape, one of anything else."""
        size, setting, devices = self._told(case)
        ranks = self._ranks.setdefault(devices, Ranks(devices, self._make))
        self._bytes += _bytes_of(setting, size)
        if self._bytes > MEMORY_BYTES:
            ranks.close()
            self._bytes = 0.0
        result = ranks.ask(self.limit_s, setting, size)
        rows = [_row(case.name, setting.kind, entry) for entry in result]
        return MeasuredCase(
            rows,
            notes={entry["way"]: {key: entry[key] for key in set(entry) - {"way", "ns"}} for entry in result},
        )

    def close(self) -> None:
        """Ends the ranks."""
        for ranks in self._ranks.values():
            ranks.close()

    def _told(self, case: Any) -> tuple[tuple[int, int, int], Setting, tuple[int, ...]]:
        fields: Mapping[str, Any] = case.fields
        size = (int(fields["m"]), int(fields["k"]), int(fields["n"]))
        devices = tuple(fields.get("devices", (0, 1)))
        setting = Setting(
            fields.get("part", "both"),
            fields.get("collective", "all-reduce"),
            self._rounds,
            int(fields.get("calls", 10_000)),
            len(devices),
            tuple(fields.get("ways", ())),
        )
        return size, setting, devices


def _row(case: str, kind: str, result: Mapping[str, Any]) -> ResultRow:
    error = "" if result["is_right"] else f"relative error {result['error']}"
    words = result.get("words", "")
    return ResultRow(
        case, kind, result["way"], result["is_right"], tuple(result["ns"]), error=error, words=words
    )


def _bytes_of(setting: Setting, size: tuple[int, int, int]) -> int:
    """Of what peers may reach."""
    if setting.part not in ("times", "alone", "both"):
        return 0  # one program, or a few small ones
    from wavesim.work.collective import Collective  # noqa: PLC0415  # only for these
    from wavesim_gpu.bench.kinds.two_gpus.variants import variants_of  # noqa: PLC0415  # as above
    from wavesim_gpu.peers.regions import layout_of  # noqa: PLC0415  # as above

    ways = variants_of(size, Collective(setting.kind), setting.ranks)
    return sum(
        layout_of(entry.problem, entry.options.way).bytes for result in ways.values() for entry in result
    )
