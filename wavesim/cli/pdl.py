"""`wavesim pdl`: which kernels of a profile are launched dependent, whether their code waits, what that wins.

Example: `wavesim pdl trace.json.gz build/libkernels.so` says of each edge: launched dependent or
not, waits and triggers in the device code, overlap measured, overlap simulated, and what to change.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from wavesim.cli.printing import print_result
from wavesim.safe_io.bounds import whole
from wavesim.safe_io.escaping import whole_line
from wavesim.safe_io.options import integer, number

if TYPE_CHECKING:
    from wavesim.profile.dependent_edges import StreamEdge
    from wavesim.profile.device_half import DeviceHalf

SHOWN, SIMULATED, SECONDS = 20, 5, 20.0
MOST = 1_000


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("profile", type=Path, help="PyTorch-profiler JSON (or .gz), or Nsight Systems sqlite")
    parser.add_argument(
        "binaries", type=Path, nargs="*", help="where its kernels are: PTX, cubin, fatbin, .so, or a folder"
    )
    parser.add_argument("--device", help="the device it ran on, where the profile does not say")
    parser.add_argument("--edges", type=integer, default=SHOWN, help=f"how many edges to print ({SHOWN})")
    parser.add_argument(
        "--simulate",
        type=integer,
        default=SIMULATED,
        help=f"of how many to simulate the overlap ({SIMULATED})",
    )
    parser.add_argument(
        "--seconds", type=number, default=SECONDS, help=f"for all of them together ({SECONDS:g})"
    )


def run(options: argparse.Namespace) -> int:
    """Reads profile and code, joins them; status 1 where a kernel that starts early never waits."""
    from wavesim.profile.advice import advise
    from wavesim.profile.dependent_edges import edges_of, verdict
    from wavesim.profile.device_half import halves_of
    from wavesim.profile.profile_file import load_profile

    whole("--edges", options.edges, 1, MOST)
    whole("--simulate", options.simulate, 0, MOST)
    halves = halves_of(options.binaries)
    advice = advise(load_profile(options.profile, options.device))
    edges = edges_of(advice, halves, options.simulate, options.seconds)
    line = verdict(edges, bool(options.binaries))
    document = {"verdict": line, "edges": [edge.as_json() for edge in edges]}
    text = [line, *advice.profile.notes, *(text for edge in edges[: options.edges] for text in _lines(edge))]
    if len(edges) > options.edges:
        text.append(f"{len(edges) - options.edges} more edges: --edges, or --json for all")
    print_result(options, document, "\n".join(map(whole_line, text)))
    return int(any(edge.is_dependent and edge.consumer and not edge.consumer.waits for edge in edges))


def _lines(edge: "StreamEdge") -> list[str]:
    pair = edge.pair
    word = {True: "dependent", False: "not dependent", None: "not said"}[edge.is_dependent]
    possible = f"possible not simulated: {edge.why}"
    if edge.possible_ns is not None:
        possible = f"{edge.possible_ns / 1_000:.1f} us possible, simulated as if it read the kernel before"
    return [
        f"{pair.producer.label} -> {pair.consumer.label}, {pair.count} times: {word} ({edge.how})",
        f"    code: {_code('the kernel before', edge.producer)}; {_code('it', edge.consumer)}",
        f"    overlap a launch: {edge.achieved_ns / 1_000:.1f} us measured; {possible}",
        f"    change: {edge.change}",
    ]


def _code(who: str, half: "DeviceHalf | None") -> str:
    if half is None:
        return f"{who} is in no binary given"
    waits = (
        f"waits after {half.before_wait:.0%} of its code" if half.before_wait is not None else "never waits"
    )
    after = half.after_trigger
    triggers = f"triggers before {after:.0%} of it" if after is not None else "never triggers"
    several = f" ({half.count} instances of that name)" if half.count > 1 else ""
    return f"{who} {waits} and {triggers}{several}{': ' + ', '.join(half.faults) if half.faults else ''}"
