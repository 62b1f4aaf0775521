"""What only the machine code lacks is told apart from what the PTX lacks too."""

import pytest

from wavesim.lint.check import findings_of_all
from wavesim.lint.finding import Finding
from wavesim.lint.instruction import Listing

PTX, SASS = Listing("f.ptx", "ptx", "sm_90a", ()), Listing("f.cubin", "sass", "sm_90a", ())


def said(verdict, *, kernel="f", rule="no-acquire"):
    return Finding(kernel, "wait", rule, verdict, "line 7 sees the flag without acquire", "fix")


def judged(monkeypatch, ptx, sass):
    by_listing = {PTX.where: ptx, SASS.where: sass}
    monkeypatch.setattr("wavesim.lint.check.findings_of", lambda listing, known: by_listing[listing.where])
    return findings_of_all([SASS, PTX])


def test_an_acquire_that_the_machine_code_alone_lacks_was_deleted(monkeypatch):
    lost, _ = judged(monkeypatch, [said("right")], [said("wrong")])
    assert (lost.rule, lost.verdict) == ("acquire-deleted", "wrong")
    assert lost.why.startswith("right in the PTX and not in the machine code")
    assert lost.fix.startswith("Use the value")


@pytest.mark.parametrize(
    "ptx",
    [
        [said("wrong")],
        [said("unknown")],
        [said("right"), said("wrong")],
        [said("right", kernel="g")],
        [said("right", rule="no-release")],
        [],
    ],
)
def test_what_the_ptx_does_not_pass_is_not_the_compilers_doing(monkeypatch, ptx):
    assert judged(monkeypatch, ptx, [said("wrong")])[0] == said("wrong")


def test_what_the_machine_code_passes_stays_as_it_is(monkeypatch):
    assert judged(monkeypatch, [said("wrong")], [said("right")]) == [said("right"), said("wrong")]
