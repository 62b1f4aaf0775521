"""Stream programs and machines that cannot be, each refused in a line that names the value."""

from dataclasses import replace

import pytest

from wavesim import DescriptionError
from wavesim.labs.streams.examples import SmallKernels, VectorAdd, example
from wavesim.sim.streams.machine import load_machine, machine_from
from wavesim.sim.streams.program import CudaStream, HostThread, LaunchKernel, Memcpy, StreamProgram

BOOK = load_machine()


def test_programs_and_machines_that_cannot_be_are_refused_in_a_line():
    host = [HostThread("host", [LaunchKernel("k", "t")])]
    wrong = {
        "which is not made; made are s": lambda: StreamProgram("p", [CudaStream("s")], host),
        "two streams are called s": lambda: StreamProgram("p", [CudaStream("s")] * 2, host),
        "legacy is the default stream": lambda: StreamProgram("p", [CudaStream("legacy")], host),
        "two operations are called k": lambda: StreamProgram("p", [CudaStream("t")], host * 2),
        "spins until x has ended": lambda: StreamProgram(
            "p", [], [HostThread("host", [LaunchKernel("k", until="x")])]
        ),
        "bytes is 0": lambda: Memcpy("c", "h2d", 0),
        "direction is up; it is h2d or d2h or d2d": lambda: Memcpy("c", "up", 4),
        "leave it out, or set is_async=True": lambda: Memcpy("c", "h2d", 4, "s", is_async=False),
        "block_ns is -1": lambda: LaunchKernel("k", block_ns=-1),
        "streams is 0": lambda: VectorAdd(0, 1),
        "issue is sideways": lambda: SmallKernels(issue="sideways").program(8),
        "machine is cray": lambda: load_machine("cray"),
        "duplex_share is 2": lambda: replace(BOOK, duplex_share=2),
        "h2d_bytes_per_s is 0": lambda: machine_from("m", BOOK.device, {"source": "", "h2d_bytes_per_s": 0}),
        "example is nothing": lambda: example("nothing"),
    }
    for words, make in wrong.items():
        with pytest.raises(DescriptionError) as refused:
            make()
        assert words in str(refused.value).replace("'", "")
