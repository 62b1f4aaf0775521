"""What commands say and draw of a trace from inside kernels: SMs by time, tails, waits.

Example: `wavesim advise rows.chrome_trace --html rows.html` reads what Triton's Proton recorded of each
block; `wavesim simulate --file pair.toml --sync row --beside rows.chrome_trace` sets it beside what is
predicted.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from wavesim.cli.printing import complain, print_result
from wavesim.safe_io.escaping import whole_line
from wavesim.trace.trace import Trace


def in_kernel_trace(path: Path, device: str | None) -> Trace | None:
    """The trace of such a file; None where it is another kind. Raises `RecordingError`."""
    from wavesim.model import device as devices
    from wavesim.profile.in_kernel import load_in_kernel

    return load_in_kernel(path, None if device is None else devices.load(device))


def trace_line(trace: Trace) -> str:
    """One line: how many blocks where, how long, and where the SMs' time went."""
    from wavesim.trace.metrics import metrics_of

    metrics, head = metrics_of(trace), trace.header
    kernels = ", ".join(info.name for info in head.stages[:3]) + (" ..." if len(head.stages) > 3 else "")

    def share(time_ns: float) -> str:
        return f"{time_ns / metrics.makespan_ns:.0%}" if metrics.makespan_ns else "0%"

    return (
        f"{head.workload}: {len(trace):,} blocks of {kernels} on {head.sm_count} SMs, "
        f"{metrics.makespan_ns / 1e3:.1f} us {head.source}; busy {share(metrics.busy_ns)}, waiting "
        f"{share(metrics.waiting_ns)}, tails and empty slots {share(metrics.tail_loss_ns)}, between kernels "
        f"{share(metrics.launch_gap_ns)}"
    )


def report_trace(options: argparse.Namespace, trace: Trace) -> int:
    """Prints what `trace_line` says, and draws the timeline with `--html`."""
    from wavesim.trace.metrics import metrics_of

    if options.html is not None:
        from wavesim.view.page import write_page
        from wavesim.view.timeline_figure import timeline

        write_page(options.html, title=trace.header.workload, figures=[timeline([trace])])
        complain(f"{options.html}: the page, complete in one file")
    lines = [trace_line(trace), *([trace.header.note] if trace.header.note else [])]
    document = {
        "workload": trace.header.workload,
        "blocks": len(trace),
        "kernels": [info.name for info in trace.header.stages],
        "note": trace.header.note,
        **asdict(metrics_of(trace)),
    }
    return print_result(options, document, "\n".join(map(whole_line, lines)))
