"""Figures of traces and descriptions, drawn with plotly: the only part of wavesim that knows it."""

from wavesim.view.comparison import comparison_figure, predicted_and_measured
from wavesim.view.dependency_figure import dependency_picture
from wavesim.view.gain_figure import Gain, gain_overview
from wavesim.view.page import Section, Table, page_html, write_page
from wavesim.view.semaphore_figure import semaphore_map
from wavesim.view.timeline_data import TimelineParts, timeline_parts
from wavesim.view.timeline_figure import FigureUpdate, timeline, timeline_update
from wavesim.view.utilisation_figure import utilisation

__all__ = [
    "FigureUpdate",
    "Gain",
    "Section",
    "Table",
    "TimelineParts",
    "comparison_figure",
    "dependency_picture",
    "gain_overview",
    "page_html",
    "predicted_and_measured",
    "semaphore_map",
    "timeline",
    "timeline_parts",
    "timeline_update",
    "utilisation",
    "write_page",
]
