"""Scores `wavesim lint` on its corpus: which faults it finds, which right kernels it calls wrong.

`python tests/support/lint_exam.py` prints the table, `--cases` also names what went wrong outside of
the test split, `--template NAME` takes only those, `--write` keeps the scores in `scores.json`.
Of the test split only totals are shown; its misses have been looked at once, and mended. The later
split was written after the rules and was sealed until they were done; its misses have been mended since.
`--later` takes it, too. `--sealed-2` takes the second sealed split alone, which was written by somebody who
had not read the rules; with `--write` it keeps what lint said on first sight, in `lint_sealed_2.json`, once.
What lint says of it since is kept with the other scores. `--fresh` takes the list written down before
the rules of this version; the rules were not tuned on its held-out half.
"""

import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lint_cases import FOLDER, FRESH, KINDS, SEALED_2, Case, cases, sealed_sha256

from wavesim.errors import DescriptionError, WavesimError
from wavesim.lint.check import beside, findings_of
from wavesim.lint.finding import Finding, Known
from wavesim.safe_io.options import OneLineParser
from wavesim.safe_io.program import run_program
from wavesim.safe_io.writing import write_text

SCORES = FOLDER / "scores.json"
OPENING = FOLDER / "lint_sealed_2.json"
FRESH_SCORES = FOLDER / "fresh_scores.json"
# Of a fault and of a right kernel, the worst first: a case is judged by its worst listing.
OF_FAULT = ("missed", "misnamed", "unknown", "found")
OF_RIGHT = ("false alarm", "unknown", "right")


@dataclass(frozen=True)
class ExamResult:
    """What lint said of one case.

    "found": wrong, by a rule that the fault breaks. "misnamed": wrong, but only by other rules. "missed":
    neither wrong nor unknown. `seconds` are of CPU, for the slowest machine code. `worst` names the listing.
    """

    case: Case
    verdict: str
    worst: str
    rules: tuple[str, ...]
    seconds: float


def result_of(case: Case) -> ExamResult:
    """Every listing of the case, read and checked."""
    known = Known(**{kind: frozenset(names) for kind, names in case.known.items()})
    said, seconds = [], [0.0]
    ptx: list[Finding] = []
    for language, arch in case.listings:
        start = time.process_time()
        findings = findings_of(case.listing(language, arch), known)
        if language == "ptx":
            ptx += findings
        else:
            seconds.append(time.process_time() - start)
            findings = list(beside(findings, ptx))  # as the command judges both of one file
        if language in case.languages:
            wrong = tuple(sorted({finding.rule for finding in findings if finding.verdict != "right"}))
            said.append((verdict(case, findings), f"{arch} {language}", wrong))
    order = OF_FAULT if case.fault else OF_RIGHT
    worst = min(said, key=lambda judged: order.index(judged[0]))
    return ExamResult(case, *worst, max(seconds))


def verdict(case: Case, findings: Iterable[Finding]) -> str:
    """One of `OF_FAULT` or `OF_RIGHT`."""
    wrong = {finding.rule for finding in findings if finding.verdict == "wrong"}
    is_unknown = any(finding.verdict == "unknown" for finding in findings)
    if not case.fault:
        return "false alarm" if wrong else "unknown" if is_unknown else "right"
    if wrong & set(case.expected):
        return "found"
    return "misnamed" if wrong else "unknown" if is_unknown else "missed"


def totals(scores: Sequence[ExamResult]) -> dict[str, Any]:
    """Counts by family, class and split; seconds per cubin."""
    seconds = [score.seconds for score in scores]
    slowest = max(scores, key=lambda score: score.seconds)
    return {
        "families": _counted(scores, lambda score: score.case.family),
        "classes": _counted([score for score in scores if score.case.fault], lambda score: score.case.fault),
        "splits": _counted(scores, _half),
        "classes of the later split": _counted(
            [score for score in scores if score.case.fault and score.case.is_later],
            lambda score: score.case.fault,
        ),
        "sealed": _sealed(scores),
        "seconds": {
            "median": round(statistics.median(seconds), 3),
            "worst": round(slowest.seconds, 3),
            "slowest": slowest.case.name,
        },
    }


