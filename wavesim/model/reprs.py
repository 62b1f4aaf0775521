"""Reprs of descriptions: one line that fits a terminal, whatever is described: no control characters.

Example: `<Pipeline gpt3-mlp: gemm1 24 x 8, gemm2 48 x 8; gemm2 needs gemm1>`.
"""

from dataclasses import MISSING, Field, fields
from typing import Any

from wavesim.safe_io.escaping import whole_line

MOST_LETTERS = 120


def repr_text(kind: str, text: str) -> str:
    """`<kind text>`, the text without control characters and cut: the whole has at most `MOST_LETTERS`."""
    room = MOST_LETTERS - len(kind) - 3
    flat = whole_line(" ".join(text.split()))
    return f"<{kind} {flat if len(flat) <= room else f'{flat[: room - 3]}...'}>"


def bytes_text(count: int) -> str:
    """A size of memory: "96 KB", "1000 bytes"."""
    return f"{count} bytes" if count % 1024 else f"{count // 1024} KB"


def call_text(value: Any) -> str:
    """A dataclass as the call that makes it, fields of their default left out: "Persistent(fused=True)"."""
    given = [
        f"{field.name}={found!r}"
        for field in fields(value)
        if field.repr and (found := getattr(value, field.name)) != _default(field)
    ]
    return f"{type(value).__name__}({', '.join(given)})"


def _default(field: "Field[Any]") -> object:
    return field.default if field.default_factory is MISSING else field.default_factory()
