"""What a target's output has to be: text for a terminal, finite numbers, and a command's four ways to end."""

import contextlib
import importlib.util
import io
import json
import math
from collections.abc import Sequence
from typing import Any

from harness import NonsenseError

from wavesim.cli.command_line import main

BAD_INPUT = 2
HAS_PAGES = importlib.util.find_spec("plotly") is not None
MOST = 2**63  # of any integer that is printed


def said_by(words: Sequence[str]) -> tuple[int, str, str]:
    """Exit status, standard output and standard error of a wavesim command."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="\n") for _ in range(2))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    texts = []
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
        texts.append(stream.read())
    return status, *texts


def judged_command(words: Sequence[str]) -> str | None:
    """What a command printed, None where it refused its input. Raises `NonsenseError` for another end."""
    status, out, err = said_by(words)
    require_plain(out)
    require_plain(err)
    if status == BAD_INPUT:
        require(not out, f"standard output with status 2: {out[:200]!r}")
        require(err.count("\n") == 1, f"status 2 with {err.count(chr(10))} lines: {err[:300]!r}")
        return None
    require(status in (0, 1), f"status {status}: {err[:300]!r}")
    return out


def judged_json(words: Sequence[str]) -> Any:
    """The object that a command prints with --json, None where it refused. Raises `NonsenseError`."""
    out = judged_command([*words, "--json"])
    if out is None:
        return None
    try:
        document = json.loads(out, parse_constant=_not_finite)
    except ValueError as error:
        raise NonsenseError(f"not one JSON object: {error}: {out[:200]!r}") from None
    require_finite(document)
    return document


def _not_finite(word: str) -> None:
    raise NonsenseError(f"{word} in JSON")


def require(is_met: bool, what: str) -> None:
    """Raises `NonsenseError`."""
    if not is_met:
        raise NonsenseError(what)


def require_plain(text: str) -> None:
    """Nothing but printable characters and line ends. Raises `NonsenseError`."""
    bad = {letter for letter in text if not letter.isprintable() and letter != "\n"}
    require(not bad, f"control characters {sorted(bad)[:5]} in the output")


def require_finite(value: Any) -> None:
    """No number beyond what 64 bits hold. Raises `NonsenseError`."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            require_finite(item)
    elif isinstance(value, int | float):
        require(math.isfinite(value) and abs(value) < MOST, f"{str(value)[:40]} in the output")
