"""Solutions to notebook 8."""

from wavesim import Dependency, x, y
from wavesim.teaching.generator import tall_pair

first, tall = tall_pair()

ANSWERS = {
    # 256 rows are two tile rows of 128; a slice's end is not part of it.
    "8.1": Dependency(tall[x, y], [first[:, 2 * y : 2 * y + 2]]),
    # Two blocks of 12 columns per row: 5 rows above make 10, and column 17 is in the second.
    "8.2": (11, 12),
}
