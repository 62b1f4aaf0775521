"""Plans as words and as data: what people type, what files store, and both read back.

Example: "row" is row semaphores on a stream per stage, "pdl+row" the same by dependent launch on one stream,
"persistent+streams+tile" persistent kernels with tile semaphores. In a trace's header a plan is an object,
`{"schedule": "tile", "launch": "pdl", "sync": "row", "order": "grouped:8", ...}`. A new part of a plan is a
file of its own and a line in `SCHEDULES`, `LAUNCHES` or `SYNCS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from wavesim.errors import DescriptionError
from wavesim.plan.launch import DependentLaunch, Launch, OneStream, StreamPerStage
from wavesim.plan.megakernel import megakernel_of
from wavesim.plan.order import Order, RowMajor, parse_order
from wavesim.plan.plan import SHORT_NAMES, Plan, SemaphoreSync
from wavesim.plan.policy import GridSync, RowSync, TileSync, parse_policy
from wavesim.plan.schedule import Persistent, Schedule, TilePerBlock
from wavesim.plan.stream_k import split_last_waves
from wavesim.plan.sync import KernelBoundary, Semaphores, Sync
from wavesim.safe_io.bounds import bounded_text, plain_float, plain_int, shown


def _plain(part: Callable[[], Any]) -> Callable[[str], Any]:
    def build(setting: str) -> Any:
        if setting:
            raise ValueError(setting)
        return part()

    return build


def _streams(setting: str) -> Launch:
    if not setting:
        return StreamPerStage()
    without, _, head_start = setting.partition(":")
    if without != "no-wait-kernel":
        raise ValueError(setting)
    return StreamPerStage(wait_kernel=False, head_start=plain_int(head_start or "0"))


# A word, and what it builds from the setting after its colon.
SCHEDULES: dict[str, Callable[[str], Schedule]] = {
    "tile": _plain(TilePerBlock),
    "persistent": _plain(Persistent),
    "fused": _plain(lambda: Persistent(fused=True)),
    "stream-k": split_last_waves,
    "stream-k-in-order": partial(split_last_waves, in_order=True),
    "megakernel": megakernel_of,
}
LAUNCHES: dict[str, Callable[[str], Launch]] = {
    "one-stream": _plain(OneStream),
    "graph": _plain(lambda: OneStream("graph")),
    "host": _plain(lambda: OneStream("host")),
    "streams": _streams,
    "pdl": _plain(DependentLaunch),
}
SYNCS: dict[str, Callable[[str], Sync]] = {
    "boundary": _plain(KernelBoundary),
    "row": _plain(lambda: Semaphores(RowSync())),
    "tile": _plain(lambda: Semaphores(TileSync())),
    "grid": _plain(lambda: Semaphores(GridSync())),
}
_PARTS: dict[str, Mapping[str, Callable[[str], Any]]] = {"schedule": SCHEDULES, "launch": LAUNCHES}
# What tuning tries beside a block per tile on one stream: schedules without semaphores, and schedules and
# launches with them.
SCHEDULES_TO_TRY: tuple[Schedule, ...] = (Persistent(), SCHEDULES["stream-k"](""))
SEMAPHORES_TO_TRY: tuple[tuple[Schedule, Launch], ...] = (
    (TilePerBlock(), StreamPerStage()),
    (TilePerBlock(), StreamPerStage(wait_kernel=False)),
    (TilePerBlock(), DependentLaunch()),
    (Persistent(fused=True), OneStream()),
)
# Of kernels of several kinds, which no one kernel computes: schedules without semaphores, then with them.
LAYER_SCHEDULES_TO_TRY: tuple[Schedule, ...] = (Persistent(),)
LAYER_SEMAPHORES_TO_TRY: tuple[tuple[Schedule, Launch], ...] = (
    *SEMAPHORES_TO_TRY[:3],
    (Persistent(), DependentLaunch()),
)
WORDS = (
    "stream, row, tile, graph, host, pdl[:SHARE], stream-k[:WAVES], stream-k-in-order[:WAVES], "
    "persistent[:POLICY], persistent-stream, megakernel[:ring=BYTES][:groups=N], or parts joined by +: "
    "tile|persistent|fused|stream-k|megakernel, one-stream|graph|host|streams|pdl, boundary|row|tile|grid, "
    "as in pdl+row"
)


def parse_plan(text: str, order: str = "row", *, wait_kernel: bool = True, head_start: int = 0) -> Plan:
    """The plan that a word names: a policy's name such as "row", or one of `WORDS`, as in "pdl:0.05".

    Raises `DescriptionError`; `wait_kernel` and `head_start` are for plans named by a policy alone.
    """
    tiles = parse_order(order)
    bounded_text("sync", text, example="it, such as 'row' or 'pdl+row',")
    if text in SYNCS and (sync := SYNCS[text]("")).has_semaphores:
        return Plan(launch=StreamPerStage(wait_kernel, head_start), sync=sync, order=tiles)
    if not wait_kernel or head_start:
        raise DescriptionError(
            f"sync is {shown(text)}, which says how its kernels are launched: leaving out the wait-kernel "
            "and a head start are for row or tile; or write streams:no-wait-kernel:HEAD_START+row"
        )
    try:
        return replace(_parsed(text), order=tiles)
    except DescriptionError:
        raise
    except ValueError:
        raise DescriptionError(f"sync is {shown(text)}; known are {WORDS}") from None


def _parsed(text: str) -> Plan:
    """A plan in row-major order. Raises `ValueError` for words that are none, or end with a colon."""
    if any("" in part.split(":") for part in text.split("+")):
        raise ValueError(text)
    if "+" in text:
        return _joined(text.split("+"))
    word, _, setting = text.partition(":")
    for words, short in SHORT_NAMES.items():
        if text == short:
            return plan_of_words(*words)
    if word == "persistent" and setting:
        return Plan(Persistent(fused=True), sync=_built("sync", SYNCS, setting))
    if word == "pdl":
        return Plan(launch=DependentLaunch(), prefetch=plain_float(setting or "0"))
    if word == "megakernel":
        return Plan(megakernel_of(setting), sync=Semaphores(GridSync()))
    if word in SCHEDULES and word != "fused":
        return Plan(SCHEDULES[word](setting))
    raise ValueError(text)


def _joined(words: list[str]) -> Plan:
    """Parts in any order but the sync, which stands last, each once; others are a plain kernel's.

    Of a plan with semaphores a stream per stage, unless one kernel computes all stages.
    """
    parts: dict[str, Any] = {}
    for word in words[:-1]:
        head, _, setting = word.partition(":")
        kind = "prefetch" if head == "prefetch" else "launch" if head in LAUNCHES else "schedule"
        if kind in parts:
            raise DescriptionError(
                f"sync is {shown('+'.join(words))}; {shown(word)} is a second {kind}. Name one"
            )
        parts[kind] = plain_float(setting) if kind == "prefetch" else _built(kind, _PARTS[kind], word)
    parts["sync"] = _built("sync", SYNCS, words[-1])
    if parts["sync"].has_semaphores and not parts.get("schedule", TilePerBlock()).is_fused:
        parts.setdefault("launch", StreamPerStage())
    return Plan(**parts)


def _built(kind: str, known: Mapping[str, Callable[[str], Any]], text: str) -> Any:
    word, _, setting = text.partition(":")
    if word not in known:
        raise DescriptionError(f"{kind} is {shown(text)}; known are {', '.join(known)}")
    try:
        return known[word](setting)
    except DescriptionError:
        raise
    except ValueError:
        raise DescriptionError(f"{kind} is {shown(text)}; {shown(setting)} is no setting of {word}") from None


def plan_of_words(schedule: str, launch: str, sync: str, order: str = "row") -> Plan:
    """The plan of three words, as `--schedule`, `--launch` and `--sync` take. Raises `DescriptionError`."""
    return Plan(
        _built("schedule", SCHEDULES, schedule),
        _built("launch", LAUNCHES, launch),
        _built("sync", SYNCS, sync),
        parse_order(order),
    )


_FIELDS: dict[str, Any] = {
    **dict.fromkeys(("schedule", "launch", "sync", "order"), str),
    "prefetch": int | float,
    "policies": Mapping,
    "orders": Mapping,
}
_EXPECTED = {
    "prefetch": "a share from 0 to 1",
    "policies": "an object such as {'gemm1 -> gemm2': 'tile'}",
    "orders": "an object such as {'gemm1': 'grouped:8'}",
}


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan as JSON values, for a trace's header."""
    return {
        "schedule": plan.schedule.word,
        "launch": plan.launch.word,
        "sync": plan.sync.word,
        "policies": {
            f"{a} -> {b}": policy.name for (a, b), policy in sorted(plan.sync.edge_policies.items())
        },
        "order": plan.order.name,
        "orders": {stage: order.name for stage, order in sorted(plan.orders.items())},
        "prefetch": plan.prefetch,
    }


