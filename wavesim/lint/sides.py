"""The kernels of a file as sides of one protocol: who waits, who posts.

Example: in a file whose consumer polls and whose producer ends on a relaxed store with nothing that says so,
that store must be the post, and is judged as one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from wavesim.lint.code import Code
from wavesim.lint.instruction import Op
from wavesim.lint.sites import FlagPost, FlagWait, candidates_of, posts_of, waits_of


@dataclass(frozen=True)
class Side:
    """One kernel with its waits and posts."""

    code: Code
    waits: tuple[FlagWait, ...]
    posts: tuple[FlagPost, ...]

    @property
    def polls(self) -> bool:
        """Whether it waits for a flag that somebody else posts."""
        return any(wait.form != "ticket" for wait in self.waits)

    @property
    def announces(self) -> bool:
        """Whether it posts other than by drawing a ticket, for certain."""
        tickets = {wait.at for wait in self.waits if wait.form == "ticket"}
        return any(post.is_certain and post.at not in tickets for post in self.posts)

    @property
    def waits_for_grid(self) -> bool:
        """Whether it has a griddepcontrol.wait."""
        return any(True for _ in self.code.having(Op.GRID_WAIT))


def side_of(code: Code) -> Side:
    """The kernel with what it says by itself."""
    waits = waits_of(code)
    return Side(code, waits, posts_of(code, waits))


def with_posts(sides: Sequence[Side]) -> list[Side]:
    """The same; where some kernel polls and none posts, what may be a post is one."""
    if not any(side.polls for side in sides) or any(side.announces for side in sides):
        return list(sides)
    return [
        replace(side, posts=_certain(side.posts) or (() if side.polls else candidates_of(side.code)))
        for side in sides
    ]


def _certain(posts: Sequence[FlagPost]) -> tuple[FlagPost, ...]:
    return tuple(replace(post, is_certain=True) for post in posts)
