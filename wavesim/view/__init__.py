"""Figures of traces and descriptions, drawn with plotly: the only part of wavesim that knows it."""

from wavesim.view.timeline_data import TimelineParts, timeline_parts
from wavesim.view.timeline_figure import FigureUpdate, timeline, timeline_update

__all__ = ["FigureUpdate", "TimelineParts", "timeline", "timeline_parts", "timeline_update"]
