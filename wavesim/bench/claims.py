"""The table of claims: every headline figure with its target, device, date, commit and command.

Example: `hopper.tuned_vs_cublaslt_geomean` is 0.989, measured on an H200 on 2026-11-22. README and docs take
their figures from here. A target that nobody has measured has no value.
"""

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from wavesim.costs.device_costs import default_device
from wavesim.predict.score_history import committed_scores

FILE = files("wavesim.bench") / "claims.toml"
CLOSED = files("wavesim.bench") / "closed.toml"
BASIS = "costs"  # of a closed run's claims: predicted from the device's constants alone


@dataclass(frozen=True)
class Claim:
    """One figure. `must` and `aim` are the target and the stricter one, null where none was set.

    `value` is null where nothing was measured; `better` says which way is good. `said` is the sentence
    of docs/claims.md, with a format field in place of the figure.
    """

    name: str
    value: float | None
    unit: str
    must: float | None
    aim: float | None
    better: Literal["higher", "lower"]
    device: str | None
    date: str | None
    commit: str | None
    command: str | None
    said: str = ""

    @property
    def is_met(self) -> bool | None:
        """Whether the value reaches `must`; None where either is missing."""
        if self.value is None or self.must is None:
            return None
        return self.value >= self.must if self.better == "higher" else self.value <= self.must

    @property
    def json_object(self) -> dict[str, Any]:
        """All but the sentence."""
        entry = asdict(self)
        del entry["said"]
        return entry


def load_claims() -> list[Claim]:
    """All claims by name: what is measured first, then what is open."""
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))
    measured = [_claim(name, entry) for name, entry in document["claims"].items()]
    measured += _of_pages(document["pages"])
    known = {claim.name for claim in measured}
    return [*measured, *(claim for claim in _targets(document["targets"]) if claim.name not in known)]


def _claim(name: str, entry: Mapping[str, Any]) -> Claim:
    fields: dict[str, Any] = {
        field: entry.get(field) for field in ("value", "must", "aim", "device", "date", "commit")
    }
    if "score" in entry:
        set_name, field = entry["score"].split()
        score = committed_scores()[set_name]
        fields |= {"value": getattr(score, field), "device": score.device or default_device()}
    if "closed" in entry:
        list_name, field = entry["closed"].split()
        run = next(run for run in _closed_runs() if (run["list"], run["basis"]) == (list_name, BASIS))
        fields |= {"value": run[field], **{name: run[name] for name in ("device", "date", "commit")}}
    fields |= {field: entry[field] for field in ("unit", "better", "command")}
    return Claim(name, said=entry.get("said", ""), **fields)


@cache
def _closed_runs() -> list[dict[str, Any]]:
    runs: list[dict[str, Any]] = tomllib.loads(CLOSED.read_text(encoding="utf-8"))["run"]
    return runs


def _of_pages(pages: Mapping[str, Mapping[str, Any]]) -> Iterator[Claim]:
    """Figures of results pages: a row is a name, its unit, which way is good, and value or mean, least, most.

    `musts` has the targets, by name.
    """
    for page, group in pages.items():
        where = {field: group[field] for field in ("device", "date", "commit", "command")}
        for name, unit, better, *values in group["rows"]:
            for part, value in zip(("", "_least", "_most"), values, strict=False):
                must = group.get("musts", {}).get(f"{name}{part}")
                yield Claim(f"{page}.{name}{part}", value, unit, must, None, better, said="", **where)


def _targets(groups: Mapping[str, Mapping[str, Any]]) -> Iterator[Claim]:
    for name, group in groups.items():
        for prefix, device in {name: group.get("device"), **group.get("also", {})}.items():
            for title, unit, better, must, *aim in group["rows"]:
                target = aim[0] if aim else None
                yield Claim(f"{prefix}.{title}", None, unit, must, target, better, device, None, None, None)


def claims_text(claims: list[Claim]) -> str:
    """A line per claim: name, value, unit, target, stricter target, where and when."""
    lines = [f"{'claim':<50}{'value':>7} {'unit':<11}{'must':>6}{'aim':>6} measured"]
    for claim in claims:
        value, must, aim = map(_figure, (claim.value, claim.must, claim.aim))
        where = f"{claim.device or ''} {claim.date or ''}" if claim.value is not None else "not yet"
        lines.append(f"{claim.name:<50}{value:>7} {claim.unit:<11}{must:>6}{aim:>6} {where}".rstrip())
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:g}"
