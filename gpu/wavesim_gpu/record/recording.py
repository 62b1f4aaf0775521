"""A buffer on the GPU that kernels record into, and the trace that comes out of it.

Example: `recording = Recording(["gemm1", "gemm2"], capacity=288)`; `recording.buffer` goes to both kernels as
their last argument; after the run `recording.trace(plan=StreamSync())` is an ordinary trace.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wavesim.model import device as devices
from wavesim.model.device import Device
from wavesim.plan.plan import Plan
from wavesim.trace.trace import Trace
from wavesim_gpu.driver.device import query, versions
from wavesim_gpu.record.buffers import check_buffer, empty_words, like, synchronise, to_numpy
from wavesim_gpu.record.layout import HEADER, WORD, recording_bytes, recording_header
from wavesim_gpu.record.stamps import within
from wavesim_gpu.record.tile_records import Stages, records_of, trace_of


class Recording:
    """Room for `capacity` tiles of all stages together, on the current GPU.

    `library` makes the buffer: "cupy" or "torch"; or give `buffer`, your own row of 4-byte integers.
    Raises `DescriptionError` for a buffer that is too small or of another kind.
    """

    def __init__(
        self,
        stages: Stages,
        *,
        capacity: int,
        library: Literal["cupy", "torch"] = "cupy",
        buffer: Any = None,
    ) -> None:
        self.stages, self.capacity = stages, capacity
        words = recording_bytes(capacity) // WORD
        self.buffer = empty_words(library, words) if buffer is None else buffer
        check_buffer(self.buffer, words)
        self._blank = like(self.buffer, recording_header(capacity))
        self.reset()

    def reset(self) -> None:
        """Empties it, in the order of the library's current stream; can be captured in a graph."""
        self.buffer[: len(self._blank)] = self._blank

    def records(self) -> NDArray[Any]:
        """What was recorded, waiting for the GPU first. Raises `RecordingError`."""
        synchronise(self.buffer)
        head = self.buffer[: HEADER.itemsize // WORD]
        count = min(int(to_numpy(head)[2].view(np.uint32)), self.capacity)
        return records_of(to_numpy(self.buffer[: recording_bytes(max(1, count)) // WORD]))

    def trace(
        self,
        *,
        plan: Plan | None = None,
        device: Device | str | None = None,
        workload: str = "recorded",
        about: Mapping[str, Any] | None = None,
    ) -> Trace:
        """The trace of the last run. `device` None asks CuPy; else a `Device` or a catalogued name ("h200").

        The other arguments are `trace_of`'s. Raises `RecordingError`.
        """
        records = self.records()
        result = query() if device is None else devices.load(device) if isinstance(device, str) else device
        if device is None:  # a wrong device that is given is still refused
            records = within(records, result.sm_count)
        known = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "versions": _versions(device is None)}
        return trace_of(
            records, self.stages, result, plan=plan, workload=workload, about={**known, **(about or {})}
        )


def _versions(has_cupy: bool) -> dict[str, str]:
    return versions() if has_cupy else {"numpy": np.__version__}
