"""One SM from within: warps that issue, wait for memory and meet at barriers; shared memory's banks.

It has an event loop of its own: time is whole cycles, warps issue in order, and there are no blocks to
dispatch, so that nothing of the machine in `sim` would be used, which counts nanoseconds and whole tiles.
"""
