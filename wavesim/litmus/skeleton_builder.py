"""A litmus test's threads as events: one skeleton for every choice of the branches that are taken.

Example: `@a=1 st.weak [x], 1` makes two skeletons, with the store and without; which of them fits the values
is found out by `enumeration`. Each kind of instruction has a method that adds its events.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from wavesim.litmus.events import Kind, MemoryEvent, Skeleton
from wavesim.litmus.program import LitmusTest, Place, Statement, ValueTest, destination


def skeletons(test: LitmusTest) -> Iterator[Skeleton]:
    """One for every choice of the guards that differ; which of them fit the values is found out later."""
    guards = sorted(
        {s.guard for thread in test.threads for s in thread.statements if s.guard},
        key=lambda guard: (guard[0], guard[1].sign, guard[1].value),
    )
    for choices in product((False, True), repeat=len(guards)):
        taken = dict(zip(guards, choices, strict=True))
        builder = _Builder(test)
        builder.add_threads(taken)
        builder.skeleton.guards = [(name, compared, is_true) for (name, compared), is_true in taken.items()]
        yield builder.skeleton


class _Builder:
    """Fills a skeleton, thread by thread."""

    def __init__(self, test: LitmusTest) -> None:
        self.test, self.skeleton = test, Skeleton()
        self._barriers: dict[tuple[Place, str, int], tuple[list[int], list[int]]] = {}
        self._starts: list[int] = []
        self._grid_waits: list[tuple[int, str]] = []
        self._ends: dict[str, list[int]] = {}

    def add_threads(self, taken: dict[tuple[str, ValueTest], bool]) -> None:
        for number, thread in enumerate(self.test.threads):
            _Thread(self, number).add([s for s in thread.statements if s.guard is None or taken[s.guard]])
        self._tie_barriers()
        self._tie_kernels()

    def add(self, event: MemoryEvent) -> int:
        self.skeleton.events.append(event)
        return len(self.skeleton.events) - 1

    def at_barrier(self, place: Place, name: str, turn: int) -> tuple[list[int], list[int]]:
        """Who arrives at, and who waits at, the turn-th meeting of a barrier."""
        return self._barriers.setdefault((place, name, turn), ([], []))

    def begin(self, event: int) -> None:
        self._starts.append(event)

    def wait_for_grid(self, event: int, kernel: str) -> None:
        self._grid_waits.append((event, kernel))

    def end(self, kernel: str, event: int) -> None:
        self._ends.setdefault(kernel, []).append(event)

    def _tie_barriers(self) -> None:
        for arrived, waiting in self._barriers.values():
            self.skeleton.fixed += [(first, second) for first in arrived for second in waiting]

    def _tie_kernels(self) -> None:
        """A kernel's end is before what starts after it in its stream, and what waits for its grid."""
        waits = list(self._grid_waits)
        for start, thread in zip(self._starts, self.test.threads, strict=True):
            waits += [(start, kernel) for kernel in thread.after]
        self.skeleton.kernel_ends = [
            (end, event) for event, kernel in waits for end in self._ends.get(kernel, [])
        ]
        self.skeleton.fixed += self.skeleton.kernel_ends


