"""Time and memory of `wavesim advise` on a large trace, made by repeating a real one with later stamps.

    .venv/bin/python tests/support/measure_import.py --mb 50 100 200

Each size is analysed by a fresh process, as a user would; seconds, peak memory and kernels are printed.
"""

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from kineto_traces import REAL

CODE = """
import json, resource, sys
from wavesim.cli.command_line import main
status = main(["advise", sys.argv[1], "--json", "--verdicts", "0"])
used = resource.getrusage(resource.RUSAGE_SELF)
sys.stderr.write(f"{used.ru_utime + used.ru_stime:.1f} s of CPU, {used.ru_maxrss // 1024} MB at most")
sys.exit(status)
"""


def multiply(source: Path, target: Path, megabytes: int) -> None:
    """Writes the trace's events again and again, each time later, until the file has that size."""
    trace = json.loads(gzip.decompress(source.read_bytes()))
    events = trace.pop("traceEvents")
    stamps = [event["ts"] for event in events if isinstance(event.get("ts"), int | float)]
    span = max(stamps) - min(stamps) + 1_000_000
    with target.open("w", encoding="utf-8") as file:
        head = json.dumps(trace)[:-1]
        file.write(f'{head}, "traceEvents": [')
        copies = 0
        while not copies or file.tell() < megabytes * 1_000_000:
            for index, event in enumerate(events):
                later = {**event, "ts": event["ts"] + copies * span} if "ts" in event else event
                file.write(("," if copies or index else "") + json.dumps(later))
            copies += 1
        file.write("]}")


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mb", type=int, nargs="+", default=[50, 100, 200])
    parser.add_argument("--trace", choices=REAL, default="h100")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        for megabytes in options.mb:
            multiply(REAL[options.trace], path, megabytes)
            start = time.perf_counter()
            done = subprocess.run(
                [sys.executable, "-c", CODE, path], capture_output=True, text=True, check=True
            )
            seconds = time.perf_counter() - start
            found = json.loads(done.stdout)
            size = path.stat().st_size / 1e6
            sys.stdout.write(f"{size:.0f} MB, {found['kernels']:,} kernels: {seconds:.1f} s, {done.stderr}\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
