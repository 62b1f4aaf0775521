"""Shaking a program: seeds are tried until a result is wrong, and the places that show it are made few."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from wavesim_gpu.shake.delayed_modules import Disturbance, table_of
from wavesim_gpu.shake.ptx_delays import Site
from wavesim_gpu.shake.ptx_snippets import HEAD_WORDS, SITES_AT, TABLE_WORDS
from wavesim_gpu.shake.shake_command import report, shaken_text
from wavesim_gpu.shake.shaking import ShakenProgram, difference, fewest, shake

SITES = {
    (0, number): Site(number, "first", "a delay before", "bar.sync 0", "pair.cu", 7) for number in range(9)
}


class Stream:
    def __init__(self, non_blocking):
        assert non_blocking

    def __enter__(self):
        return self

    def __exit__(self, *caught):
        return None

    def synchronize(self):
        return None


class PretendedDelays:
    """Delays of no kernel: what a run is disturbed by is looked at by the program itself."""

    def __init__(self, is_done=True):
        event = SimpleNamespace(done=is_done, record=lambda stream: None)
        cuda = SimpleNamespace(
            Stream=Stream,
            Event=lambda disable_timing: event,
            Device=lambda: SimpleNamespace(synchronize=lambda: None),
        )
        self.cupy = SimpleNamespace(cuda=cuda, asnumpy=np.copy, nullcontext=nullcontext)
        self.sites, self.notes, self.now = SITES, [], Disturbance()

    def spoil_shared_memory(self, stream):
        assert isinstance(stream, Stream)

    def set(self, disturbance):
        self.now = disturbance


def program(needed=frozenset(), delays=None, check=lambda: True):
    """Its second element is wrong where all `needed` sites are on."""
    delays = delays or PretendedDelays()
    out = np.zeros(4, np.float32)

    def run():
        out[:] = 3
        if needed and needed <= delays.now.sites:
            out[1] = 0

    return ShakenProgram("pair.py", {"row": run}, run, (out,), check, lambda: out.fill(np.nan), delays)


@pytest.mark.parametrize("needed", [{(0, 4)}, {(0, 0), (0, 8)}], ids=["one", "two"])
def test_a_fault_is_told_by_its_seed_element_and_the_fewest_sites(needed):
    shaken = shake(program(frozenset(needed)), 5.0)
    fault = shaken.fault
    assert fault is not None
    assert (fault.run, fault.disturbance.seed, fault.disturbance.sites) == ("row", 1, needed)
    assert fault.wrong == "outputs[0][1] is 0.0, not 3.0; 1 of 4 differ"
    assert (fault.failed, fault.replays) == (5, 5)
    text = shaken_text(shaken)
    assert text.startswith("WRONG under seed 1, row: outputs[0][1]")
    assert "pair.cu:7, first: a delay before bar.sync 0" in text
    assert "shake pair.py --seed 1" in text
    assert json.loads(json.dumps(report(shaken)))["fault"]["sites"]


def test_a_right_program_is_run_until_the_time_is_over():
    shaken = shake(program(), 1.0)
    assert shaken.fault is None
    assert shaken.seeds > 10
    assert shaken_text(shaken).startswith("no wrong result: ")


def test_a_seed_alone_is_run_five_times():
    assert shake(program(), 60.0, first_seed=17, only=True).seeds == 1


def test_what_is_wrong_without_a_delay_is_told_so():
    delays = PretendedDelays()
    made = program(delays=delays)
    wrong = ShakenProgram(**{**made.__dict__, "runs": {"row": lambda: made.outputs[0].fill(1)}})
    shaken = shake(wrong, 5.0)
    assert not shaken.fault.is_delayed
    assert shaken_text(shaken).startswith("WRONG without any delay, row: ")


def test_a_run_that_does_not_end_is_told_with_its_seed():
    with pytest.raises(Exception, match=r"the plain order has not ended in 0\.1 s under seed 0"):
        shake(program(delays=PretendedDelays(is_done=False)), 5.0, limit_s=0.1)


def test_fewest_keeps_what_is_needed_together():
    assert fewest(list(range(40)), lambda items: {3, 17, 39} <= set(items)) == [3, 17, 39]


@pytest.mark.parametrize(
    ("output", "tolerance", "said"),
    [
        ([[1, 2], [3, 4]], 0, ""),
        ([[1, 2], [3, 5]], 0, "[1, 1] is 5.0, not 4.0; 1 of 4 differ"),
        ([[1, 2], [3, 4.1]], 0.1, ""),
        ([[np.nan, 2], [3, 4]], 0.1, "[0, 0] is nan, not 1.0; 1 of 4 differ"),
    ],
)
def test_the_first_element_that_differs_is_named(output, tolerance, said):
    assert difference(np.array(output, float), np.array([[1, 2], [3, 4]], float), tolerance) == said


def test_the_table_holds_seed_arrays_and_sites():
    table = table_of(Disturbance(7, frozenset(), 500, 4, 16), [0, 33], [(0x700000000, 4096), (0x10, 64)])
    assert table.size == TABLE_WORDS
    assert list(table[:HEAD_WORDS]) == [7, 500, 3, 16]
    assert (int(table[HEAD_WORDS]), int(table[HEAD_WORDS + 2])) == (0x10, 2)  # the smaller array first
    assert table[HEAD_WORDS + 4 : HEAD_WORDS + 6].view(np.uint64)[0] == 0x700000000
    assert (int(table[SITES_AT]), int(table[SITES_AT + 1])) == (1, 2)
