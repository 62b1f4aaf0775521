"""The fields of a situation's file, TOML or JSON: what each means, its unit, and what holds without it.

Example: `cooperative = true` on a launch says that CUDA refuses it where not all its blocks fit at once.
`docs/why-hang.md` has these tables; a test keeps the two in step.
"""

from collections.abc import Mapping

from wavesim.model.described_field import Field

TOP = (
    Field("name", "text", "what it is called in answers", "the file's name", "-", 'name = "workers"'),
    Field("source", "text", "where it comes from", "none", "-", 'source = "https://..."'),
    Field("devices", "tables", "one `[[devices]]` per part of a GPU", "one of the default GPU", "-", ""),
    Field(
        "operations",
        "tables",
        "one `[[operations]]` per kernel, copy or host function, in the order of launch",
        "required",
        "-",
        "one [[operations]] table per kernel",
    ),
    Field("waits", "tables", "one `[[waits]]` per thing that blocks wait for", "no block waits", "-", ""),
    Field("semaphores", "tables", "one `[[semaphores]]` per counter that waits name", "none", "-", ""),
    Field("notes", "texts", "what is not known", "none", "-", 'notes = ["..."]'),
    Field(
        "all_waits",
        "true or false",
        "whether all waits are listed; false for a profile",
        "true",
        "nothing is called safe",
        "all_waits = false",
    ),
)
DEVICES = (
    Field("name", "text", "how operations call it", "required", "-", 'name = "gpu0"'),
    Field(
        "device",
        "name or path",
        "a name that `wavesim devices` lists, a device file, or the driver's name",
        "the default GPU",
        "-",
        'device = "b200"',
    ),
    Field(
        "sm_count",
        "SMs",
        "as the process sees them: fewer than the GPU's in a green context, a MIG slice or under MPS",
        "the device's",
        "-",
        "sm_count = 66",
    ),
    Field(
        "limited_by", "text", "by what, where these are not all", "none", "-", 'limited_by = "MPS at 50 %"'
    ),
    Field("held_sms", "SMs", "that work not listed here holds for ever", "0", "-", "held_sms = 8"),
    Field(
        "mps",
        "true or false",
        "processes share the SMs; else the GPU switches between them in time",
        "false",
        "-",
        "mps = true",
    ),
    Field(
        "queues",
        "queues",
        "hardware queues (CUDA_DEVICE_MAX_CONNECTIONS): with more streams one may stand behind another",
        "8",
        "-",
        "queues = 32",
    ),
)
OPERATIONS = (
    Field("name", "text", "how waits call it; each its own", "required", "-", 'name = "gemm1"'),
    Field(
        "kind", "word", "kernel, copy or host (a host function in the stream)", "kernel", "-", 'kind = "host"'
    ),
    Field("device", "text", "the part of a GPU it runs on", "the first", "-", 'device = "gpu1"'),
    Field("grid", "blocks", "x, y, z; of a kernel", "required of a kernel", "-", "grid = [128]"),
    Field("threads", "threads", "of a block", "required of a kernel", "-", "threads = 256"),
    Field("registers", "registers", "of a thread", "32", "more blocks may seem to fit", "registers = 168"),
    Field("static_shared_bytes", "bytes", "of a block", "0", "-", "static_shared_bytes = 1024"),
    Field("dynamic_shared_bytes", "bytes", "of a block", "0", "-", "dynamic_shared_bytes = 98304"),
    Field(
        "carveout",
        "word",
        "default (the driver's choice: the smallest that holds its blocks) or full (the largest, "
        "cudaFuncAttributePreferredSharedMemoryCarveout = 100)",
        "default",
        "-",
        'carveout = "full"',
    ),
    Field("cluster", "blocks", "of a thread block cluster, issued together", "1", "-", "cluster = 2"),
    Field(
        "stream",
        "text",
        "operations of one stream follow each other; `legacy` is the legacy default stream",
        "legacy",
        "-",
        'stream = "s1"',
    ),
    Field(
        "blocking",
        "true or false",
        "the stream waits for the legacy default stream, and that for it; false for cudaStreamNonBlocking",
        "true",
        "-",
        "blocking = false",
    ),
    Field("process", "text", "which process launched it", "one for all", "-", 'process = "rank 1"'),
    Field("priority", "number", "of the stream; lower goes first, as in CUDA", "0", "-", "priority = -5"),
    Field(
        "cooperative",
        "true or false",
        "a cooperative launch: refused unless all blocks fit at once, and issued as a whole",
        "false",
        "-",
        "cooperative = true",
    ),
    Field(
        "dependent",
        "true or false",
        "programmatic dependent launch: may start before the operation before it in its stream has ended",
        "false",
        "-",
        "dependent = true",
    ),
    Field(
        "trigger",
        "word",
        "when its blocks let a dependent launch start: start (before they wait for anything) or end",
        "end",
        "-",
        'trigger = "start"',
    ),
    Field("after", "operations", "that end first: an event it waits for", "none", "-", 'after = ["copy"]'),
    Field(
        "host_after",
        "operations",
        "for whose end the host waits before it launches this one and all later ones of its process",
        "none",
        "-",
        'host_after = ["gemm1"]',
    ),
    Field(
        "after_start",
        "kernels",
        "all of whose blocks have started first, as behind a wait-kernel",
        "none",
        "-",
        'after_start = ["gemm1"]',
    ),
)
WAITS = (
    Field("waiter", "operation", "whose blocks wait, each of them", "required", "-", 'waiter = "gemm2"'),
    Field(
        "producer",
        "operation",
        "for whose blocks; itself for a barrier of its grid",
        "-",
        "-",
        'producer = "gemm1"',
    ),
    Field(
        "blocks",
        "blocks or word",
        "how many of them: all, a number, or row (those in the same one of `rows`)",
        "all",
        "-",
        'blocks = "row"',
    ),
    Field("rows", "rows", "into which both grids are cut", "required with row", "-", "rows = 8"),
    Field("until", "word", "they start or they end", "end", "-", 'until = "start"'),
    Field("semaphore", "semaphore", "for a counter, instead of a producer", "-", "-", 'semaphore = "flag"'),
    Field("value", "posts", "that the counter has to reach", "1", "-", "value = 24"),
    Field("unknown", "true or false", "it waits, but nobody knows for what", "false", "-", "unknown = true"),
)
SEMAPHORES = (
    Field("name", "text", "how waits call it", "required", "-", 'name = "flag"'),
    Field("initial", "posts", "where it starts", "0", "-", "initial = 1"),
    Field(
        "posts",
        "tables",
        "who adds to it: `{producer, each, blocks, until}`",
        "nobody",
        "who waits for it waits for ever",
        'posts = [{producer = "gemm1", each = 1}]',
    ),
)
POSTS = (
    Field("producer", "operation", "whose blocks add to it", "required", "-", 'producer = "gemm1"'),
    Field("each", "posts", "that each of them adds", "1", "-", "each = 2"),
    Field("blocks", "blocks", "of its grid that do", "all", "-", "blocks = 24"),
    Field("until", "word", "at their start or at their end", "end", "-", 'until = "start"'),
)
SECTIONS: Mapping[str, tuple[Field, ...]] = {
    "": TOP,
    "devices": DEVICES,
    "operations": OPERATIONS,
    "waits": WAITS,
    "semaphores": SEMAPHORES,
    "posts": POSTS,
}
