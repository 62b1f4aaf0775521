"""Fuzzes the import of profiles: damaged, reordered and hostile files, each of which must end well.

    nice -n 19 .venv/bin/python tests/support/fuzz_profiles.py --minutes 10

Ends well: a `Profile` whose advice can be computed, or a `RecordingError` of one line, within 20 s of CPU
and 1,500 MB. Anything else is written to --out with the seed that made it, and the exit is 1.
"""

import argparse
import copy
import gzip
import json
import random
import resource
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wavesim.advise.advice import advise
from wavesim.advise.advice_text import summary_text
from wavesim.advise.profile_file import EXAMPLE, load_profile
from wavesim.errors import WavesimError

MAX_MB = 1_500
MAX_SECONDS = 20
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, "", "x" * 5000, "\u0000", "\ud83d\ude00", [], {}, [[]], {"a": {"b": [1]}}),
    *(0, -1, 1, 2**31, 2**63, 2**64, -(2**63), 10**30, 0.5, -0.0, 1e308, -1e308, 1e-308, 1e17),
    *([0, 0, 0], [1, 1, 1], [2**40, 2**40, 2**40], [1, 1], ["1", 1, 1], [-1, 1, 1], "__import__('os')"),
)
RAW_NUMBERS = (
    "1e999999999",
    "-1e999999999",
    "1E-999999999",
    "9" * 5000,
    "0." + "1" * 5000,
    "NaN",
    "-Infinity",
    "1e",
    "--1",
)


