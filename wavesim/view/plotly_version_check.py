"""Plotly without nbformat, which it imports wherever it shows a figure, and asks for its version alone.

nbformat checks notebooks, so it imports jsonschema, and that builds a grammar of all URIs: a second in every
kernel that shows a figure.
"""

import sys
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

RENDERERS = "plotly.io._renderers"


def spare_nbformat() -> None:
    """Imports plotly's module that shows figures, and hands it nbformat's version; once.

    Nobody else's import of nbformat is touched. A plotly that remembers in another way what cannot be
    imported gets nbformat as ever.
    """
    if RENDERERS in sys.modules:
        return
    absent: set[str] = getattr(import_module("_plotly_utils.optional_imports"), "_not_importable", set())
    absent.add("nbformat")
    try:
        renderers = import_module(RENDERERS)
    finally:
        absent.discard("nbformat")
    try:
        renderers.nbformat = SimpleNamespace(__version__=version("nbformat"))  # type: ignore[attr-defined]
    except PackageNotFoundError:
        renderers.nbformat = None  # type: ignore[attr-defined]  # as plotly has it then
