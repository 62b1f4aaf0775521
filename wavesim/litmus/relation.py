"""Relations between the events of a litmus test, as rows of bits: bit j of row i says that i comes before j.

Example: three events in program order are `[0b110, 0b100, 0b000]`. A row is a Python integer, so that joining
two rows is one operation however many events there are.
"""

from collections.abc import Iterable, Iterator

Relation = list[int]
"""A row of bits per event."""


def bits(row: int) -> Iterator[int]:
    """The positions of a row's ones, ascending."""
    while row:
        lowest = row & -row
        yield lowest.bit_length() - 1
        row ^= lowest


def relation_of(pairs: Iterable[tuple[int, int]], size: int) -> Relation:
    """The relation that holds exactly these pairs of `size` events."""
    rows = [0] * size
    for before, after in pairs:
        rows[before] |= 1 << after
    return rows


def union(*relations: Relation) -> Relation:
    """Pairs that are in any of them."""
    joined = list(relations[0])
    for relation in relations[1:]:
        for index, row in enumerate(relation):
            joined[index] |= row
    return joined


def intersection(left: Relation, right: Relation) -> Relation:
    """Pairs that are in both."""
    return [a & b for a, b in zip(left, right, strict=True)]


def composed(left: Relation, right: Relation) -> Relation:
    """Has i before k for every i before j in `left` and j before k in `right`."""
    rows = []
    for row in left:
        reached = 0
        for middle in bits(row):
            reached |= right[middle]
        rows.append(reached)
    return rows


def inverse(relation: Relation) -> Relation:
    """The pairs turned round."""
    rows = [0] * len(relation)
    for before, row in enumerate(relation):
        for after in bits(row):
            rows[after] |= 1 << before
    return rows


def closure(relation: Relation) -> Relation:
    """The smallest transitive relation around it (Warshall)."""
    rows = list(relation)
    for middle, _ in enumerate(rows):
        reached, bit = rows[middle], 1 << middle
        if reached:
            rows = [row | reached if row & bit else row for row in rows]
    return rows


def reflexive(relation: Relation) -> Relation:
    """Every event before itself too."""
    return [row | 1 << index for index, row in enumerate(relation)]


def has_loop(relation: Relation) -> bool:
    """Whether any event is before itself; of a closure: whether the relation has a cycle."""
    return any(row >> index & 1 for index, row in enumerate(relation))
