"""The scene of a stream timeline: rows, waits and words, and what the explorer makes of its controls."""

import pytest

from wavesim import DescriptionError
from wavesim.labs.streams.examples import EXAMPLES, VectorAdd, example
from wavesim.sim.streams.engine import simulate_streams
from wavesim.sim.streams.machine import load_machine, machine_names
from wavesim.view.streams_scene import scene_of_streams
from wavesim.widgets.stream_explorers import SMALL_KERNELS, StreamsExplorer

BOOK = load_machine()


def scene(name):
    one = example(name)
    machine = one.machine(BOOK)
    return scene_of_streams(simulate_streams(one.program(machine), machine))


def test_every_stream_queue_and_engine_that_is_used_has_a_row():
    rows = scene("vector add, depth-first")["rows"]
    assert [(row["group"], row["name"]) for row in rows] == [
        ("host", "host"),
        *(("streams", f"s{number}") for number in range(4)),
        *(("queues", f"queue {number}") for number in range(1, 5)),
        ("engines", "copy engine 0"),
        ("engines", "copy engine 1"),
    ]
    assert [row["label"] for row in scene("null stream between blocking streams")["rows"][1:3]] == [
        *("null stream", "s0"),
    ]


def test_what_sharing_a_queue_costs_is_the_title_and_the_holder_is_pointed_at():
    found = StreamsExplorer(program=SMALL_KERNELS, queues=1).picture.scene
    assert found["title"] == "2,600 µs, 1,800 µs of them because streams share a hardware queue"
    held = next(one for one in found["operations"] if one["name"] == "k1.0")
    assert found["operations"][held["held"]]["name"] == held["heldBy"] == "k0.3"
    assert (held["false"], held["ready"], held["head"]) == (600_000, 0, 600_000)


def test_many_sms_are_a_share_and_few_are_rows():
    machines = (BOOK, load_machine("h200"))
    few, many = (scene_of_streams(simulate_streams(VectorAdd().program(8), one)) for one in machines)
    assert (len(few["blocks"]), len(many["blocks"])) == (16, 0)
    assert max(share for _, share in few["busy"]) == 0.5
    assert few["busy"][-1][1] == 0


@pytest.mark.parametrize("name", machine_names())
@pytest.mark.parametrize("one", EXAMPLES, ids=lambda one: one.name)
def test_every_example_is_drawn_on_every_machine(one, name):
    shown = StreamsExplorer(program=one.name, on=name)
    assert "simulated on the" in shown.picture.scene["subtitle"]
    assert shown.streams.disabled
    assert len(shown.picture.scene["operations"]) == len(shown.shown_program.operations)


def test_the_explorer_follows_its_controls_and_says_what_cannot_run():
    shown = StreamsExplorer(queues=1)
    assert shown.timeline.end_ns == 1_700_000
    shown.queues.value = 8
    assert shown.timeline.end_ns == 1_100_000
    shown.memory.value = "pageable"
    assert shown.timeline.end_ns == 5_600_000
    shown.memory.value, shown.priority.value = "pinned", "greatest"
    assert shown.shown_program.stream("s3").priority == -5
    assert shown.picture.scene["title"] == "1,100 µs; kernels run for 800 µs of them"
    with pytest.raises(DescriptionError, match="streams is 0"):
        StreamsExplorer(streams=0)