def small_trace(random_: random.Random, events: int = 40) -> dict[str, Any]:
    """A trace of a few dozen events taken from the shipped H100 profile."""
    trace = dict(_example())
    kernels = [event for event in trace["traceEvents"] if event.get("cat") == "kernel"]
    others = [event for event in trace["traceEvents"] if event.get("cat") != "kernel"]
    chosen = random_.sample(kernels, events // 2) + random_.sample(others, events // 2)
    trace["traceEvents"] = json.loads(json.dumps(chosen))
    return trace


_loaded: dict[str, Any] = {}


def _example() -> dict[str, Any]:
    if not _loaded:
        _loaded.update(json.loads(gzip.decompress(EXAMPLE.read_bytes())))
    return _loaded


def truncated(r: random.Random) -> bytes:
    data = json.dumps(small_trace(r)).encode()
    return data[: r.randrange(len(data))]


def truncated_gzip(r: random.Random) -> bytes:
    data = gzip.compress(json.dumps(small_trace(r)).encode())
    return data[: r.randrange(len(data))]


def flipped(r: random.Random) -> bytes:
    data = bytearray(json.dumps(small_trace(r)).encode())
    if r.random() < 0.3:
        data = bytearray(gzip.compress(bytes(data)))
    for _ in range(r.randrange(1, 20)):
        data[r.randrange(len(data))] = r.randrange(256)
    return bytes(data)


def reordered(r: random.Random) -> bytes:
    trace = small_trace(r)
    r.shuffle(trace["traceEvents"])
    items = list(trace.items())
    r.shuffle(items)
    for event in trace["traceEvents"]:
        if r.random() < 0.2:
            event["ts"] = r.choice([event.get("ts", 0), -5, 0, 1e15])
    return json.dumps(dict(items)).encode()


def hostile(r: random.Random) -> bytes:
    """Values of wrong types and absurd sizes in any place."""
    trace = small_trace(r)
    for _ in range(r.randrange(1, 12)):
        _poison(r, trace)
    return json.dumps(trace).encode("utf-8", errors="surrogatepass")


def _poison(r: random.Random, value: Any) -> None:
    while isinstance(value, dict | list) and value:
        key = r.choice(list(value)) if isinstance(value, dict) else r.randrange(len(value))
        if not isinstance(value[key], dict | list) or not value[key] or r.random() < 0.15:
            if isinstance(value, dict) and r.random() < 0.2:
                del value[key]
            else:
                value[key] = copy.deepcopy(r.choice(HOSTILE))
            return
        value = value[key]


def raw_numbers(r: random.Random) -> bytes:
    """Numbers that JSON allows, or nearly, and no float or integer holds."""
    text = json.dumps(small_trace(r))
    for _ in range(r.randrange(1, 4)):
        place = text.find(
            '"' + r.choice(["ts", "dur", "correlation", "stream", "numSms", "registers per thread"]) + '": '
        )
        end = min(
            (text.find(mark, place + 4) for mark in ",}" if text.find(mark, place + 4) > 0), default=len(text)
        )
        start = text.find(":", place) + 1
        text = text[:start] + r.choice(RAW_NUMBERS) + text[end:]
    return text.encode()


def nested(r: random.Random) -> bytes:
    depth = r.choice([50, 99, 101, 1_000, 100_000, 2_000_000])
    opening, closing = r.choice([(b"[", b"]"), (b'{"a":', b"}")])
    inner = opening * depth + b"1" + (closing * depth if r.random() < 0.7 else b"")
    return (
        r.choice([b'{"traceEvents":[%s]}', b'{"deviceProperties":%s}', b'{"x":%s,"traceEvents":[]}', b"%s"])
        % inner
    )


def bomb(r: random.Random) -> bytes:
    """A small gzip file that unpacks to far more than a trace of its size could."""
    unit = r.choice([b" ", b"0", b"[", b'"', b"\\", b"1,", b"{},", b'{"ph":"X","cat":"kernel"},', b'"a",'])
    lead = r.choice(
        [b'{"traceEvents":[', b'{"traceEvents":[{"name":"', b'{"a":"', b"", b'{"deviceProperties":[']
    )
    size = r.choice([1 << 20, 32 << 20, 200 << 20])
    return gzip.compress(lead + unit * (size // len(unit)), compresslevel=1)


def not_a_trace(r: random.Random) -> bytes:
    return r.choice(
        [
            b"",
            b"{}",
            b"[]",
            b"null",
            b"\x1f\x8b",
            b"\x80\x04\x95",
            b"\xef\xbb\xbf{}",
            b'{"traceEvents":{}}',
            b'{"traceEvents":[1,"a",null]}',
        ]
    ) + r.choice([b"", b" ", b"\x00", b"{}", bytes(r.randrange(256) for _ in range(r.randrange(64)))])


def sqlite_file(r: random.Random) -> bytes:
    """An Nsight Systems export with hostile values, lost columns and flipped bytes."""
    columns = (
        "start end deviceId streamId correlationId gridX gridY gridZ blockX blockY blockZ registersPerThread"
    )
    names = [
        *columns.split(),
        "staticSharedMemory",
        "dynamicSharedMemory",
        "demangledName",
        "globalPid",
        "graphNodeId",
    ]
    kept = [name for name in names if r.random() < 0.93]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.sqlite"
        connection = sqlite3.connect(path)
        kind = "VIEW" if r.random() < 0.05 else "TABLE"
        if kind == "VIEW":
            connection.execute(
                "CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS WITH RECURSIVE t(n) AS "
                "(SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT n FROM t"
            )
        else:
            connection.execute(f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL ({', '.join(kept) or 'start'})")
            for row in range(r.randrange(30)):
                values = [r.randrange(1, 1000) + row * 1000 if r.random() < 0.9 else _sql(r) for _ in kept]
                marks = ", ".join("?" * len(kept))
                insert = f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({marks})"  # noqa: S608  # question marks
                connection.execute(insert, values)
        connection.execute("CREATE TABLE StringIds (id, value)")
        connection.execute("INSERT INTO StringIds VALUES (1, 'kernel')")
        connection.execute("CREATE TABLE TARGET_INFO_GPU (id, name, smCount, computeMajor, computeMinor)")
        connection.execute(
            "INSERT INTO TARGET_INFO_GPU VALUES (?, ?, ?, ?, ?)", [0, "GPU", r.choice([132, _sql(r)]), 9, 0]
        )
        connection.commit()
        connection.close()
        data = bytearray(path.read_bytes())
    for _ in range(r.choice([0, 0, 1, 5, 50])):
        data[r.randrange(len(data))] = r.randrange(256)
    return bytes(data[: r.choice([len(data), len(data), r.randrange(1, len(data))])])


def _sql(r: random.Random) -> Any:
    return r.choice([None, -1, 0, 2**62, -(2**63), 0.5, "text", b"\xff\xfe", 1e300])


MAKERS: tuple[Callable[[random.Random], bytes], ...] = (
    *(truncated, truncated_gzip, flipped, reordered, hostile, raw_numbers, nested, not_a_trace, sqlite_file),
    *(hostile, raw_numbers, sqlite_file, bomb),
)


def outcome(data: bytes, path: Path) -> str:
    """What became of a file: "profile", "refused", or what went wrong."""
    path.write_bytes(data)
    try:
        advice = advise(load_profile(path))
        text = summary_text(advice)
        json.dumps(advice.json_object, allow_nan=False)
    except WavesimError as error:
        message = str(error)
        return (
            "refused"
            if "\n" not in message and len(message) < 1_000
            else f"not one clear line: {message[:200]!r}"
        )
    return "profile" if text else "no text"


def _too_slow(*_: object) -> None:
    raise TimeoutError


def fuzz(
    seconds: float, first_seed: int = 0, out: Path | None = None, most: int = 10**9
) -> tuple[Counter[str], list[str]]:
    """Runs seeds one after another. Returns counts by kind and outcome, and what went wrong."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    signal.signal(signal.SIGPROF, _too_slow)
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "profile"
        for seed in range(first_seed, first_seed + most):
            if time.monotonic() > deadline:
                break
            r = random.Random(seed)
            maker = MAKERS[seed % len(MAKERS)]
            data = maker(r)
            signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)  # CPU time: this may run at low priority
            try:
                result = outcome(data, path)
            except Exception as error:  # noqa: BLE001  # whatever it is, it is what is looked for
                result = f"{type(error).__name__}: {str(error)[:200]}"
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            if grown > MAX_MB:
                result = f"memory: {grown} MB"
            counts[f"{maker.__name__}: {result if result in ('profile', 'refused') else 'WRONG'}"] += 1
            if result not in ("profile", "refused"):
                wrong.append(f"seed {seed} ({maker.__name__}): {result}")
                if out is not None:
                    (out / f"seed{seed}").write_bytes(data)
    return counts, wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    counts, wrong = fuzz(60 * options.minutes, options.seed, options.out)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    lines = [f"{name}: {count}" for name, count in sorted(counts.items())]
    summary = f"{sum(counts.values())} files, {len(wrong)} went wrong, {most} MB at most"
    sys.stdout.write("\n".join([*lines, *wrong[:40], summary]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
