"""How operators take a product over two GPUs: the fastest of the measured ways that they have.

Example: `python -m wavesim_gpu.bench.kinds.two_gpus.choices` writes gpu/wavesim_gpu/peers/choice.toml anew
from the recorded times: a row per measured product, "library" where cuBLAS and NCCL in a row were faster.
"""

import re
import sys
from collections.abc import Mapping
from typing import Any

from wavesim.bench.peer_timed import OPERATORS, SECOND_TIMED, medians, timed_lines

from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text
from wavesim_gpu.peers.choice import CHOICES, LIBRARY, USUAL_TILE, PeerChoice

HEAD = """\
# The way and the tile in which ours was fastest on two H200s, of those tried (docs/two-gpus.md), or
# "library". Written by `python -m wavesim_gpu.bench.kinds.two_gpus.choices`.
columns = ["kind", "m", "n", "k", "way", "tile_m", "tile_n"]
rows = [
"""


def choice_from(line: Mapping[str, Any]) -> PeerChoice:
    """Of a line that the measuring command wrote."""
    times = medians(line)
    known = [way for way in OPERATORS[line["kind"]] if way in times]
    if not known or "sequence" not in times:
        return PeerChoice(LIBRARY, USUAL_TILE)
    way = min(known, key=times.__getitem__)
    tile = re.match(r"(\d+)x(\d+)", line["ways"][way]["words"])
    assert tile is not None
    is_slower = times[way] > times["sequence"]
    return PeerChoice(LIBRARY if is_slower else way, (int(tile[1]), int(tile[2])))


def choices_text() -> str:
    """The file."""
    rows = []
    for line in [*timed_lines(), *timed_lines(SECOND_TIMED)]:
        m, k, n = line["size"]
        one = choice_from(line)
        rows.append(f'    ["{line["kind"]}", {m}, {n}, {k}, "{one.way}", {one.tile[0]}, {one.tile[1]}],')
    return HEAD + "\n".join(rows) + "\n]\n"


def main() -> int:
    """Writes it."""
    write_text(CHOICES, choices_text())
    return 0


if __name__ == "__main__":
    sys.exit(run_program("two_gpus.choices", main))
