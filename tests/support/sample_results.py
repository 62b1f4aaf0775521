"""A small file of GPU results for tests of what reads them, whole or with a change made to it."""

import json
from pathlib import Path
from typing import Any

SAMPLE = Path(__file__).parents[1] / "data" / "gpu_results" / "trimmed.json"


def changed(tmp_path: Path, change: Any) -> Path:
    """The sample after `change(document)`."""
    document = json.loads(SAMPLE.read_text(encoding="utf-8"))
    change(document)
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def raw(workload: str, name: str, tokens: int) -> dict[str, Any]:
    """The final case of that name in the file itself."""
    cases = json.loads(SAMPLE.read_text(encoding="utf-8"))["cases"]
    return next(
        case
        for case in cases
        if (case["workload"], case["name"], case.get("tokens")) == (workload, name, tokens)
        and case.get("is_final")
    )
