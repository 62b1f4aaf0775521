"""Results of a search, which goes on from them (`tune --results FILE`), and of a benchmark."""

import contextlib
import json
import random
import shutil
from pathlib import Path

from harness import NonsenseError, Target
from judging import HAS_PAGES, judged_command, require
from mutations import with_bytes_changed, with_raw_numbers, with_values_changed

from wavesim.bench.gpu_results import load_results
from wavesim.errors import WavesimError
from wavesim.tuning.results_file import ResultsFile


def made(chance: random.Random, data: bytes) -> bytes:
    """Lines lost, torn, doubled, or with other values."""
    if chance.random() < 0.3:
        return with_bytes_changed(chance, data)
    lines = data.splitlines(keepends=True)
    for _ in range(chance.choice([1, 1, 3])):
        if lines:
            place = chance.randrange(len(lines))
            lines[place] = _line(chance, lines[place])
    if chance.random() < 0.2:
        chance.shuffle(lines)
    return b"".join(lines) * chance.choice([1, 1, 1, 40])


def _line(chance: random.Random, line: bytes) -> bytes:
    try:
        value = json.loads(line)
    except ValueError:
        return with_bytes_changed(chance, line)
    text = json.dumps(with_values_changed(chance, value)).encode("utf-8", errors="surrogatepass")
    return (with_raw_numbers(chance, value) if chance.random() < 0.3 else text) + chance.choice(
        [b"\n", b"\n", b""]
    )


def call(path: Path) -> bool:
    """A search goes on, and the benchmark is shown. Returns whether either did."""
    goes_on = _goes_on(path)
    if HAS_PAGES:
        return judged_command(["results", str(path)]) is not None or goes_on
    with contextlib.suppress(WavesimError):
        return bool(load_results(path)) or goes_on
    return goes_on


def _goes_on(path: Path) -> bool:
    """Appends a result. A refused file stays as it is, an accepted one keeps every whole line."""
    copy, before = path.with_suffix(".jsonl"), path.read_bytes()
    shutil.copy(path, copy)
    try:
        results = ResultsFile(copy)
    except WavesimError:
        require(copy.read_bytes() == before, "a file that was refused is not as it was")
        return False
    try:
        results.append("a new key", "row", 7)
    finally:
        results.close()
    whole = [line for line in before.split(b"\n")[:-1] if line.strip()]
    after = copy.read_bytes().split(b"\n")
    lost = [line for line in whole if line not in after]
    if lost:
        raise NonsenseError(f"lost {len(lost)} of {len(whole)} lines: {lost[0][:100]!r}")
    again = ResultsFile(copy)
    require(again.known.get("a new key") == 7, "what was appended is not read back")
    again.close()
    return True


TARGET = Target(made, call)
