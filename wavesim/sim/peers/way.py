"""Ways to compute and to communicate: one after the other, in chunks, or tile by tile.

Example: `parse_way("stores:8")` is a persistent GEMM whose epilogue stores every tile to the GPU that adds
it, under the next tile's multiply-adds, with eight SMs left to blocks that add and store sums.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from wavesim.errors import DescriptionError
from wavesim.safe_io.bounds import plain_int, shown
from wavesim.work.collective import Shots

Method = Literal[
    "sequence", "one-shot", "two-shot", "chunks", "plain-stores", "stores", "exchange", "blocks", "copies"
]
METHODS: tuple[Method, ...] = get_args(Method)
TEXTS: dict[Method, str] = {
    "sequence": "the library's GEMM, then its all-reduce",
    "one-shot": "the library's GEMM, then a kernel in which every GPU reads all others' outputs and adds",
    "two-shot": "the library's GEMM, then a kernel in which every GPU adds a share and stores it to all",
    "chunks": "the library's GEMM in chunks of rows, its all-reduce of each on a second stream",
    "plain-stores": "a block per tile that stores it to the peer, then a kernel that adds",
    "stores": "a persistent GEMM whose epilogue stores tiles to the peer; blocks that add come beside or "
    "after",
    "exchange": "a persistent GEMM on two GPUs whose epilogue stores the other's tiles there, and adds what "
    "has come to its own",
    "blocks": "a persistent GEMM beside blocks that store tiles to the peer and add",
    "copies": "a persistent GEMM whose rows the copy engine takes in chunks, beside blocks that add",
}
# Collectives of a library over peer memory.
DIRECT: dict[Method, Shots] = {"one-shot": "one-shot", "two-shot": "two-shot"}
COUNTED: dict[Method, str] = {
    "chunks": "chunks",
    "stores": "SMs",
    "exchange": "tiles ahead",
    "blocks": "SMs",
    "copies": "chunks",
}
USUAL = {"chunks": 4, "stores": 0, "exchange": 0, "blocks": 16, "copies": 8}
MAY_BE_ZERO = ("stores", "exchange")
ADDING_SMS = 8  # beside copies
GATHERING_SMS = 1  # beside copies of an all-gather: of the warp that posts what has come
MOST, MOST_AHEAD = 128, 4096
WORDS = (
    "sequence, one-shot, two-shot, chunks:4, plain-stores, stores, stores:8, exchange, blocks:16, copies:8"
)


@dataclass(frozen=True)
class PeerWay:
    """A method with its number of chunks or of SMs that communicate; 0 where it has none.

    Raises `DescriptionError`.
    """

    method: Method
    count: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise DescriptionError(f"way is {shown(self.method)}; known are {WORDS}")
        least, most = 0, 0
        if self.method in COUNTED:
            least = int(self.method not in MAY_BE_ZERO)
            most = MOST_AHEAD if self.method == "exchange" else MOST
        if type(self.count) is not int or not least <= self.count <= most:
            if self.method not in COUNTED:
                raise DescriptionError(
                    f"way {self.method} has no number, and {shown(self.count)} is given; leave it out"
                )
            what = COUNTED[self.method]
            raise DescriptionError(
                f"way {self.method}: {what} is {shown(self.count)}; it must be {least} to {most}"
            )

    @property
    def word(self) -> str:
        """As `parse_way` reads it."""
        return f"{self.method}:{self.count}" if self.count else self.method

    @property
    def text(self) -> str:
        """In words."""
        counted = f" ({self.count} {COUNTED[self.method]})" if self.count else ""
        return TEXTS[self.method] + counted

    @property
    def is_library(self) -> bool:
        """Whether both kernels are a library's, and a collective is one kernel."""
        return self.method in ("sequence", "chunks") or self.shots is not None

    @property
    def shots(self) -> Shots | None:
        """Of a library's all-reduce over peer memory, such as PyTorch's or vLLM's; None for other ways."""
        return DIRECT.get(self.method)

    @property
    def chunks(self) -> int:
        """Into how many row chunks the work is cut."""
        return self.count if COUNTED.get(self.method) == "chunks" else 1

    @property
    def sms(self) -> int:
        """SMs per GPU that communicate while the GEMM computes."""
        if self.method == "copies":
            return ADDING_SMS
        return self.count if COUNTED.get(self.method) == "SMs" else 0


def parse_way(text: str) -> PeerWay:
    """The way that a word names. Raises `DescriptionError`."""
    name, colon, number = text.partition(":")
    if name not in METHODS:
        raise DescriptionError(f"way is {shown(text)}; known are {WORDS}")
    if not colon:
        return PeerWay(name, USUAL.get(name, 0))
    try:
        count = plain_int(number)
    except ValueError:
        count = -1
    if count < 0:
        raise DescriptionError(f"way is {shown(text)}; write a number after the colon, such as {WORDS}")
    return PeerWay(name, count)
