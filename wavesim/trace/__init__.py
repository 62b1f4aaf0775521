"""The one trace, simulated and measured alike, and its file format."""
