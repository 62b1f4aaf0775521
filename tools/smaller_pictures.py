"""Charts as small WebP files without loss: a chart needs no more than 128 colours."""

import io
from pathlib import Path

import plotly.graph_objects as go
from PIL import Image

COLOURS = 128


def write_picture(figure: go.Figure, path: Path) -> None:
    """The figure at one and a half times its size in pixels."""
    write_few_colours(figure.to_image("png", scale=1.5), path)


def write_few_colours(png: bytes, path: Path) -> None:
    """The same picture in at most 128 colours."""
    with Image.open(io.BytesIO(png)) as picture:
        few = picture.convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    few.convert("RGB").save(path, "WEBP", lossless=True, quality=100, method=6)
