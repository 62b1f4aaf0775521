"""`python -m wavesim_gpu.bench.crossover_run`: registered crossovers, then measured on this GPU.

Example: `--register F` predicts the 30 families of crossover_families.toml, on any machine, and writes flips,
dispatch tables and the sizes to be measured with their SHA-256. `--registered F --out G --seconds 400` times
all ways in turns at these sizes, family by family; the file is written after each, and `--resume` goes on.
"""

import argparse
import json
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from wavesim.bench.crossover_runs import MAX_BYTES, read_registered, register, score_run

from wavesim.errors import DescriptionError
from wavesim.model import device as devices
from wavesim.safe_io.documents import read_json, read_toml
from wavesim.safe_io.program import run_program
from wavesim.safe_io.workers import worker_pool
from wavesim.safe_io.writing import write_text
from wavesim_gpu.driver.kernel_sources import source_hash
from wavesim_gpu.kernels.backends import backend_named

FILE = Path(__file__).with_name("crossover_families.toml")
BACKEND = "hopper"
ROUNDS, WARM_UP_S = 12, 0.05
SECONDS = 400.0


def register_all(path: Path, device: str, commit: str, most: int | None = None) -> str:
    """Predicts all families, or the first `most`, for a device; needs no GPU. Returns the hash."""
    # Needs simpy; measuring does not.
    from wavesim.bench.crossover_predictions import ListedFamily, registered_family  # noqa: PLC0415

    listed, entries = read_toml(FILE), []
    with worker_pool() as pool:
        for entry in listed["families"][:most]:
            family = ListedFamily(**entry, backend=BACKEND)
            found = family.crossover(devices.load(device), listed["m_to"], pool)
            entries.append(registered_family(family, found))
            _say(f"{family.name}: {found.seconds:.1f} s, semaphores pay from {entries[-1]['flip']}")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return register(path, entries, {"device": device, "commit": commit, "date": now})


def measure_all(registered: Path, out: Path, seconds: float, shard: str, *, is_resumed: bool) -> Path:
    """Times what was registered, none begun after `seconds`. Returns the path of the file."""
    from wavesim_gpu.bench.kinds.crossover import FamilyMeasurer  # noqa: PLC0415  # needs the GPU

    began = time.monotonic()
    predicted = read_registered(registered)
    measurer = FamilyMeasurer(BACKEND, ROUNDS, WARM_UP_S)
    result = (
        _resumed(out, predicted["sha256"]) if is_resumed and out.exists() else _begun(measurer, predicted)
    )
    done = {entry["name"] for entry in result["families"]}
    index, count = _shard(shard)
    left = [entry for entry in predicted["families"][index::count] if entry["name"] not in done]
    measurer.prepare(left)
    _say(f"{time.monotonic() - began:.1f} s until the kernels of {len(left)} families were compiled")
    for entry in left:
        if time.monotonic() - began > seconds:
            _say(f"{seconds:g} s are over; {entry['name']} and what follows is left for --resume")
            break
        result["families"].append({"name": entry["name"], "sizes": _sizes(measurer, entry)})
        write_text(out, json.dumps(result, separators=(",", ":")) + "\n")
        _say(f"{time.monotonic() - began:.1f} s: {entry['name']}")
    return out


def _sizes(measurer: Any, entry: dict[str, Any]) -> list[dict[str, Any]]:
    try:
        return list(measurer.measure(entry))
    except Exception as error:  # noqa: BLE001  # written down, and the next family is tried
        traceback.print_exc()
        return [{"m": 0, "failed": f"{type(error).__name__}: {error}"[:300], "rounds_ns": {}}]


def _begun(measurer: Any, predicted: dict[str, Any]) -> dict[str, Any]:
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        **measurer.facts(),
        "kernel_sources": source_hash(backend_named(BACKEND).source),
        "registered_sha256": predicted["sha256"],
        "families": [],
    }


def _resumed(out: Path, stamp: str) -> dict[str, Any]:
    found = read_json(out, MAX_BYTES)
    if found.get("registered_sha256") != stamp:
        raise DescriptionError(f"{out}: was measured against other predictions; name another file")
    return dict(found)


def _shard(text: str) -> tuple[int, int]:
    first, _, count = text.partition("/")
    if not (first.isdigit() and count.isdigit() and 0 <= int(first) < int(count)):
        raise DescriptionError(f"shard is {text!r}; write I/N with I from 0 to N - 1, such as 0/4")
    return int(first), int(count)


def main() -> int:
    """Registers or measures, as the command line says."""
    parser = argparse.ArgumentParser(description="Predicted and measured crossovers.")
    parser.add_argument("--register", type=Path, help="predict into this file, and measure nothing")
    parser.add_argument("--device", default=devices.default_device().name, help="to predict for")
    parser.add_argument("--commit", default="", help="of the model that predicts")
    parser.add_argument("--families", type=int, help="predict only so many")
    parser.add_argument("--registered", type=Path, help="what was predicted")
    parser.add_argument("--out", type=Path, help="the file of the measurement")
    parser.add_argument("--score", type=Path, help="of a measurement: flips and regret, without a GPU")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--shard", default="0/1", help="I/N: every N-th family from the I-th on")
    parser.add_argument("--resume", action="store_true")
    options = parser.parse_args()
    if options.register:
        _say(f"SHA-256 {register_all(options.register, options.device, options.commit, options.families)}")
        return 0
    if options.score and options.registered:
        print("\n".join(score_run(options.registered, options.score).lines()))  # noqa: T201  # what it is for
        return 0
    if not options.registered or not options.out:
        parser.error("give --register FILE, or --registered FILE with --out FILE or --score FILE")
    measure_all(options.registered, options.out, options.seconds, options.shard, is_resumed=options.resume)
    return 0


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)  # noqa: T201  # progress


if __name__ == "__main__":
    sys.exit(run_program("crossover_run", main))
