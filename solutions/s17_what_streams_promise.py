"""Solutions to notebook 17."""

from wavesim.sim.streams.program import RecordEvent, WaitEvent
from wavesim.teaching.stream_programs import CONSUME, EXTRA, PRODUCE

ANSWERS = {
    # 1,125 µs; six to ten are within a hundredth of it.
    "17.1": 8,
    # Nine kernels one after the other, but for two pairs of neighbours in the queue of different streams.
    "17.2": 700,
    # Nothing that waits for a kernel stands before a copy that could run.
    "17.3": ["a0", "b0", "k0", "a1", "b1", "k1", "c0", "c1"],
    # The null stream is to wait for k1's stream, and k2 for nobody.
    "17.4": {"s2"},
    # Recorded after produce and before extra.
    "17.5": [PRODUCE, RecordEvent("made", "a"), EXTRA, WaitEvent("made", "b"), CONSUME],
}