def plan_from_data(data: Mapping[str, Any]) -> Plan:
    """The plan that `plan_data` described. Raises `DescriptionError` for a user's own policy or order, and
    for fields that are missing, unknown (a newer wavesim's) or no such values.
    """
    _check_data(data)
    plan = plan_of_words(data["schedule"], data["launch"], data["sync"], data["order"])
    orders: dict[str, Order] = {stage: parse_order(name) for stage, name in data.get("orders", {}).items()}
    sync = plan.sync
    if data.get("policies"):
        edges = {edge.partition(" -> "): name for edge, name in data["policies"].items()}
        policies = {(a, b): parse_policy(name) for (a, _, b), name in edges.items()}
        sync = Semaphores(parse_policy(data["sync"]), policies)
    return replace(plan, sync=sync, orders=orders, prefetch=data["prefetch"])


def _check_data(data: Mapping[str, Any]) -> None:
    """Raises `DescriptionError` for a plan in a file whose fields are not what `plan_data` writes."""
    if not isinstance(data, Mapping):
        raise DescriptionError(f"plan is {shown(data)}; expected an object with {', '.join(_FIELDS)}")
    for name in data:
        if name not in _FIELDS:
            raise DescriptionError(
                f"plan.{shown(name)[1:-1]} is unknown; known are {', '.join(_FIELDS)}. A newer "
                "wavesim may have written it"
            )
    for name, kind in _FIELDS.items():
        is_mapping = kind is Mapping
        value = data.get(name, {} if is_mapping else None)
        is_right = isinstance(value, kind)
        if is_right and is_mapping:
            is_right = all(isinstance(text, str) for pair in value.items() for text in pair)
        if is_right and name == "policies":
            is_right = all(" -> " in edge for edge in value)
        if not is_right:
            raise DescriptionError(f"plan.{name} is {shown(value)}; expected {_EXPECTED.get(name, 'a text')}")


def recorded_plan(name: str, data: Mapping[str, Any], orders: Mapping[str, str]) -> Plan:
    """The plan of a trace's header: from its data or, in recordings of before there were any, from its name.

    Raises `DescriptionError` for a plan with a user's own policy or order.
    """
    if data:
        return plan_from_data(data)
    named = {stage: parse_order(order) for stage, order in orders.items()}
    first = next(iter(named.values()), RowMajor())
    plan = parse_plan(name)
    if all(order == first for order in named.values()):
        return replace(plan, order=first)
    return replace(plan, orders=named)


def recorded_shape(name: str, data: Mapping[str, Any]) -> Plan:
    """Like `recorded_plan`, with row semaphores in row-major order in place of a user's own policy and order.

    For what follows from schedule, launch and the presence of semaphores alone.
    """
    if data:
        _check_data(data)
        sync = data["sync"] if data["sync"] in SYNCS else "row"
        return plan_of_words(data["schedule"], data["launch"], sync)
    try:
        return parse_plan(name)
    except DescriptionError:
        return SemaphoreSync()
