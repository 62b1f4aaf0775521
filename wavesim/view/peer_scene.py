"""A run on several GPUs as plain values for a browser that draws it: SMs of each, the links, what crosses.

Example: 132 thin rows for GPU 0, 132 for GPU 1, on one time axis; under them the share of the link that is in
use; arrows lead from a tile to the instant at which the other GPU has it.
"""

from itertools import pairwise
from typing import Any

from wavesim.model.link import Link
from wavesim.trace.metrics import link_rates
from wavesim.trace.spans import merged
from wavesim.trace.trace import Trace

MOST_DRAWN = 2  # GPUs; the others do the same
ARROWS_PER_GPU = 4  # that reach it
MOST_POINTS = 500
KINDS = ("computes a tile", "adds or stores tiles", "the library's all-reduce")
LIBRARY = 2  # of these


def scene_of_peers(trace: Trace, baseline_ns: int, link: Link) -> dict[str, Any]:
    """All that is drawn of a simulated run; `baseline_ns` is what one after the other takes."""
    head = trace.header
    per_device = head.sm_count // head.device_count
    drawn = min(MOST_DRAWN, head.device_count)
    origin = int(trace.issue_ns.min())
    names = [info.name for info in head.stages]
    kinds = [_kind(name) for name in names]
    end_ns = max(1, trace.makespan_ns)
    blocks = _blocks(trace, kinds, drawn * per_device, origin)
    return {
        "title": _title(trace, baseline_ns),
        "subtitle": f"simulated, not measured: {head.workload}, {head.plan_label}, {head.device_count} GPUs, "
        f"{link.most('write') / 1e9:,.0f} GB/s per direction",
        "endNs": end_ns,
        "sms": per_device,
        "gpus": drawn,
        "left": head.device_count - drawn,
        "kinds": list(KINDS),
        "names": names,
        "blocks": blocks,
        "links": [
            _link(trace, entry, (entry + 1) % head.device_count, link, origin, end_ns)
            for entry in range(drawn)
        ],
        "byLibrary": [list(span) for span in merged((at[3], at[4]) for at in blocks if at[1] == LIBRARY)],
        "arrows": _arrows(trace, drawn, origin),
    }


def _title(trace: Trace, baseline_ns: int) -> str:
    taken = f"{trace.makespan_ns / 1e3:,.0f} µs"
    if trace.header.plan == "sequence":
        return f"{taken}: while one computes the link idles, and while it carries the SMs do"
    ratio = baseline_ns / trace.makespan_ns
    if ratio >= 1:
        return f"{taken}, {ratio:.2f} times as fast as one after the other"
    return f"{taken}, slower than one after the other ({baseline_ns / 1e3:,.0f} µs)"


def _kind(stage: str) -> int:
    if any(word in stage for word in (".all-reduce.", ".reduce-scatter.", ".all-gather.")):
        return LIBRARY
    return int(any(word in stage for word in (".sum@", ".send@", ".rows@")))


def _blocks(trace: Trace, kinds: list[int], rows: int, origin: int) -> list[list[int]]:
    """[row, kind, start, end of the wait, end, stage, x, y] of every block on the drawn GPUs."""
    columns = (
        trace.sm,
        trace.stage,
        trace.start_ns - origin,
        trace.wait_ns,
        trace.end_ns - origin,
        trace.x,
        trace.y,
    )
    return [
        [sm, kinds[stage], start, start + wait, end, stage, x, y]
        for sm, stage, start, wait, end, x, y in zip(*(column.tolist() for column in columns), strict=True)
        if sm < rows
    ]


def _link(trace: Trace, source: int, target: int, link: Link, origin: int, end_ns: int) -> dict[str, Any]:
    """Share in use, averaged over slices of time; a library's collective does not say what it moves when."""
    used = [0.0] * MOST_POINTS
    width = end_ns / MOST_POINTS
    steps = link_rates(trace, source, target)
    for (begin, rate), (end, _) in pairwise(steps):
        first, last = (begin - origin) / width, (end - origin) / width
        for place in range(max(0, int(first)), min(MOST_POINTS, int(last) + 1)):
            used[place] += rate * max(0.0, min(last, place + 1) - max(first, place))
    most = link.most("write") / 1e9
    return {"name": f"GPU {source} to {target}", "used": [round(min(1.0, entry / most), 3) for entry in used]}


def _arrows(trace: Trace, gpus: int, origin: int) -> list[list[int]]:
    """[row it leaves, start, GPU it reaches, end] of a few transfers between the drawn GPUs."""
    arrows = trace.transfers
    if arrows is None or gpus < MOST_DRAWN:
        return []
    chosen: list[int] = []
    for target in range(gpus):
        inside = ((arrows.source < gpus) & (arrows.target == target)).nonzero()[0].tolist()
        step = max(1, len(inside) // ARROWS_PER_GPU)
        chosen += inside[step // 2 :: step]
    return [
        [
            int(trace.sm[arrows.block[entry]]),
            int(arrows.start_ns[entry]) - origin,
            int(arrows.target[entry]),
            int(arrows.end_ns[entry]) - origin,
        ]
        for entry in sorted(chosen)
    ]