def opening(scores: Sequence[ExamResult]) -> dict[str, Any]:
    """The totals of the second sealed split, its hash, and what lint said of each case."""
    counted = totals(scores)
    said = [
        {"case": score.case.name, "verdict": score.verdict, "worst": score.worst, "rules": score.rules}
        for score in scores
    ]
    kept = {part: counted[part] for part in ("families", "classes", "seconds")}
    return {"sha256": sealed_sha256(), **kept, "cases": said}


def _half(score: ExamResult) -> str:
    return f"{score.case.split}, {'fault' if score.case.fault else 'right'}"


def _sealed(scores: Iterable[ExamResult]) -> dict[str, int]:
    """Cases of the later split that lint was not asked about, by family."""
    asked = {score.case.name for score in scores}
    return dict(Counter(case.family for case in cases() if case.is_later and case.name not in asked))


def _counted(scores: Iterable[ExamResult], key: Any) -> dict[str, dict[str, int]]:
    counts: dict[str, Counter[str]] = {}
    for score in scores:
        counts.setdefault(key(score), Counter())[score.verdict] += 1
    return {name: dict(sorted(counted.items())) for name, counted in sorted(counts.items())}


def page(result: dict[str, Any]) -> str:
    """The totals as text."""
    lines = []
    for part in ("families", "classes", "splits", "classes of the later split"):
        lines.append(f"{part}:")
        for name, counted in result[part].items():
            lines.append(f"  {name:28s} " + ", ".join(f"{count} {word}" for word, count in counted.items()))
    lines.append(f"sealed cases of the later split: {sum(result['sealed'].values())}")
    lines.append(
        "CPU seconds per cubin: median {median}, worst {worst} ({slowest})".format(**result["seconds"])
    )
    return "\n".join(lines)


def explained(scores: Iterable[ExamResult]) -> str:
    """The cases that did not go as they should, one a line, but for those of the test split."""
    return "\n".join(
        f"{score.verdict:12s} {score.case.name} [{score.worst}]"
        f" expected {' or '.join(score.case.expected) or 'nothing'}; "
        f"said {', '.join(score.rules) or 'nothing'}"
        for score in scores
        if score.case.split not in ("test", "held-out") and score.verdict not in {"found", "right"}
    )


def main(words: list[str] | None = None) -> int:
    """Runs the exam and prints what it says."""
    parser = OneLineParser(prog="python tests/support/lint_exam.py", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the totals as JSON")
    parser.add_argument(
        "--cases", action="store_true", help="name the cases that went wrong, but for the test split's"
    )
    parser.add_argument("--template", action="append", help="only cases of this template (may be repeated)")
    parser.add_argument("--later", action="store_true", help="take the later split, too")
    parser.add_argument("--sealed-2", action="store_true", help="take the second sealed split, and no other")
    parser.add_argument("--fresh", action="store_true", help="take the fresh list, and no other")
    parser.add_argument("--kinds", action="store_true", help="take the small kernels of many kinds alone")
    parser.add_argument(
        "--write", action="store_true", help=f"write {SCORES.name}; with --sealed-2 {OPENING.name}, once"
    )
    options = parser.parse_args(sys.argv[1:] if words is None else words)
    try:
        if options.sealed_2 and options.write and OPENING.exists():
            raise DescriptionError(
                f"{OPENING} is there already: the split was opened once; leave --write out"
            )
        lists = ((options.sealed_2, SEALED_2), (options.fresh, FRESH), (options.kinds, KINDS))
        from_folder = cases(next((folder for is_asked, folder in lists if is_asked), FOLDER))
        opened = [case for case in from_folder if options.later or not case.is_later]
        chosen = [case for case in opened if not options.template or case.template in options.template]
        scores = [result_of(case) for case in chosen]
        result = totals(scores)
        if options.write and options.sealed_2:
            write_text(OPENING, json.dumps(opening(scores), indent=1) + "\n")
        elif options.write and (options.fresh or options.kinds):
            key = "now" if options.fresh else "kinds"
            kept = json.loads(FRESH_SCORES.read_text()) | {key: result["splits"]}
            write_text(FRESH_SCORES, json.dumps(kept, indent=1) + "\n")
        elif options.write:
            result["second sealed split"] = totals([result_of(case) for case in cases(SEALED_2)])["families"]
            write_text(SCORES, json.dumps(result, indent=1) + "\n")
        said = [explained(scores)] if options.cases else []
        said.append(json.dumps(result) if options.json else page(result))
        sys.stdout.write("\n".join(said) + "\n")
    except WavesimError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run_program("lint_exam", main))
