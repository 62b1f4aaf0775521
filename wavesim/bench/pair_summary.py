"""The summary of the pairs' benchmark that ships with the package, written from a results file.

Example: `wavesim results --docs docs` writes `recordings/measured_pairs.json` beside docs/results.md: of
GPT-3's MLP at 1,024 tokens the median of every candidate's final rounds, with device, date and commit.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from wavesim.bench.gpu_results import GpuResults
from wavesim.bench.speedups import GENERATED, PAIRS, pairs_of
from wavesim.recordings.measured_pairs import FILE, MeasuredPairs
from wavesim.safe_io.writing import write_text


def summary_of(results: GpuResults) -> MeasuredPairs:
    """Medians of the final, correct cases of every pair; the generator's other policies are left out."""
    return MeasuredPairs(
        file=results.name,
        device=results.device,
        date=results.date,
        commit=results.commit,
        kernels=results.kernels,
        median_ns={workload: _medians(results, workload) for workload in PAIRS},
    )


def _medians(results: GpuResults, workload: str) -> dict[int, Mapping[str, int]]:
    return {
        tokens: {
            name: round(case.median_ns)
            for name, case in sorted(cases.items())
            if name == case.name and not name.startswith(GENERATED)
        }
        for tokens, cases in pairs_of(results, workload).items()
    }


def write_pair_summary(results: GpuResults, path: Path = FILE) -> Sequence[Path]:
    """Writes the summary for the package; nothing where the run measured no pairs. Returns what it wrote."""
    if not any(map(results.of, PAIRS)):
        return []
    write_text(path, json.dumps(asdict(summary_of(results)), indent=1) + "\n")
    return [path]
