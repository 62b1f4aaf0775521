"""The cases of lint's corpus, `tests/data/lint`, with their PTX and machine code as packed there.

Example: `tile_pair.no-acquire.WAIT-volatile` is a pair of kernels whose consumer polls a flag by volatile
loads and reads the tile with no fence between; lint must call it wrong, by the rule "no-acquire".

`sealed_2` is a second corpus beside it, of the same form, written by somebody who had not read the rules;
`fresh` is a third one, written down before the rules of a later version were.
"""

import functools
import hashlib
import io
import itertools
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from wavesim.lint.instruction import Listing
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.sass import listing_of_sass

FOLDER = Path(__file__).parents[1] / "data" / "lint"
SEALED_2 = FOLDER / "sealed_2"
FRESH = FOLDER / "fresh"
PDL_BUGS = FOLDER / "pdl_bugs"
KINDS = FOLDER / "kinds"
SEALED_HASH = "sealed.sha256"  # in the folder that it is of
ARCHS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")  # where a template names none

Language = Literal["ptx", "sass"]
Family = Literal["mutant", "public", "right"]
Split = Literal["development", "test", "later", "sealed-2", "fresh", "held-out", "kinds"]


@dataclass(frozen=True)
class Case:
    """One source, compiled for each of `archs`; `defines` are the macros that choose its form and its fault.

    `fault` is the class, "" for a right kernel. `expected` are the rules of which one must say "wrong", in
    each of `languages`. `known` is what a user would say of the parameters: "produced", "constant", ...
    `is_later` says that it was written after the rules, `is_assembly` that it was written in PTX.
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
    is_later: bool = False
    is_assembly: bool = False
    folder: Path = FOLDER

    @property
    def source(self) -> Path:
        """The template's file; of a kernel that was compiled elsewhere, the file of the repository."""
        if "/" in self.template:
            return FOLDER.parents[2] / self.template
        written = self.folder / ("templates_later" if self.is_later else "templates") / self.template
        return written.with_suffix(".ptx" if self.is_assembly else ".cu")

    @property
    def split(self) -> Split:
        """By the name's hash, or by the list; "later" was written after the rules, "sealed-2" without having
        read them. Of all but the first, only totals are looked at.
        """
        if self.folder == SEALED_2:
            return "sealed-2"
        if self.folder == FRESH:
            return "held-out" if hashlib.sha256(self.template.encode()).digest()[6] % 2 else "fresh"
        if self.folder == KINDS:
            return "kinds"
        if self.is_later:
            return "later"
        return "test" if hashlib.sha256(self.name.encode()).digest()[0] % 2 == 1 else "development"

    def text(self, language: Language, arch: str) -> str:
        """PTX or machine code as packed."""
        return packed(self.folder)[f"{self.name}.{arch}.{language}"]

    def listing(self, language: Language, arch: str) -> Listing:
        """The same, read."""
        read = listing_of_ptx if language == "ptx" else listing_of_sass
        return read(self.text(language, arch), f"{self.name}.{arch}.{language}")

    @property
    def listings(self) -> tuple[tuple[Language, str], ...]:
        """Language and architecture of each: PTX for the first architecture, machine code for all."""
        return (("ptx", self.archs[0]), *(("sass", arch) for arch in self.archs))


@functools.cache
def cases(folder: Path = FOLDER) -> tuple[Case, ...]:
    """All cases of a corpus, such as `FOLDER`: by template, each right twin before its mutants."""
    described = tomllib.loads((folder / "cases.toml").read_text())
    classes = described.get("classes") or {
        name: about
        for place in (FOLDER, FRESH)
        for name, about in tomllib.loads((place / "cases.toml").read_text())["classes"].items()
    }
    made = [case for template in described["template"] for case in _cases_of(template, classes)]
    made += [_compiled(entry, classes) for entry in described.get("compiled", ())]
    return tuple(replace(case, folder=folder) for case in made)


def sealed_sha256(folder: Path = SEALED_2) -> str:
    """The hash of a folder's files, names and bytes; its `sealed.sha256` holds what it was when sealed."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*.*") if path.name != SEALED_HASH):
        digest.update(f"{path.relative_to(folder).as_posix()} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


@functools.cache
def packed(folder: Path = FOLDER) -> Mapping[str, str]:
    """The packed listings, by CASE.ARCH.ptx or CASE.ARCH.sass."""
    data = (folder / "listings.tar.xz").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:xz") as archive:
        return {member.name: _content(archive, member) for member in archive.getmembers()}


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo) -> str:
    file = archive.extractfile(member)
    assert file is not None, member.name
    return file.read().decode()


def _cases_of(template: Mapping[str, Any], classes: Mapping[str, Any]) -> Iterator[Case]:
    axes: Mapping[str, list[str]] = template.get("axes", {})
    first = {axis: values[0] for axis, values in axes.items()}
    twins: dict[tuple[str, ...], Case] = {}
    for varied in template.get("right", ()):
        for form in _forms(axes, varied):
            twin = _case(template, first, form)
            twins.setdefault(twin.defines, twin)
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
    name = ".".join([template["name"], "right", *others])
    archs = tuple(template.get("archs", ARCHS))
    return Case(
        name=name,
        family="right",
        template=template["name"],
        defines=tuple(f"{axis}_{value}" for axis, value in {**first, **form}.items()),
        archs=_two_of(archs, name) if others else archs,
        known=_known(template),
        about=template.get("about", ""),
        is_later=template.get("split") == "later",
        is_assembly=template.get("language") == "ptx",
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
    name = twin.name.replace(".right", f".{fault}", 1)
    return Case(
        name=name,
        family=template.get("family", "mutant"),
        template=twin.template,
        defines=(*twin.defines, fault.upper().replace("-", "_")),
        archs=_two_of(tuple(template.get("archs", ARCHS)), name),
        fault=fault_class,
        expected=tuple(made.get("rules", classes[fault_class]["rules"])),
        languages=tuple(made.get("languages", ("ptx", "sass"))),
        known=twin.known,
        about=made.get("about", twin.about),
        is_later=twin.is_later,
        is_assembly=twin.is_assembly,
    )


def _compiled(entry: Mapping[str, Any], classes: Mapping[str, Any]) -> Case:
    """One of CUTLASS, Triton or ours: `tests/support/lint_corpus_others.py` makes its listings."""
    fault = entry.get("fault", "")
    return Case(
        name=entry["name"],
        family=entry.get("family", "right"),
        template=entry["source"],
        defines=(),
        archs=tuple(entry["archs"]),
        fault=fault,
        expected=tuple(entry.get("rules", classes[fault]["rules"] if fault else ())),
        languages=tuple(entry.get("languages", ("ptx", "sass"))),
        known=_known(entry),
        about=entry.get("about", ""),
    )


def _known(entry: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    return {kind: tuple(names) for kind, names in entry.get("known", {}).items()}


def _two_of(archs: tuple[str, ...], name: str) -> tuple[str, ...]:
    """The first form of a right kernel is compiled for all, what varies it for two of them, by its name."""
    if len(archs) < 3:
        return archs
    pairs = list(itertools.combinations(archs, 2))
    return pairs[hashlib.sha256(f"arch {name}".encode()).digest()[0] % len(pairs)]
