"""The programs of tests/data/shake: right as they are, and with -DFAULT each lacks a fence, wait or barrier.

Example: `python tests/support/shake_programs.py --seconds 2 --out shaken.json` shakes all 40 on the GPU,
those with a fault until it shows and the others for two seconds each, and says how many it found.
"""

import argparse
import functools
import json
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import numpy as np

from wavesim_gpu.driver.compiler import compile_text
from wavesim_gpu.driver.device import architecture, require_cupy
from wavesim_gpu.driver.functions import loaded_module
from wavesim_gpu.driver.kernel_launch import KernelLaunch, launch_extended
from wavesim_gpu.shake.delayed_modules import Delays, RawModule
from wavesim_gpu.shake.shake_command import report
from wavesim_gpu.shake.shaking import ShakenProgram, shake

FOLDER = Path(__file__).parents[1] / "data" / "shake"
TABLE = tomllib.loads((FOLDER / "programs.toml").read_text())
BLOCKS, THREADS = TABLE["blocks"], TABLE["threads"]
NAMES = [*TABLE["streams"], *TABLE["dependent"], *TABLE["stream"]]
FLAGS = 4096
NOT_FOUND = ("grid_barrier_no_fence",)  # no run on a GPU has shown it


def flags_of(is_faulty):
    return ("--std=c++17", "--generate-line-info", f"-I{FOLDER}", *(["-DFAULT"] if is_faulty else []))


@functools.cache
def ptx_of(name, is_faulty, arch="sm_90a"):
    path = FOLDER / f"{name}.cu"
    return compile_text(path, path.read_text(), (), (f"--gpu-architecture={arch}", *flags_of(is_faulty))).ptx


def program(name, is_faulty):
    cupy = require_cupy()
    delays = Delays(cupy)
    n = BLOCKS * THREADS
    generator = np.random.default_rng(0)
    given = cupy.asarray(generator.integers(1, 9, n).astype(np.float32))
    data, out, flags = cupy.zeros(n, np.float32), cupy.zeros(n, np.float32), cupy.zeros(FLAGS, np.uint32)
    arguments = (*(np.uint64(array.data.ptr) for array in (given, data, out, flags)), np.int32(n))
    text = (FOLDER / f"{name}.cu").read_text()
    delayed = RawModule(delays, code=text, options=flags_of(is_faulty))
    plain = loaded_module(cupy, ptx_of(name, False, architecture(cupy)).encode())
    delays.note([given, data, out, flags])
    streams = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    how = next(how for how in ("streams", "dependent", "stream") if name in TABLE[how])

    def launch(module, kernel, stream, is_dependent=False):
        shape = KernelLaunch(kernel, THREADS, 0, BLOCKS, is_dependent=is_dependent)
        launch_extended(module.get_function(kernel), shape, arguments, stream)

    def run():
        current = cupy.cuda.get_current_stream()
        used = streams if how == "streams" else [current, current]
        begun = current.record()
        for stream in used:
            stream.wait_event(begun)
        launch(delayed, "first", used[0])
        launch(delayed, "second", used[1], is_dependent=how == "dependent")
        for stream in used:
            current.wait_event(stream.record())

    def reference():
        current = cupy.cuda.get_current_stream()
        launch(plain, "first", current)
        current.synchronize()
        launch(plain, "second", current)

    def clear():
        for array in (data, flags):
            array.fill(0)
        out.fill(np.nan)

    return ShakenProgram(name, {how: run}, reference, (out,), lambda: True, clear, delays)


def line_of(name, is_faulty, shaken):
    fault = shaken.fault
    words = [name, "fault" if is_faulty else "twin", f"{shaken.seeds} seeds, {shaken.seconds:.2f} s"]
    if fault is not None:
        sites = "; ".join(map(str, fault.sites[:2]))
        words += [f"seed {fault.disturbance.seed}, {fault.failed} of {fault.replays}: {sites}", fault.wrong]
    return " | ".join(words)


def shake_all(seconds, only="", say=lambda text: None):
    """What came out of each program, with its fault and without."""
    results = []
    for name in NAMES:
        for is_faulty in (True, False) if only in name else ():
            shaken = shake(program(name, is_faulty), seconds, limit_s=8)
            say(line_of(name, is_faulty, shaken))
            results.append({"program": name, "is_faulty": is_faulty, **report(shaken)})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="")
    options = parser.parse_args()

    def say(text):
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    begin = time.monotonic()
    results = shake_all(options.seconds, options.only, say)
    wrong = Counter(result["is_faulty"] for result in results if result["fault"])
    say(f"found {wrong[True]}, called wrong {wrong[False]}, {time.monotonic() - begin:.1f} s")
    if options.out:
        options.out.write_text(
            json.dumps({"found": wrong[True], "called_wrong": wrong[False], "programs": results})
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