class _Thread:
    """One thread's events, in order, and the asynchronous accesses that it starts."""

    def __init__(self, builder: _Builder, number: int) -> None:
        self._builder, self._skeleton, self._number = builder, builder.skeleton, number
        self._thread = builder.test.threads[number]
        self._blank = MemoryEvent("mark", number, self._thread.place, "")
        self._last: int | None = None
        self._turns: dict[str, int] = {}
        self._control: list[int] = []  # reads that decide whether what follows is done
        self._sources: dict[str, int] = {}  # register -> the read that fills it
        # Asynchronous accesses by kind, the last group not committed yet: after what was read, what was
        # written.
        self._groups: dict[str, list[list[tuple[int, int]]]] = {}

    def add(self, statements: list[Statement]) -> None:
        self._builder.begin(self._next(replace(self._blank, text="start")))
        for statement in statements:
            if statement.guard:
                self._control.append(self._sources.get(statement.guard[0], -1))
            getattr(self, f"_add_{statement.what}")(statement)
        end = self._next(replace(self._blank, text="end"))
        started = [pair for groups in self._groups.values() for group in groups for pair in group]
        self._skeleton.fixed += [(done, end) for pair in started for done in pair]
        self._builder.end(self._thread.kernel, end)

    def _next(self, event: MemoryEvent) -> int:
        index = self._builder.add(event)
        if self._last is not None:
            self._skeleton.steps.append((self._last, index))
        self._last = index
        if event.kind == "write":
            self._depend(index, event.value)
        return index

    def _depend(self, index: int, value: tuple[str | int, ...]) -> None:
        sources = [self._sources[word] for word in value if isinstance(word, str) and word in self._sources]
        self._skeleton.depends += [(read, index) for read in {*sources, *self._control} if read >= 0]

    def _event(self, kind: Kind, statement: Statement, **changes: object) -> MemoryEvent:
        order, scope = statement.order or "weak", statement.scope
        fields = {"text": statement.text, "order": order, "scope": scope, "proxy": statement.proxy, **changes}
        return replace(self._blank, kind=kind, **fields)  # type: ignore[arg-type]  # fields of the dataclass

    def _read(self, statement: Statement, variable: str, **changes: object) -> int:
        changes = {"is_counted": statement.what == "mbarrier", **changes}
        index = self._next(
            self._event("read", statement, variable=variable, awaited=statement.awaited, **changes)
        )
        name = destination(statement)
        if name:
            self._sources[name] = index
        if statement.awaited:
            self._control.append(index)
        return index

    def _add_ld(self, statement: Statement) -> None:
        self._read(statement, statement.variables[0], register=destination(statement))

    def _add_st(self, statement: Statement) -> None:
        value = statement.values
        if "async" in statement.suffixes:
            variable, barrier = statement.variables
            mark = self._next(self._event("mark", statement))
            write = self._builder.add(
                self._event("write", statement, order="weak", variable=variable, value=value)
            )
            self._depend(write, value)
            self._skeleton.issue.append((mark, write))
            self._complete(write, barrier, statement)
        else:
            self._next(self._event("write", statement, variable=statement.variables[0], value=value))

    def _atomic(self, statement: Statement, variable: str, operation: str, operands: tuple[str, ...]) -> None:
        order = statement.order or "relaxed"
        read = self._read(
            statement,
            variable,
            order="acquire" if order in ("acquire", "acq_rel") else "relaxed",
            register=destination(statement),
            makes_acquire=statement.what != "red",
        )
        write = self._next(
            self._event(
                "write",
                statement,
                variable=variable,
                order="release" if order in ("release", "acq_rel") else "relaxed",
                value=(operation, read, *operands),
                is_counted=statement.what == "mbarrier",
            )
        )
        self._skeleton.atomics.append((read, write))
        self._skeleton.depends.append((read, write))

    def _add_atom(self, statement: Statement) -> None:
        self._atomic(statement, statement.variables[0], statement.suffixes[-1], statement.values[1:])

    def _add_red(self, statement: Statement) -> None:
        self._atomic(statement, statement.variables[0], statement.suffixes[-1], statement.values)

    def _add_mbarrier(self, statement: Statement) -> None:
        """A phase as a counter: an arrival adds 1 to it, a wait is for a number of arrivals."""
        variable, scope = statement.variables[0], statement.scope or "cta"
        if statement.suffixes[0].endswith("_wait"):
            ordered = replace(statement, order=statement.order or "acquire", scope=scope)
            self._read(ordered, variable)
        else:
            ordered = replace(statement, order=statement.order or "release", scope=scope)
            self._atomic(ordered, variable, "add", ("1",))

    def _add_fence(self, statement: Statement) -> None:
        if "proxy" not in statement.suffixes:
            order = statement.order or "acq_rel"
            self._next(self._event("fence", statement, order=order, scope=statement.scope or "sys"))
            return
        is_shared = any(word.startswith("shared") for word in statement.suffixes)
        spaces = {is_shared} if is_shared or "global" in statement.suffixes else {False, True}
        self._next(self._event("proxy fence", statement, spaces=frozenset(spaces)))

    def _add_bar(self, statement: Statement) -> None:
        name = (statement.values or ("0",))[0] + (" warp" if "warp" in statement.suffixes else "")
        waits = "sync" in statement.suffixes
        self._meet(statement, self._thread.place, name, arrives=True, waits=waits)

    def _add_barrier(self, statement: Statement) -> None:
        gpu, cluster, _ = self._thread.place
        arrives, waits = "wait" not in statement.suffixes, "arrive" not in statement.suffixes
        self._meet(statement, (gpu, cluster, -1), "cluster", arrives=arrives, waits=waits)

    def _meet(self, statement: Statement, place: Place, name: str, *, arrives: bool, waits: bool) -> None:
        turn = self._turns[name] = self._turns.get(name, 0) + arrives
        arrived, waiting = self._builder.at_barrier(place, name, turn)
        if arrives:
            arrived.append(self._next(self._event("barrier", statement)))
        if waits:
            waiting.append(self._next(self._event("barrier", statement)))

    def _add_griddepcontrol(self, statement: Statement) -> None:
        index = self._next(self._event("mark", statement))
        if "wait" in statement.suffixes:
            self._builder.wait_for_grid(index, (statement.values or ("",))[0])

    def _add_cp(self, statement: Statement) -> None:
        if not self._is_of_groups(statement, "bulk" if "bulk" in statement.suffixes else "copy"):
            self._copy(statement)

    def _add_wgmma(self, statement: Statement) -> None:
        """`wgmma.mma_async r, [x]` reads shared memory as TMA does, until its group is waited for."""
        if self._is_of_groups(statement, "wgmma"):
            return
        mark = self._next(self._event("mark", statement))
        name = statement.values[0]
        read = self._event("read", statement, proxy="async", variable=statement.variables[0], register=name)
        self._sources[name] = self._builder.add(read)
        self._skeleton.issue.append((mark, self._sources[name]))
        fence = self._promised_fence(statement)
        self._skeleton.fixed.append((self._sources[name], fence))
        self._open("wgmma").append((fence, fence))

    def _open(self, kind: str) -> list[tuple[int, int]]:
        return self._groups.setdefault(kind, [[]])[-1]

    def _is_of_groups(self, statement: Statement, kind: str) -> bool:
        if "commit_group" in statement.suffixes:
            self._open(kind)
            self._groups[kind].append([])
            self._next(self._event("mark", statement))
        elif "wait_group" in statement.suffixes:
            pending = int((statement.values or ("0",))[0])
            index = self._next(self._event("mark", statement))
            committed = self._groups.get(kind, [[]])[:-1]
            which = 0 if "read" in statement.suffixes else 1
            done = committed[: len(committed) - pending]
            self._skeleton.fixed += [(pair[which], index) for group in done for pair in group]
        return "commit_group" in statement.suffixes or "wait_group" in statement.suffixes

    def _copy(self, statement: Statement) -> None:
        """An asynchronous copy: [to], [from] and, where it completes at an mbarrier, [barrier]."""
        to, source, *barriers = statement.variables
        mark = self._next(self._event("mark", statement))
        read = self._builder.add(self._event("read", statement, order="weak", variable=source))
        write = self._builder.add(
            self._event("write", statement, order="weak", variable=to, value=("copy", read))
        )
        self._skeleton.issue += [(mark, read), (mark, write)]
        self._skeleton.depends.append((read, write))
        self._depend(write, ())
        self._skeleton.fixed.append((read, write))
        if barriers:
            self._complete(write, barriers[0], statement)
        else:
            done = self._promised_fence(statement), self._promised_fence(statement)
            self._skeleton.fixed += [(read, done[0]), (write, done[1])]
            self._open("bulk" if "bulk" in statement.suffixes else "copy").append(done)

    def _promised_fence(self, statement: Statement) -> int:
        return self._builder.add(self._event("proxy fence", statement, proxy="async"))

    def _complete(self, write: int, barrier: str, statement: Statement) -> None:
        """The arrival at an mbarrier that ends an asynchronous copy: release, of cluster scope."""
        fence = self._promised_fence(statement)
        common = {"scope": "cluster", "variable": barrier, "proxy": "generic", "is_counted": True}
        read = self._builder.add(
            self._event("read", statement, order="relaxed", makes_acquire=False, **common)
        )
        arrival = self._builder.add(
            self._event("write", statement, order="release", value=("add", read, "1"), **common)
        )
        self._skeleton.steps += [(write, fence), (fence, read), (read, arrival)]
        self._skeleton.atomics.append((read, arrival))
        self._skeleton.depends.append((read, arrival))
