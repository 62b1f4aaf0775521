"""Play: Jupyter widgets, each of which also draws itself in a page without a kernel."""

from typing import TYPE_CHECKING, Any

from wavesim.errors import naming_extra

if TYPE_CHECKING:
    # What type checkers and editors see; a test holds it to the list below, which is what runs.
    from wavesim.widgets.comparison_view import ComparisonView as ComparisonView
    from wavesim.widgets.decode_what_if import DecodeWhatIf as DecodeWhatIf
    from wavesim.widgets.dependency_explorer import DependencyExplorer as DependencyExplorer
    from wavesim.widgets.experts_what_if import ExpertsWhatIf as ExpertsWhatIf
    from wavesim.widgets.layer_what_if import LayerWhatIf as LayerWhatIf
    from wavesim.widgets.peer_explorer import PeerExplorer as PeerExplorer
    from wavesim.widgets.place_explorer import PlaceExplorer as PlaceExplorer
    from wavesim.widgets.sm_explorers import BankExplorer as BankExplorer
    from wavesim.widgets.sm_explorers import LatencyExplorer as LatencyExplorer
    from wavesim.widgets.sm_explorers import OccupancyExplorer as OccupancyExplorer
    from wavesim.widgets.staying_what_if import StayingWhatIf as StayingWhatIf
    from wavesim.widgets.stream_explorers import LaunchExplorer as LaunchExplorer
    from wavesim.widgets.stream_explorers import StreamsExplorer as StreamsExplorer
    from wavesim.widgets.tuner_view import TunerView as TunerView
    from wavesim.widgets.wave_player import WavePlayer as WavePlayer
    from wavesim.widgets.what_if import WhatIf as WhatIf
else:
    _HOME = {
        "BankExplorer": "wavesim.widgets.sm_explorers",
        "ComparisonView": "wavesim.widgets.comparison_view",
        "DecodeWhatIf": "wavesim.widgets.decode_what_if",
        "DependencyExplorer": "wavesim.widgets.dependency_explorer",
        "ExpertsWhatIf": "wavesim.widgets.experts_what_if",
        "LatencyExplorer": "wavesim.widgets.sm_explorers",
        "LaunchExplorer": "wavesim.widgets.stream_explorers",
        "LayerWhatIf": "wavesim.widgets.layer_what_if",
        "OccupancyExplorer": "wavesim.widgets.sm_explorers",
        "PlaceExplorer": "wavesim.widgets.place_explorer",
        "PeerExplorer": "wavesim.widgets.peer_explorer",
        "StreamsExplorer": "wavesim.widgets.stream_explorers",
        "StayingWhatIf": "wavesim.widgets.staying_what_if",
        "TunerView": "wavesim.widgets.tuner_view",
        "WavePlayer": "wavesim.widgets.wave_player",
        "WhatIf": "wavesim.widgets.what_if",
    }

    __all__ = [*_HOME]  # noqa: PLE0604  # every entry is a name that __getattr__ serves

    def __getattr__(name: str) -> Any:
        from importlib import import_module  # noqa: PLC0415  # on first use, like all else

        if name not in _HOME:
            raise AttributeError(f"module 'wavesim.widgets' has no attribute {name!r}")
        try:
            return getattr(import_module(_HOME[name]), name)
        except ModuleNotFoundError as error:
            raise naming_extra(error) from None
