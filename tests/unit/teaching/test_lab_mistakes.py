"""What a student can type wrong in a cell of a lab: a sentence says what there is instead.

Example: `LayerWhatIf(batch=4)` ends with "LayerWhatIf has no start value 'batch'; there are model, ...".
"""

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.sm.machine import machine_of
from wavesim.teaching.waiting import is_safe
from wavesim.widgets import LayerWhatIf, StayingWhatIf, StreamsExplorer, WhatIf
from wavesim.workloads.layers import transformer_layer

MISTAKES = {
    "start value of a layer": (lambda: LayerWhatIf(batch=4), "no start value 'batch'; there are model, part"),
    "start value of a pair": (lambda: WhatIf(token=512), "no start value 'token'; did you mean 'tokens'"),
    "start value of WaveRNN": (lambda: StayingWhatIf(devise="t4"), "'devise'; did you mean 'device'"),
    "program": (lambda: StreamsExplorer(program="chains"), "Program is 'chains'; .*chains of small kernels"),
    "stage": (lambda: transformer_layer("llama-3-8b", 512).dependency_of("atention"), "no stage 'atention'"),
    "GPU without SMs": (lambda: machine_of(load("h200")).slice_of(0, 192), "0 SMs and 192 channels"),
    "protocol": (lambda: is_safe("z"), "the protocol is 'z'; the table has a, b"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_a_lab_says_what_there_is(mistake):
    attempt, words = MISTAKES[mistake]
    with pytest.raises(DescriptionError, match=words):
        attempt()
