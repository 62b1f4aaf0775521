"""Labs as cases of a list: each writes the document that its notebook or page reads, and a row that it ran.

Example: the case "ladder" measures sums, convolutions and products step by step and writes ladder.json.
"""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from wavesim.bench.results import ResultRow
from wavesim.errors import DescriptionError
from wavesim_gpu.bench.rows import MeasuredCase
from wavesim_gpu.driver.device import query, versions

NAMES = ("name", "lab", "what")  # of a case; its other fields are its lab's
LABS = (
    "copies",
    "decode_steps",
    "issue_order",
    "ladder",
    "moe_layers",
    "primitives",
    "wavernn",
)


class LabMeasurer:
    """Measures labs one after the other. Some start processes of their own."""

    limit_s = 300.0
    starts_processes = True

    def __init__(self, commit: str, rounds: int) -> None:
        self._commit, self._rounds = commit, rounds

    def prepare(self, cases: Sequence[Any]) -> None:
        """Raises `DescriptionError` for a lab that there is not."""
        for case in cases:
            if case.fields["lab"] not in LABS:
                raise DescriptionError(
                    f"{case.name}: lab is {case.fields['lab']!r}; known are {', '.join(LABS)}"
                )

    def measure(self, case: Any, has_traces: bool = False) -> MeasuredCase:
        """The lab's document. Raises a `WavesimError` where a result is wrong."""
        lab = import_module(f"wavesim_gpu.bench.labs.{case.fields['lab']}")
        about = {
            "date": datetime.now(UTC).date().isoformat(),
            "device": {name: value for name, value in asdict(query()).items() if name != "sources"},
            "versions": versions(),
            "commit": self._commit,
        }
        row = ResultRow(case.name, "", case.fields["lab"], correct=True)
        own = {name: value for name, value in case.fields.items() if name not in NAMES}
        return MeasuredCase([row], document={**about, **lab.document(self._rounds, **own)})
