"""What the blocks of decode attention wait for: the queries, and one split for the step's own key."""

from itertools import takewhile

from attention_layers import decode, decode_layer

from wavesim.model.accesses import Accesses
from wavesim.plan.coverage import Precedence
from wavesim.plan.parsing import parse_plan
from wavesim.plan.semaphores import semaphore_arrays
from wavesim_gpu.cusync.waits import wait_schedule

LAST = 2**31 - 1


def steps_of(work):
    """The steps of each (head, sequence, split) before its closing ones, without the number of the input."""
    pipeline, plan = decode_layer(work), parse_plan("tile+streams+tile", "row")
    inputs = {array.producer: array for array in semaphore_arrays(pipeline, plan) if array.producer == "qkv"}
    order = Precedence(Accesses(pipeline))
    schedule = wait_schedule(order, pipeline.stage("decode"), inputs, by_tile=True)
    found = {}
    for index, begin in enumerate(schedule.first.tolist()):
        tile, z = divmod(index, work.splits)
        own = takewhile(lambda step: step[0] != LAST, schedule.steps[begin:].tolist())
        found[tile % work.kv_heads, tile // work.kv_heads, z] = [(at, *made) for at, _, *made in own]
    return found


def test_only_the_split_with_the_new_key_waits_for_it_before_its_last_block():
    # 8 heads, 2 KV heads of 128: the product's tiles of 64 are queries to 15, keys 16 to 19, values 20 to 23.
    found = steps_of(decode(cached=300, splits=3))
    queries = [(0, column, 0) for column in range(8, 16)]
    assert found[1, 4, 0] == found[1, 4, 1] == queries
    # 301 keys are 5 blocks: the last split has blocks 3 and 4.
    assert found[1, 4, 2] == queries + [(1, column, 0) for column in (18, 19, 22, 23)]
