"""The structures that host and device share among peers, byte for byte; the device side asserts the sizes.

Example: `PEER_PARAMS` is `peers::PeerParams` of semaphores.cuh: where each rank's words are, the time limit,
which rank this is.
"""

import numpy as np

from wavesim_gpu.kernels.gemm.sm90.parameters import LAYER_PARAMS, PARAMS

MAX_RANKS = 8
MAX_WAITERS = 64
FACTS = ("arrived", "finished", "done", "sent", "alone")  # semaphores.cuh, Fact

WAITER = np.dtype(
    [(name, "<i4") for name in ("fact", "source", "unit", "sm")] + [("seen", "<u4"), ("awaited", "<u4")]
)
# semaphores.cuh, Errors.
ERRORS = np.dtype(
    [
        *(("aborted", "<u4"), ("waiter_count", "<u4"), ("waiters", WAITER, (MAX_WAITERS,))),
        *(("told", "<u8"), ("begun", "<u4"), ("reserved", "<u4")),
    ]
)

RANK_MEMORY = np.dtype([("done", "<u8"), ("errors", "<u8")])

# semaphores.cuh, PeerParams.
PEER_PARAMS = np.dtype(
    [
        ("ranks", RANK_MEMORY, (MAX_RANKS,)),
        ("calls", "<u8"),
        ("limit_ns", "<u8"),
        *((name, "<i4") for name in ("rank", "rank_count", "block_count", "parity_mask")),
    ]
)

# tiles.cuh, Tiles.
TILES = np.dtype(
    [(name, "<i4") for name in ("m", "n", "tile_m", "tile_n", "columns", "ranks", "share", "to_all")]
)

# gemm_part.cuh, Destinations; then both kinds of parameters: those of the Hopper GEMM, and these.
DESTINATIONS = np.dtype(
    {
        "names": ["to", "posts", "peers", "tiles"],
        "formats": [("V128", (MAX_RANKS,)), ("<u8", (MAX_RANKS,)), PEER_PARAMS, TILES],
        "offsets": [0, 1024, 1088, 1248],
        "itemsize": 1280,
    }
)
SCATTER_PARAMS = np.dtype(
    {
        "names": ["plain", "c", "first_row"],
        "formats": [PARAMS, DESTINATIONS, "<i4"],
        "offsets": [0, 896, 2176],
        "itemsize": 2240,
    }
)
# exchange.cuh, Exchange and Contributions; then the parameters that hold them.
EXCHANGE = np.dtype(
    {
        "names": [
            *("sent", "own_out", "other_out", "arrived", "finished", "own_finished", "out"),
            *("peers", "tiles", "kept_row", "sums"),
        ],
        "formats": [*["V128"] * 3, *["<u8"] * 4, PEER_PARAMS, TILES, "<i4", "<u8"],
        "offsets": [0, 128, 256, 384, 392, 400, 408, 416, 576, 608, 616],
        "itemsize": 640,
    }
)
CONTRIBUTIONS = np.dtype(
    {
        "names": ["sent", "missing", "arrived", "peers", "tiles"],
        "formats": [*["V128"] * 2, "<u8", PEER_PARAMS, TILES],
        "offsets": [0, 128, 256, 264, 424],
        "itemsize": 512,
    }
)
EXCHANGE_PARAMS = np.dtype(
    {
        "names": ["layer", "c", "residual", "first_row", "ahead", "half"],
        "formats": [LAYER_PARAMS, EXCHANGE, CONTRIBUTIONS, "<i4", "<i4", "<i4"],
        "offsets": [0, 1344, 1984, 2496, 2500, 2504],
        "itemsize": 2560,
    }
)
# gathered_rows.cuh, GatheredRows; then the parameters that hold it.
GATHERED_ROWS = np.dtype(
    {
        "names": ["all", "own", "first", "end"],
        "formats": ["V128", "V128", "<i4", "<i4"],
        "offsets": [0, 128, 256, 260],
        "itemsize": 320,
    }
)
GATHER_PARAMS = np.dtype(
    {
        "names": ["plain", "a", "b", "inputs", "peers", "first_row", "tile_m"],
        "formats": [PARAMS, GATHERED_ROWS, "V128", "<u8", PEER_PARAMS, "<i4", "<i4"],
        "offsets": [0, 896, 1216, 1344, 1352, 1512, 1516],
        "itemsize": 1536,
    }
)
_REDUCE = [
    *(
        ("peers", PEER_PARAMS),
        ("tiles", TILES),
        ("staging", "<u8"),
        ("arrived", "<u8"),
        ("own_finished", "<u8"),
    ),
    *(("out", "<u8", (MAX_RANKS,)), ("finished", "<u8", (MAX_RANKS,)), ("order", "<u8")),
    *(
        (name, "<i4")
        for name in ("unit_count", "all_units", "first_row", "sends", "finished_count", "reserved")
    ),
    ("records", "<u8"),
]
# reduce.cu, ReduceParams and NormReduceParams.
REDUCE_PARAMS = np.dtype(_REDUCE)
NORM_PARAMS = np.dtype(
    [
        *(("reduce", REDUCE_PARAMS), ("residual", "<u8"), ("weight", "<u8"), ("normed", "<u8", (MAX_RANKS,))),
        *(("rows_at_once", "<i4"), ("epsilon", "<f4")),
    ]
)

# send.cu, SendParams; an entry of `order` is a pair of rank and tile.
SEND_PARAMS = np.dtype(
    [
        ("peers", PEER_PARAMS),
        *((name, "<u8", (MAX_RANKS,)) for name in ("from", "to", "sent", "posts")),
        *((name, "<u8") for name in ("order", "from_parity", "to_parity")),
        *((name, "<i4") for name in ("shipment_count", "rows", "n", "tile_m", "tile_n", "columns")),
        *((name, "<i4") for name in ("awaits_done", "reserved")),
    ]
)

# push.cu, PushParams.
PUSH_PARAMS = np.dtype(
    [("peers", PEER_PARAMS)]
    + [(name, "<u8", (MAX_RANKS,)) for name in ("given", "there", "here", "posts", "arrived")]
    + [(name, "<u8") for name in ("out", "count", "apart")]
    + [(name, "<u8", (MAX_RANKS,)) for name in ("quick_there", "quick_here")]
    + [("quick_apart", "<u8")]
    + [(name, "<u8", (MAX_RANKS,)) for name in ("sums_there", "sums_here", "finished_there", "finished_here")]
    + [("parts", "<i4"), ("reserved", "<i4")]
)

# copy.cu, BetweenParams.
BETWEEN_PARAMS = np.dtype(
    [("peers", PEER_PARAMS), ("sent", "<u8"), ("posts", "<u8")]
    + [(name, "<i4") for name in ("awaited_count", "posted_count", "posted_width", "posted_step")]
    + [("to", "<i4"), ("first", "<i4")]
)

# ping_pong.cu, PingPongParams.
PING_PONG_PARAMS = np.dtype(
    [(name, "<u8") for name in ("own", "other", "times", "limit_ns")]
    + [(name, "<i4") for name in ("rounds", "begins")]
)

assert ERRORS.itemsize == 1560
assert PEER_PARAMS.itemsize == 160
assert TILES.itemsize == 32
assert REDUCE_PARAMS.itemsize == 384
assert NORM_PARAMS.itemsize == 472
assert SEND_PARAMS.itemsize == 472
assert PUSH_PARAMS.itemsize == 904
assert BETWEEN_PARAMS.itemsize == 200
