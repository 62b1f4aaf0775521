"""The sources of both packages, read and parsed once for all tests of how the code is written."""

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
WAVESIM, WAVESIM_GPU = ROOT / "wavesim", ROOT / "gpu" / "wavesim_gpu"


@cache
def sources(*packages: Path) -> tuple[Path, ...]:
    """All Python files of these packages, or of both, in order."""
    chosen = packages or (WAVESIM, WAVESIM_GPU)
    return tuple(path for package in chosen for path in sorted(package.rglob("*.py")))


@cache
def text_of(path: Path) -> str:
    """What a file holds."""
    return path.read_text(encoding="utf-8")


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(text_of(path))
