"""One SM from within: warps that issue, wait for memory and meet at barriers; shared memory's banks."""
