"""Wrong command lines, and right ones, each judged: status, lines, time and memory.

Example: `python tests/support/command_lines.py` runs every line of tests/unit/cli/bad_command_lines.toml in a
process of its own and prints a table by kind; with `--in-process 0 2` it runs every second one within this
process, as CI does, and prints a JSON list.
"""

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

LINES = Path(__file__).parents[1] / "unit" / "cli" / "bad_command_lines.toml"
MODULES = {"gpu": "wavesim_gpu"}  # a line's first word; others are wavesim's
MOST_SECONDS, MOST_MB = 5.0, 500
HANGS_SECONDS = 60
REPEATED = re.compile(r"<(.*?)\*(\d+)>", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """One command line. `is_right`: it is right to run."""

    kind: str
    line: str
    is_right: bool = False

    @property
    def module(self) -> str:
        """What `python -m` runs."""
        return MODULES.get(self.line.split(" ")[0], "wavesim")

    def words(self, folder: Path) -> list[str]:
        """The arguments, with the files of a folder."""
        words = shlex.split(expanded(self.line))
        words = words[1:] if self.module != "wavesim" else words
        return [f"{folder}/{word[1:]}" if word.startswith("@") else word for word in words]


@dataclass(frozen=True)
class Outcome:
    """What came of one."""

    status: int | str
    out: str
    err: str
    seconds: float
    peak_mb: float

    def complaints(self, case: Case) -> list[str]:
        """What is wrong with it."""
        wrong = {
            "a traceback": "Traceback" in self.err,
            f"status {self.status}": self.status != 2 * (not case.is_right),
        }
        if not case.is_right:
            wrong |= {
                f"{self.err.count(chr(10))} lines": self.err.count("\n") != 1 or not self.err.endswith("\n"),
                f"{len(self.err)} characters": len(self.err) > 5_000,
                "standard output": bool(self.out),
                f"{self.seconds:.1f} s": self.seconds > MOST_SECONDS,
            }
        wrong[f"{self.peak_mb:.0f} MB"] = self.peak_mb > MOST_MB
        return [text for text, is_so in wrong.items() if is_so]


def expanded(text: str) -> str:
    """`<TEXT*N>` as so many, and `\\n`, which a literal string of TOML keeps, as the end of a line."""
    return REPEATED.sub(lambda match: match[1] * int(match[2]), text.replace("\\n", "\n"))


def cases() -> list[Case]:
    """All of the file, in its order."""
    document = tomllib.loads(LINES.read_text(encoding="utf-8"))
    listed = [Case(kind, line) for kind, lines in document["lines"].items() for line in lines]
    listed += [Case("changes", f"predict @{name}") for name in changed_pairs()]
    return listed + [Case("right", line, is_right=True) for line in document["right"]["lines"]]


def changed_pairs() -> dict[str, str]:
    """The pair with each change, by file name."""
    document = tomllib.loads(LINES.read_text(encoding="utf-8"))
    pair = document["pair"]["text"]
    changes = [(old, expanded(new)) for old, every in document["changes"].items() for new in every]
    texts = [pair.replace(old, new, 1) for old, new in changes]
    assert pair not in texts, "a change that changes nothing"
    return {f"pair{number}.toml": text for number, text in enumerate(texts)}


def make_files(folder: Path) -> None:
    """Everything that a line names with @."""
    document = tomllib.loads(LINES.read_text(encoding="utf-8"))
    texts = {name: expanded(text) for name, text in document["files"].items()}
    texts |= changed_pairs() | {"pair.toml": document["pair"]["text"], "empty": ""}
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "noise").write_bytes(bytes(range(256)) * 40)
    (folder / "folder").mkdir()
    (folder / "jsons").mkdir()
    (folder / "jsons" / "a.json").write_text(texts["deep.json"])
    (folder / "loop").symlink_to("loop")
    os.mkfifo(folder / "fifo")


def run_alone(case: Case, folder: Path) -> Outcome:
    """In a process of its own."""
    with tempfile.TemporaryFile(dir=folder) as out, tempfile.TemporaryFile(dir=folder) as err:
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", case.module, *case.words(folder)],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        signal.signal(signal.SIGALRM, lambda *_: process.kill())
        signal.setitimer(signal.ITIMER_REAL, HANGS_SECONDS)
        _, status, usage = os.wait4(process.pid, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
    return Outcome(process.returncode, *texts, seconds, usage.ru_maxrss / 1024)


class _HangsError(BaseException):
    """Past all handlers but the one that waits for it."""


def run_here(case: Case, folder: Path) -> Outcome:
    """In this process: imports are done once. The peak is the process's so far, the time the processor's."""
    import wavesim.cli.command_line  # the table needs none of this
    import wavesim_gpu.__main__  # as above

    main = (wavesim_gpu.__main__ if case.module == "wavesim_gpu" else wavesim.cli.command_line).main
    out, err, began = io.StringIO(), io.StringIO(), time.process_time()

    def hang(*_: object) -> None:
        raise _HangsError

    signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, HANGS_SECONDS)
    status: int | str
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), contextlib.chdir(folder):
            status = main(case.words(folder))
    except SystemExit as error:
        status = int(error.code or 0)
    except (Exception, _HangsError) as error:  # noqa: BLE001  # whatever it is is what is judged
        status = f"a traceback: {error!r}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return Outcome(status, out.getvalue(), err.getvalue(), time.process_time() - began, own_peak_mb())


def own_peak_mb() -> float:
    """Of this process; `getrusage` also counts the memory of whoever started it, such as a large test run."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024


def table(outcomes: list[tuple[Case, Outcome]]) -> Iterator[str]:
    """A line per kind and per complaint."""
    yield f"{'kind':<14}{'lines':>6}{'as they must':>14}{'slowest s':>11}{'most MB':>9}"
    for kind in dict.fromkeys(case.kind for case, _ in outcomes):
        own = [(case, outcome) for case, outcome in outcomes if case.kind == kind]
        good = sum(not outcome.complaints(case) for case, outcome in own)
        slowest, most = max(outcome.seconds for _, outcome in own), max(outcome.peak_mb for _, outcome in own)
        yield f"{kind:<14}{len(own):>6}{good:>14}{slowest:>11.1f}{most:>9.0f}"
    for case, outcome in outcomes:
        if complaints := outcome.complaints(case):
            yield f"{case.kind}: {case.line[:80]!r}: {', '.join(complaints)}: {outcome.err.strip()[-200:]!r}"


def main() -> int:
    """Judges all lines, or a share of them; status 1 where one is not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--in-process", nargs=2, type=int, metavar=("SHARE", "OF"))
    parser.add_argument("--kind", help="of this kind alone")
    options = parser.parse_args()
    chosen = [case for case in cases() if options.kind in (None, case.kind)]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_files(folder)
        if options.in_process:
            share, count = options.in_process
            outcomes = [(case, run_here(case, folder)) for case in chosen[share::count]]
            sys.stdout.write(json.dumps([{"case": asdict(c), "outcome": asdict(o)} for c, o in outcomes]))
            return 0
        outcomes = [(case, run_alone(case, folder)) for case in chosen]
    sys.stdout.write("\n".join(table(outcomes)) + "\n")
    return int(any(outcome.complaints(case) for case, outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
