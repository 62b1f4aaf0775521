"""The cases of the corpus, from `cases.toml`; their PTX and machine code lie packed in `listings.tar.xz`."""

import functools
import hashlib
import io
import itertools
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

FOLDER = Path(__file__).parent
PACKED = FOLDER / "listings.tar.xz"
ARCHS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")  # where a template names none

Language = Literal["ptx", "sass"]
Family = Literal["mutant", "public", "right"]


@dataclass(frozen=True)
class Case:
    """One source, compiled for each of `archs`; `defines` are the macros that choose its form and its fault.

    `fault` is the class, "" for a right kernel. `expected` are the rules of which one must say "wrong", in
    each of `languages`. `known` is what a user would say of the parameters: "produced", "constant", ...
    """

    name: str
    family: Family
    template: str
    defines: tuple[str, ...]
    archs: tuple[str, ...]
    fault: str = ""
    expected: tuple[str, ...] = ()
    languages: tuple[Language, ...] = ("ptx", "sass")
    known: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    about: str = ""

    @property
    def source(self) -> Path:
        """The template's file."""
        return FOLDER / "templates" / f"{self.template}.cu"

    @property
    def is_test(self) -> bool:
        """Whether it is in the test split, of which only totals are looked at."""
        return hashlib.sha256(self.name.encode()).digest()[0] % 2 == 1

    def text(self, language: Language, arch: str) -> str:
        """PTX or machine code as packed."""
        return packed()[f"{self.name}.{arch}.{language}"]


@functools.cache
def cases() -> tuple[Case, ...]:
    """All cases: by template, each right twin before its mutants."""
    described = tomllib.loads((FOLDER / "cases.toml").read_text())
    return tuple(
        case for template in described["template"] for case in _cases_of(template, described["classes"])
    )


@functools.cache
def packed() -> Mapping[str, str]:
    """The packed listings, by CASE.ARCH.ptx or CASE.ARCH.sass."""
    with tarfile.open(fileobj=io.BytesIO(PACKED.read_bytes()), mode="r:xz") as archive:
        return {member.name: _content(archive, member) for member in archive.getmembers()}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    assert file is not None, member.name
    return file.read().decode()


def _cases_of(template: Mapping[str, Any], classes: Mapping[str, Any]) -> Iterator[Case]:
    axes: Mapping[str, list[str]] = template.get("axes", {})
    first = {axis: values[0] for axis, values in axes.items()}
    twins: dict[tuple[str, ...], Case] = {}
    mutants = []
    for fault, made in template.get("faults", {}).items():
        for form in _forms(axes, {axis: made[axis] for axis in axes if axis in made}):
            twin = _case(template, first, form)
            twins.setdefault(twin.defines, twin)
            mutants.append(_mutant(template, first, form, fault, made.get("class", fault), classes, made))
    return itertools.chain(twins.values(), mutants)


def _forms(axes: Mapping[str, list[str]], varied: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    chosen = [axes[axis] if values == "*" else values for axis, values in varied.items()]
    return (dict(zip(varied, values, strict=True)) for values in itertools.product(*chosen))


def _case(template: Mapping[str, Any], first: Mapping[str, str], form: Mapping[str, str]) -> Case:
    others = [f"{axis}-{value}" for axis, value in form.items() if value != first[axis]]
    return Case(
        name=".".join([template["name"], "right", *others]),
        family="right",
        template=template["name"],
        defines=tuple(f"{axis}_{value}" for axis, value in {**first, **form}.items()),
        archs=tuple(template.get("archs", ARCHS)),
        known={kind: tuple(names) for kind, names in template.get("known", {}).items()},
        about=template.get("about", ""),
    )


def _mutant(
    template: Mapping[str, Any],
    first: Mapping[str, str],
    form: Mapping[str, str],
    fault: str,
    fault_class: str,
    classes: Mapping[str, Any],
    made: Mapping[str, Any],
) -> Case:
    twin = _case(template, first, form)
    return Case(
        name=twin.name.replace(".right", f".{fault}", 1),
        family=template.get("family", "mutant"),
        template=twin.template,
        defines=(*twin.defines, fault.upper().replace("-", "_")),
        archs=twin.archs,
        fault=fault_class,
        expected=tuple(made.get("rules", classes[fault_class]["rules"])),
        languages=tuple(made.get("languages", ("ptx", "sass"))),
        known=twin.known,
        about=made.get("about", twin.about),
    )
