"""A program with worker processes that never finish, for tests of how it ends.

Example: `python tests/support/worker_program.py` prints "ready" once its two workers work; `patient` as its
argument makes it carry on after the first signal.
"""

import sys
import time

from wavesim.safe_io.program import run_program
from wavesim.safe_io.workers import worker_pool


def spin(seconds: float) -> float:
    """Works for a time, in Python, as a simulation does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    return seconds


def work() -> int:
    """Starts the workers, says so and waits for them."""
    with worker_pool(2) as pool:
        for waiting in [pool.submit(spin, 0.01) for _ in range(4)]:
            waiting.result()
        waiting = [pool.submit(spin, 600) for _ in range(4)]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        return int(waiting[0].result())


def be_patient() -> int:
    """Says that it is ready, and does not listen to the first signal."""
    try:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        time.sleep(600)
    except KeyboardInterrupt:
        sys.stdout.write("heard\n")
        sys.stdout.flush()
        time.sleep(600)
    return 0


if __name__ == "__main__":
    sys.exit(run_program("program", be_patient if "patient" in sys.argv else work))
