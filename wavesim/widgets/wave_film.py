"""The wave player as a film without controls: traces one after another, as one SVG that moves by itself.

Example: the README's first picture plays Figure 1 of the paper under stream order, then under tile
semaphores; `tools/draw_tour.py` writes it. No script runs in the file, so it moves wherever an SVG is shown
as a picture.
"""

from collections.abc import Mapping

from wavesim.errors import DescriptionError
from wavesim.safe_io.annotated import typed
from wavesim.trace.trace import Trace
from wavesim.view.timeline_data import timeline_parts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.drawn import DrawnWidget, script


class WaveFilm(DrawnWidget):
    """Plays the traces in turn, each under its title, for ever; `seconds` is how long the longest takes.

    Who has asked their system for less motion sees the last instant of the last trace.
    Raises `DescriptionError` where there is no trace, an empty one, or no second to play them in.
    """

    _esm = script(
        "pen.js",
        "picture.js",
        "blocks.js",
        "timeline.js",
        "wave_events.js",
        "wave_picture.js",
        "wave_film.js",
    )

    @typed
    def __init__(self, traces: Mapping[str, Trace], *, seconds: float = 8.0) -> None:
        if not traces:
            raise DescriptionError("WaveFilm: there is no trace; give at least one, as {title: trace}")
        if not 0 < seconds <= 60:
            raise DescriptionError(f"WaveFilm: seconds is {seconds:g}; it must be above 0 and at most 60")
        scenes = [
            {**scene_of_timeline(timeline_parts(trace)), "title": title} for title, trace in traces.items()
        ]
        super().__init__(scene={"scenes": scenes, "seconds": seconds})
