"""The command line: `wavesim predict | compare | simulate | tune | gen | advise | pdl | lint | why-hang`.

With `--json` standard output holds exactly one JSON object; progress and messages go to standard
error. Bad input ends with status 2 and one line that says what to change.

A command is a file beside this one with `add_options(parser)` and `run(options)`, and a line in `COMMANDS`.
Only the file of the command that is named is imported.
"""

import argparse
import difflib
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from wavesim import __version__
from wavesim.cli.printing import BAD_INPUT, complain
from wavesim.errors import OF_LAB, CompileError, DeadlockError, WavesimError, naming_extra
from wavesim.safe_io.escaping import lines
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import ReaderGoneError, error_text, run_program
from wavesim.safe_io.reading import inputs_kept

COMMANDS = {
    "predict": "which plan to run for your own kernels, and what it gains; from a TOML file",
    "compare": "plans side by side, predicted and measured",
    "simulate": "simulate one plan of a workload or of your own kernels",
    "gen": "orders, policies and options as a CUDA header or Triton functions",
    "advise": "where a profile loses time, and what would win it back",
    "pdl": "which kernels of a profile are launched dependent, whether their code waits, what that wins",
    "lint": "is the synchronisation in compiled kernels in order? PTX, machine code or CUDA C++",
    "why-hang": "whether launches can hang, or why they do: who holds which SM, who waits for whom",
}
# `wavesim dev NAME` and `wavesim NAME` are the same; only the first ones are in the help.
DEV_COMMANDS = {
    "tune": "search policies, orders and options in the simulator",
    "crossover": "the best plan for each M, and a dispatch table",
    "model": "a model's layer and pass: where its time goes, and what each way of synchronising changes",
    "devices": "the GPUs that are known, and which of them were measured",
    "page": "a what-if, a race and your own pair as one HTML page that needs no kernel and no network",
    "demo": "the GPT-3 MLP at the paper's sizes: a table and an HTML page",
    "lab": "open the notebooks in JupyterLab",
    "challenge": "predict 60 pairs from their stream-sync runs, and be scored beside wavesim",
    "validate": "re-score the simulator against the stored measurements",
    "claims": "every headline figure of README and docs, with its target, device, date and command",
    "results": "a GPU benchmark's results as a page and pictures",
    "bench": "speed of the simulator itself",
}
DEV = "dev"
STATUSES = (
    "Exit status: 0; 1 where a check failed; 2 for bad input, too little memory and output that cannot be "
    "written; 130, 143 and 129 after SIGINT, SIGTERM and SIGHUP; 141 where nobody reads the output any more."
)
# Packages that wavesim asks for, and that an install without dependencies lacks.
INSTALLED_WITH = ("ijson", "numpy", "simpy")
EVALUATION = "wavesim.bench"  # the only room that the others work without


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns the exit status: 0, 1 if a check failed, 2 for bad input.

    Without `arguments` it is the whole process's, as `run_program` says, which has further statuses.
    """
    if arguments is None:
        return run_program("wavesim", lambda: main(sys.argv[1:]))
    words = list(arguments)
    if words[:1] == [DEV]:
        words = words[1:]
        if not words or words in (["-h"], ["--help"]):
            sys.stdout.write(f"wavesim dev COMMAND, or wavesim COMMAND:\n{_help(DEV_COMMANDS)}\n")
            return 0
    elif not words:
        words = ["--help"]
    warnings.showwarning = lambda message, *_: complain(str(message))  # in one line, as all else
    try:
        options = _parser(words).parse_args(words)  # their help names devices, whose files may be bad
        command: Callable[[argparse.Namespace], int] = options.command
        with inputs_kept():
            return command(options)
    except CompileError as error:
        sys.stderr.write(lines(f"wavesim: {error}\n"))  # with the compiler's log
        return BAD_INPUT
    except (WavesimError, ModuleNotFoundError) as error:
        complain(_bad_input_text(error))
        return BAD_INPUT
    except ReaderGoneError:
        raise
    except OSError as error:
        complain(error_text(error))
        return BAD_INPUT


def _bad_input_text(error: WavesimError | ModuleNotFoundError) -> str:
    """One line for an error that a user can do something about; raises any other again."""
    if isinstance(error, DeadlockError):
        return error.summary
    if isinstance(error, WavesimError):
        return str(error)
    missing = (error.name or "").partition(".")[0]
    if missing in OF_LAB:
        return str(naming_extra(error))
    if missing in INSTALLED_WITH:
        return f"this command needs {missing}, which is not installed: pip install {missing}"
    if not (error.name or "").startswith(EVALUATION):
        raise error
    return (
        f"{EVALUATION} is not installed; this command scores the simulator and needs it: install the whole "
        "package"
    )


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The commands that users need, or with `dev` the others, with options for the one that is named."""
    parser = OneLineParser(
        prog="wavesim",
        description="Predict and prove tile-level synchronisation of dependent GPU kernels.",
        epilog=f"`wavesim dev` lists {len(DEV_COMMANDS)} more, such as lab, demo and crossover. {STATUSES}",
    )
    parser.add_argument("--version", action="version", version=f"wavesim {__version__}")
    every = {**COMMANDS, **DEV_COMMANDS}
    named = next((word for word in words if not word.startswith("-")), None)
    known = (*every, DEV)
    if named is not None and (near := difflib.get_close_matches(named, known, 1)) != [named] and near:
        parser.error(f"there is no command {named!r}; did you mean {near[0]}?")
    shown = COMMANDS if named not in DEV_COMMANDS else DEV_COMMANDS
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, text in shown.items():
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("--json", action="store_true", help="one JSON object on standard output")
        if name == named:
            module = import_module(f"wavesim.cli.{name.replace('-', '_')}")
            module.add_options(command)
            command.set_defaults(command=module.run)
    return parser


def _help(commands: Mapping[str, str]) -> str:
    width = max(map(len, commands)) + 2
    return "\n".join(f"  {name:<{width}}{text}" for name, text in commands.items())


if __name__ == "__main__":
    sys.exit(main())
