"""What the user knows of a kernel's parameters and the machine code does not say.

Example: Known(produced=frozenset({"consumer:0"}), remote=frozenset({"2"})): the first parameter of the kernel
`consumer` is what another kernel writes meanwhile; the third of every kernel points to another GPU's memory.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Known:
    """Each holds parameters by number from 0 ("0"; "kernel:0" of one kernel), or names of symbols.

    `produced` is written by another kernel meanwhile, `constant` by nobody, `remote` lies on another GPU or
    is mapped from the host, `flags` are semaphores.
    """

    produced: frozenset[str] = frozenset()
    constant: frozenset[str] = frozenset()
    remote: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()

    @staticmethod
    def covers(names: frozenset[str], kernel: str, root: str) -> bool:
        """Whether `root` ("param 0", "param 0+8", a symbol) of `kernel` is one of `names`."""
        plain = root.removeprefix("param ")
        whole = plain.partition("+")[0]
        return not names.isdisjoint({plain, whole, f"{kernel}:{plain}", f"{kernel}:{whole}"})
