"""How much of a link is in use over time, from the transfers of a trace of several devices.

Example: 17 tiles of 64 KB at a time, 20 GB/s each, are 343 GB/s from GPU 0 to GPU 1 until the last has left.
"""

from wavesim.trace.trace import Trace


def link_rates(trace: Trace, source: int, target: int) -> list[tuple[int, float]]:
    """[(time in ns, GB/s from then on)] of one direction; empty where nothing crosses."""
    found = trace.transfers
    if found is None:
        return []
    changes: list[tuple[int, float]] = []
    for one in ((found.source == source) & (found.target == target)).nonzero()[0].tolist():
        start, end = int(found.start_ns[one]), int(found.end_ns[one])
        rate = float(found.bytes[one]) / max(1, end - start)
        changes += [(start, rate), (end, -rate)]
    rate, steps = 0.0, list[tuple[int, float]]()
    for time, change in sorted(changes):
        rate = max(0.0, rate + change)
        if steps and steps[-1][0] == time:
            steps.pop()
        steps.append((time, rate))
    return steps
