"""What `simulate`, `compare` and `predict` do with a description of several GPUs.

Example: `wavesim compare --file two.toml` lists every way of communicating with its simulated time; `wavesim
simulate --file two.toml --way stores:8 --sync row` is one of them, with semaphores that tell of rows.
"""

import argparse
from typing import Any

from wavesim.cli.pictures import write_pictures
from wavesim.cli.printing import print_result, progress
from wavesim.errors import DescriptionError
from wavesim.plan.policy import Policy, TileSync, parse_policy
from wavesim.safe_io.bounds import MOST_COMPARED, listed
from wavesim.work.description.reader import Description

SIMULATED = "simulated, not measured"
USUAL_WAY = "stores"


def of_several(description: Description | None, options: argparse.Namespace) -> Description | None:
    """The description where it is one of several GPUs. Raises `DescriptionError` for `--way` of another."""
    if description is not None and description.host is not None:
        return description
    if getattr(options, "way", None) is not None:
        raise DescriptionError(
            f"way is {options.way!r}, and one GPU is described; leave --way out, or add [gpus]"
        )
    return None


def simulate_several(description: Description, options: argparse.Namespace) -> int:
    """One way, beside one after the other. Raises `DescriptionError` where it cannot be."""
    unit = TileSync() if options.sync == "stream" else parse_policy(options.sync)
    way = USUAL_WAY if options.way is None else options.way
    return _run(description, options, (way,), unit, both_shots=False, is_one=True)


def compare_several(description: Description, options: argparse.Namespace) -> int:
    """Several ways, `--way` or all."""
    from wavesim.predict.peer_forecast import TRIED

    words = (*TRIED, "exchange") if options.way is None else listed("way", options.way, MOST_COMPARED)
    return _run(description, options, tuple(words), TileSync())


def predict_several(description: Description, options: argparse.Namespace) -> int:
    """All ways; the best is named."""
    from wavesim.predict.peer_forecast import TRIED

    return _run(description, options, (*TRIED, "exchange"), TileSync())


def _run(
    description: Description,
    options: argparse.Namespace,
    ways: tuple[str, ...],
    unit: Policy,
    *,
    both_shots: bool = True,
    is_one: bool = False,
) -> int:
    from wavesim.predict.peer_forecast import forecast_ways, history_text

    host = description.host
    assert host is not None
    result = forecast_ways(
        description.pipeline,
        host,
        description.device,
        ways,
        unit,
        kernel_ns=description.kernel_ns,
        both_shots=both_shots,
        progress=progress("simulating", after_s=3.0),
    )
    if is_one and result.refused:
        raise DescriptionError(next(iter(result.refused.values())))
    what = (
        f"{description.pipeline.name} on {host.gpus} GPUs ({description.device.name}, link {host.link.name})"
    )
    lines = [f"{what}, {SIMULATED}", f"{'way':<22}{'us':>10}{'times':>8}{'hidden':>9}"]
    lines += [
        f"{time.word:<22}{time.time_ns / 1e3:>10.1f}{result.speedup(time):>8.2f}{result.hidden(time):>9.0%}"
        for time in result.times
    ]
    lines += [f"{word:<22}cannot be: {why}" for word, why in result.refused.items()]
    best = result.best
    lines.append(f"best: {best.word}, {best.way.text}")
    lines.append("hidden: of what one after the other takes beyond the longer of its two parts")
    lines.append(f"before: {history_text()}")

    def figures() -> list[Any]:
        from wavesim.view.timeline_figure import timeline

        return [timeline(way.trace) for way in dict.fromkeys((result.baseline, shown))]

    shown = result.times[1] if len(result.times) == 2 else best
    drawn = [way.trace for way in dict.fromkeys((result.baseline, shown))]
    write_pictures(options, f"{what}: {SIMULATED}", drawn, None, figures, notes=lines)
    document = {
        "workload": description.pipeline.name,
        "device": description.device.name,
        "gpus": host.gpus,
        "link": host.link.name,
        "best": best.word,
        "ways": [
            {
                "way": time.word,
                "time_ns": time.time_ns,
                "speedup": round(result.speedup(time), 3),
                "hidden": round(result.hidden(time), 3),
            }
            for time in result.times
        ],
        "refused": dict(result.refused),
        "basis": SIMULATED,
        "before": history_text(),
    }
    return print_result(options, document, "\n".join(lines))
