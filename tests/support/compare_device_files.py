"""How far predictions lie apart under two device files, such as those of two runs of `characterise`.

Example: `.venv/bin/python tests/support/compare_device_files.py one.toml two.toml` predicts every recorded
pair from its stream-sync trace under both, and from its kernel times, and prints the largest and the median
difference in points. `--every 8` takes one case in eight.
"""

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from wavesim.model.device import load
from wavesim.plan.parsing import recorded_plan
from wavesim.predict.prediction import predict_from_kernel_times, predict_from_stream
from wavesim.recordings.shipped import RecordedCase, cases
from wavesim.trace.trace import Trace
from wavesim.workloads.catalogue import parse_tile, workload

SAME = 0.3  # points


def predictions(case: RecordedCase, name: str) -> Iterator[tuple[str, float]]:
    """Each plan of a case, from the stream-sync trace and from kernel times, in points."""
    stream, device = renamed(case.trace("stream"), name), load(name)
    pipeline = workload(case.workload, case.tokens, parse_tile(case.tile))
    kernel_ns = {
        info.name: int(stream.end_ns[rows].max() - stream.start_ns[rows].min())
        for index, info in enumerate(stream.header.stages)
        if (rows := stream.stage == index).any()
    }
    for word in sorted(set(case.paths) - {"stream"}):
        header = case.trace(word).header
        plan = recorded_plan(header.plan, header.plan_data, header.orders)
        yield f"{case.name} {word}", predict_from_stream(pipeline, plan, device, stream)[1]
        times = predict_from_kernel_times(pipeline, plan, device, kernel_ns)[1]
        yield f"{case.name} {word}, from kernel times", times


def renamed(trace: Trace, name: str) -> Trace:
    """A trace that says it was recorded on the device of that file."""
    return replace(trace, header=replace(trace.header, device={**trace.header.device, "name": name}))


def main() -> None:
    """Prints the differences."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs=2, type=Path)
    parser.add_argument("--every", type=int, default=1, help="one case in so many")
    options = parser.parse_args()
    apart = {}
    for case in cases()[:: options.every]:
        one, other = (dict(predictions(case, str(path))) for path in options.files)
        apart |= {name: abs(one[name] - other[name]) for name in one}
    worst = max(apart, key=lambda name: apart[name])
    over = sum(points > SAME for points in apart.values())
    print(  # noqa: T201  # the command's answer
        f"{len(apart)} predictions: median {statistics.median(apart.values()):.2f}, "
        f"largest {apart[worst]:.2f} points ({worst}); {over} differ by more than {SAME}"
    )


if __name__ == "__main__":
    main()
