"""What is timed of WaveRNN's step alone, and the parts that follow."""

from wavesim.labs.wavernn import cycles_of
from wavesim_gpu.bench.labs import wavernn
from wavesim_gpu.persistent.weights import LAYERS

# Of 160 launches or cycles, 2,000 barriers and 32 items, as if a launch took 1 us and a barrier 0.5.
TIMES = {
    "empty": 160_000.0,
    "barriers": 1_000_000.0,
    "r": 160 * 1_100.0,
    "o1": 160 * 900.0,
    "r launched": 160 * 1_900.0,
    "o1 launched": 160 * 1_500.0,
    "r batch": 160 * 3_300.0,
    **{f"{name} batch": 160 * ns for name, ns in zip(LAYERS[1:], (2_900.0, 2_500.0) * 2, strict=True)},
    "library r": 160 * 3_000.0,
    **{f"library {name}": 160 * 2_200.0 for name in LAYERS[1:]},
}


def test_parts_are_what_is_left_of_each_without_the_others():
    parts = wavernn.costs_of_parts(TIMES)
    assert (parts.launch_ns, parts.barrier_ns) == (1000, 500)
    assert (parts.recurrent_ns, parts.output_ns) == (600, 400)
    assert (parts.recurrent_weights_ns, parts.output_weights_ns) == (300, 100)
    assert (parts.recurrent_batch_ns, parts.output_batch_ns) == (2000, 1600)  # the mean of all four layers
    assert parts.total_ns("batch", 32) == 32 * (2300 + 4 * 1700) + 159 * 1000
    assert (parts.recurrent_library_ns, parts.output_library_ns) == (2000, 1200)
    assert parts.total_ns("both", 32) == 160 * 600 + 4 * 400 + 163 * 500


def test_a_part_that_came_out_below_nothing_is_nothing():
    assert wavernn.costs_of_parts(TIMES | {"r launched": 160 * 1_000.0}).recurrent_weights_ns == 0


def test_each_part_is_timed_by_as_many_cycles_as_it_is_divided_by():
    counts = {
        name: sum(one.end - one.first for one in parts) for name, parts in wavernn.part_launches().items()
    }
    assert counts["empty"] == 0
    assert counts["barriers"] == 2000
    assert counts["r"] == counts["o1"] == counts["r launched"] == counts["o1 launched"] == 160
    assert all(counts[f"{name} batch"] == len(cycles_of("batch")) for name in LAYERS)
