"""findings_of(): what the rules say of every wait, post and load of a listing.

Example: findings_of(listing_of_ptx(text, "pair.ptx")) holds one Finding per wait and per post at least, and
for a kernel with neither one of kind "kernel", "unknown".
"""

from collections.abc import Iterable, Iterator

from wavesim.errors import RecordingError
from wavesim.lint.code import Code
from wavesim.lint.finding import Finding
from wavesim.lint.kernel_code import KernelCode, Listing
from wavesim.lint.known import Known
from wavesim.lint.rules.async_copies import judge_copies
from wavesim.lint.rules.dependent_launch import judge_dependents
from wavesim.lint.rules.divergence import judge_barriers
from wavesim.lint.rules.loading import judge_loads
from wavesim.lint.rules.mbarriers import judge_mbarriers
from wavesim.lint.rules.posting import judge_posts
from wavesim.lint.rules.resetting import judge_resets
from wavesim.lint.rules.spinning import judge_spins
from wavesim.lint.rules.waiting import judge_waits
from wavesim.lint.sites import posts_of, waits_of

MOST_GIVEN_UP = 3  # kernels that take all the steps that one may: each costs up to 10 s


def findings_of(listing: Listing, known: Known = Known()) -> list[Finding]:  # noqa: B008 -- it is frozen
    """What is wrong, right or unknown of each kernel of a listing, in its order."""
    judged: list[_Kernel] = []
    given_up: list[Finding] = []
    for kernel in listing.kernels:
        if kernel.is_entry:
            _judge(kernel, listing, known, judged, given_up)
    of_file = list(judge_dependents([(kernel.code, kernel.waits) for kernel in judged]))
    return [*(finding for kernel in judged for finding in kernel.findings(of_file)), *given_up]


def _judge(
    kernel: KernelCode, listing: Listing, known: Known, judged: list["_Kernel"], given_up: list[Finding]
) -> None:
    """Adds to the kernels, or says why it can't be followed."""
    why = f"not checked: {MOST_GIVEN_UP} kernels before it in the file could not be followed"
    if len(given_up) < MOST_GIVEN_UP:
        try:
            judged.append(_Kernel(kernel, listing, known))
        except RecordingError as error:
            why = str(error)
        else:
            return
    given_up.append(Finding(kernel.name, "kernel", "", "unknown", why, where=listing.where))


class _Kernel:
    """One kernel with its waits and posts."""

    def __init__(self, kernel: KernelCode, listing: Listing, known: Known) -> None:
        self.code = Code(kernel, listing, known)
        self.waits = waits_of(self.code)
        self.posts = posts_of(self.code, self.waits)
        self._own = list(self._judged())

    def findings(self, of_file: Iterable[Finding]) -> list[Finding]:
        """By every rule, those of the file that are about this kernel too."""
        name, where = self.code.kernel.name, self.code.where
        found = [*self._own, *(finding for finding in of_file if finding.kernel == name)]
        if not found:
            found.append(Finding(name, "kernel", "", "unknown", "no wait or post was found", where=where))
        return found

    def _judged(self) -> Iterator[Finding]:
        code, waits, posts = self.code, self.waits, self.posts
        yield from judge_waits(code, waits)
        yield from judge_posts(code, posts, waits)
        yield from judge_loads(code, waits, posts)
        yield from judge_resets(code, waits)
        yield from judge_mbarriers(code)
        yield from judge_copies(code)
        yield from judge_barriers(code)
        yield from judge_spins(code, waits)
