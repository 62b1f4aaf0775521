"""Play: Jupyter widgets."""
