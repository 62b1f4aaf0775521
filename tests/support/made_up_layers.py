"""A `layers` results file with made-up times: the tests' own, never shown as measured."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

MODELS = {"Llama 3 8B": (1, 100, 512, 4096), "GPT-3 175B, 8 GPUs": (16, 2048)}
FORMS = {"torch eager": 1.10, "torch packed": 1.0, "torch compiled": 1.05}
FORMS |= {"library": 1.0, "our kernels": 0.98, "stream sync": 1.0}


def case(model: str, tokens: int, name: str, time_ns: float, **more: Any) -> dict[str, Any]:
    """One contender: 20 rounds around a median."""
    rounds = [round(time_ns * (1 + 0.001 * (index - 10))) for index in range(21)]
    return {
        "workload": model,
        "tokens": tokens,
        "name": name,
        "rounds_ns": rounds,
        "verdict": {"is_good": True},
        "host_ns": 5_000 if name.startswith("mlp") else 9_000,
        **more,
    }


def made_up(speeds: Iterable[tuple[float, float]] = (), **changes: Any) -> dict[str, Any]:
    """A file's content; `speeds` are the first choice's and the tuned one's at each shape in turn."""
    shapes = [(model, tokens) for model, sizes in MODELS.items() for tokens in sizes]
    speeds = [*speeds, *[(1.0, 1.04)] * len(shapes)]
    cases: list[dict[str, Any]] = []
    for (model, tokens), (first, tuned) in zip(shapes, speeds, strict=False):
        time_ns = 100_000 + 500 * tokens
        cases += [case(model, tokens, name, time_ns * part) for name, part in FORMS.items()]
        cases.append(case(model, tokens, "mlp", time_ns / first, first_call={"ms": 20.0, "compilations": 1}))
        cases.append(case(model, tokens, "mlp tuned", time_ns / tuned))
    names = [f"{model} M={tokens}" for model, tokens in shapes]
    return {
        "date": "2026-01-02T03:04:05+00:00",
        "device": {"name": "NVIDIA H200"},
        "versions": {"torch": "2.11"},
        "commit": "0123456789",
        "kernels": "hopper",
        "kernel_sources": "abc",
        "is_judged_after": True,
        "shapes_sha256": "5" * 64,
        "registered": {
            "sha256": "6" * 64,
            "choices": [{"name": name, "library_ns": 100.0, "ours_ns": 97.0} for name in names],
        },
        "cases": cases,
        "first_calls_of_second_process": [{"name": name, "ms": 4.0, "compilations": 0} for name in names],
        **changes,
    }


def written(path: Path, content: dict[str, Any]) -> Path:
    """The file."""
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
