"""`python -m wavesim_gpu try MODEL`: a model of one's own with its MLPs swapped and without, and a verdict.

Example: `python -m wavesim_gpu try model.py --html trial.html`. The file is the user's own code, and is run.
"""

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

from wavesim.errors import DescriptionError, DeviceError
from wavesim.safe_io.bounds import bounded_text, real, whole
from wavesim.safe_io.options import integer, number
from wavesim.safe_io.writing import write_text

MOST_ROUNDS = 1000
HELP = "try a model of your own with its MLPs swapped: what it gains, or to leave it as it is"
ABOUT = (
    "MODEL is a Python file, or a module by its dotted name, with :NAME behind it where its name is not "
    "`model`. It is your own code and is run with all your rights, as Python runs it: try no file "
    "that you would not run. It defines `model` (a torch.nn.Module) or `make_model()`; `inputs` or "
    "`make_inputs()`, a tuple or a dict of tensors; and `step(model, inputs)` where one step is more than a "
    "call without gradients. Without a GPU it says what would be swapped, and what the simulator expects."
)


def add_to(commands: Any) -> None:
    """Adds the command to a program's, which `argparse` gives no public type."""
    parser = commands.add_parser("try", help=HELP, description=ABOUT)
    parser.set_defaults(run=run)
    parser.add_argument("model", metavar="MODEL", help="model.py, package.module, or either with :NAME")
    parser.add_argument("--rounds", type=integer, default=20, help="rounds of all programs in turns (20)")
    parser.add_argument("--json", type=Path, help="write everything, every round included")
    parser.add_argument("--html", type=Path, help="write the report, one self-contained page")
    parser.add_argument("--no-graph", action="store_true", help="time calls from Python, not CUDA graphs")
    parser.add_argument("--compile", action="store_true", help="compare with torch.compile too")
    parser.add_argument(
        "--limit-s", type=number, default=300.0, help="seconds after which nothing is begun (300)"
    )
    tuning = parser.add_mutually_exclusive_group()
    tuning.add_argument("--tune", action="store_true", help="tune the MLPs first, which takes minutes")
    tuning.add_argument("--no-tune", action="store_true", help="take what the simulator chooses (as without)")
    parser.add_argument("--device", help="without a GPU: the one to simulate, by the catalogue's name (h200)")


def run(options: argparse.Namespace) -> int:
    """Tries the model; writes page and JSON if asked. Raises `DescriptionError` or `DeviceError`."""
    _require_bounds(options)
    try:
        import torch  # noqa: F401, PLC0415  # named in the error
    except ImportError as error:
        raise DeviceError(f"PyTorch is not installed ({error}); pip install torch") from error
    from wavesim_gpu.trial.model_trial import TrialOptions, try_model  # noqa: PLC0415
    from wavesim_gpu.trial.trial_page import write_trial_page  # noqa: PLC0415  # the others start without these
    from wavesim_gpu.trial.trial_text import json_object, report_text  # noqa: PLC0415
    from wavesim_gpu.trial.user_model import load_user_model  # noqa: PLC0415

    user = load_user_model(options.model)
    wanted = TrialOptions(
        rounds=options.rounds,
        use_graph=not options.no_graph,
        with_compile=options.compile,
        tune=options.tune,
        limit_s=options.limit_s,
        device=options.device,
    )
    result = try_model(user, wanted, _say)
    if options.json:
        write_text(options.json, json.dumps(json_object(result)) + "\n")
    if options.html:
        write_trial_page(options.html, result)
    print(report_text(result))  # noqa: T201  # what the command is for
    return 0


def _require_bounds(options: argparse.Namespace) -> None:
    """Refuses sizes out of bounds, and an output in the place of the model's file."""
    whole("--rounds", options.rounds, 1, MOST_ROUNDS)
    real("--limit-s", options.limit_s, 1, 86_400)
    bounded_text("MODEL", options.model, 4096, "model.py")
    place = options.model if options.model.endswith(".py") else options.model.rpartition(":")[0]
    for name, path in (("--json", options.json), ("--html", options.html)):
        if path is not None and place and os.path.realpath(path) == os.path.realpath(place):
            raise DescriptionError(f"{name} is {path}, the model's own file; give another path")


def _say(text: str) -> None:
    print(f"{text} ...", file=sys.stderr, flush=True)  # noqa: T201  # progress
