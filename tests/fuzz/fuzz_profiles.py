"""Kineto traces, plain and gzipped: `wavesim advise FILE`, its report, and a pair of it as a description."""

import contextlib
import gzip
import json
import random
import zlib
from pathlib import Path
from typing import Any

from harness import Target
from judging import HAS_PAGES, judged_command, judged_json, require
from mutations import bomb, nested, with_bytes_changed, with_raw_numbers, with_values_changed

from wavesim.errors import WavesimError
from wavesim.work.description.reader import load_description

GZIP = b"\x1f\x8b"
SLACK = 1e-6
SMALL = 2_000  # bytes of a trace whose page is always drawn: that takes most of the time


def made(chance: random.Random, data: bytes) -> bytes:
    """One of the ways in which a trace can be damaged or hostile."""
    way = chance.randrange(12)
    if way == 0:
        return nested(chance)
    if way == 1:
        return bomb(chance)
    if way == 2:
        return with_bytes_changed(chance, data)
    trace = _parsed(data)
    if trace is None:
        return with_bytes_changed(chance, data)
    if way == 3:
        return with_raw_numbers(chance, trace)
    if way == 4:
        trace = _many(chance, trace)
    text = json.dumps(with_values_changed(chance, trace)).encode("utf-8", errors="surrogatepass")
    if way == 5:
        text = with_bytes_changed(chance, text)
    return gzip.compress(text, compresslevel=1, mtime=0) if chance.random() < 0.2 else text


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(gzip.decompress(data) if data.startswith(GZIP) else data)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        return None


def _many(chance: random.Random, trace: Any) -> Any:
    """The trace with a few of its events thousands of times, each a little different."""
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not events:
        return trace
    chosen = [event for event in chance.choices(events, k=3) if isinstance(event, dict)]
    field = chance.choice(["name", "pid", "tid", "ts", "cat"])
    copies = [
        {**event, field: f"{event.get(field)}{n}" if field != "ts" else 10 * n}
        for n in range(chance.choice([300, 3_000]))
        for event in chosen
    ]
    return {**trace, "traceEvents": events[:50] + copies}


def call(path: Path) -> bool:
    """The advice as JSON, as text, as a page and as a description. Returns whether the file was accepted."""
    advice = judged_json(["advise", str(path), "--verdicts", "0"])
    if advice is None:
        return False
    _require_sense(advice)
    data = path.read_bytes()
    if HAS_PAGES and (len(data) < SMALL or zlib.crc32(data) % 4 == 0):
        _require_names_are_text(path)
    toml = path.with_suffix(".toml")
    if (
        judged_command(["advise", str(path), "--toml", str(toml), "--verdicts", "1", "--seconds", "0.1"])
        is not None
    ):
        with contextlib.suppress(WavesimError):  # its grids may be too large for a prediction
            load_description(toml)
    return True


def _require_names_are_text(path: Path) -> None:
    page = path.with_suffix(".html")
    require(
        judged_command(["advise", str(path), "--html", str(page), "--verdicts", "0"]) is not None,
        "text refused, JSON not",
    )
    html = page.read_text(encoding="utf-8")
    require("<img src=x" not in html and "<script>alert" not in html, "a name is markup in the page")


def _require_sense(advice: dict[str, Any]) -> None:
    """No time is negative, no share above one, and no more is won than was lost."""
    require(
        min(advice["compute_ns"], advice["tail_loss_ns"], advice["launch_gap_ns"]) >= 0, "a negative time"
    )
    require(0 <= advice["blind_share"] <= 1, f"blind share {advice['blind_share']}")
    compute = advice["compute_ns"] * (1 + SLACK) + len(advice["pairs"]) + 1
    require(advice["tail_loss_ns"] <= compute, "more lost than there was")
    require(sum(pair["recoverable_ns"] for pair in advice["pairs"]) <= compute, "more to win than there was")
    for pair in advice["pairs"]:
        require(pair["count"] > 0, "a pair that never ran")
        is_ordered = pair["low_ns"] <= pair["recoverable_ns"] <= pair["high_ns"]
        require(is_ordered, f"an estimate outside its interval: {pair}"[:300])


TARGET = Target(made, call)
