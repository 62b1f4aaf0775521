"""Masked arrays: none here; plotly asks whether a value is the masked one, and no value is."""


class core:
    """Where NumPy keeps its only masked value."""

    masked = object()
