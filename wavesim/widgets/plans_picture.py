"""Whole timelines on a canvas, with the share of busy SMs: what the what-if explorer redraws at each move.

Example: stream sync above, row semaphores below, one time axis, 10,000 tiles in 30 ms.
"""

from wavesim.view.timeline_data import TimelineParts
from wavesim.view.timeline_scene import scene_of_timeline
from wavesim.widgets.drawn import DrawnWidget, script


class PlansPicture(DrawnWidget):
    """Timelines under each other; `show` replaces them in one message."""

    _esm = script("pen.js", "picture.js", "blocks.js", "timeline.js", "plans_picture.js")

    def __init__(self, parts: TimelineParts) -> None:
        super().__init__(scene=scene_of_timeline(parts))

    def show(self, parts: TimelineParts) -> None:
        """Draws these parts in place of what is shown."""
        self.scene = scene_of_timeline(parts)
