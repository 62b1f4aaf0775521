"""The one trace, simulated and measured alike: its file, metrics and differences. Begin in `trace.py`."""
