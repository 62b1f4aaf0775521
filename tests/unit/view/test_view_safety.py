"""The picture of a safety verdict shows what the verdict says: who waits where, and who finds no room."""

from itertools import pairwise

import pytest

from wavesim.errors import DescriptionError
from wavesim.model.device import load
from wavesim.plan.plan import SemaphoreSync, StreamSync
from wavesim.safety.deadlock import safety_of
from wavesim.view.safety_figure import safety_parts, safety_picture
from wavesim.workloads.figure_one import toy
from wavesim.workloads.mlps import gpt3_mlp

TOY, H200 = load("toy"), load("h200")
NO_WAIT_KERNEL = SemaphoreSync(wait_kernel=False)


def test_a_deadlock_shows_a_waiting_block_on_every_sm_and_the_producer_outside():
    figure = safety_picture(toy(), NO_WAIT_KERNEL, TOY)
    sms, waiting, starved = figure.data
    assert figure.layout.title.text == "Deadlock: 4 waiting blocks of gemm2 can close all 4 SMs to gemm1"
    assert len(sms.x) == 4
    assert list(waiting.x) == list(sms.x)
    assert waiting.name == "block of gemm2: waits for tiles of gemm1"
    assert waiting.marker.pattern.shape == "\\"
    assert starved.name == "block of gemm1: has no room"
    assert min(starved.x) > max(sms.x) + 1


def test_a_safe_plan_shows_the_producer_on_each_sm_that_is_left():
    parts = safety_parts(gpt3_mlp(256), NO_WAIT_KERNEL, H200)
    waiting = {cell.sm for cell in parts.cells if cell.is_waiting}
    running = {cell.sm for cell in parts.cells if not cell.is_waiting}
    assert (len(waiting), len(running)) == (96, 36)
    assert waiting | running == set(range(132))
    title = safety_picture(gpt3_mlp(256), NO_WAIT_KERNEL, H200).layout.title.text
    assert title == "Safe: whatever waits, 36 of 132 SMs stay open to gemm1"


def test_the_figure_of_a_safe_plan_says_what_that_rests_on():
    below = safety_picture(gpt3_mlp(256), NO_WAIT_KERNEL, H200).layout.title.subtitle.text.replace(
        "<br>", " "
    )
    assert "Rests on issue of blocks wherever an SM has room" in below
    assert "an otherwise idle GPU (97 of 132 SMs free of other work" in below


def test_blocks_on_one_sm_lie_on_top_of_each_other_and_within_it():
    parts = safety_parts(gpt3_mlp(2048, (128, 128)), NO_WAIT_KERNEL, H200)
    for sm in range(132):
        stack = [cell for cell in parts.cells if cell.sm == sm]
        assert stack == sorted(stack, key=lambda cell: cell.bottom)
        assert all(a.bottom + a.height <= b.bottom + 1e-9 for a, b in pairwise(stack))
        assert stack[-1].bottom + stack[-1].height <= 1 + 1e-9


def test_a_plan_under_which_nobody_waits_has_no_picture():
    assert safety_of(toy(), StreamSync(), TOY).is_safe
    with pytest.raises(DescriptionError, match="nothing to draw"):
        safety_picture(toy(), StreamSync(), TOY)
