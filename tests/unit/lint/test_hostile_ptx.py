"""PTX that is damaged, endless or made to hurt: an answer or one clear line, in seconds."""

import gc
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavesim.errors import RecordingError
from wavesim.lint.check import findings_of
from wavesim.lint.flow import Flow
from wavesim.lint.ptx import MOST_CHARACTERS, MOST_STATEMENTS, listing_of_ptx

HEAD = """.version 9.0
.target sm_90a
.visible .entry k(.param .u64 a)
{ .reg .pred %p<9>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
"""
WHOLE = (
    HEAD
    + """.loc 1 2 3
  ld.param.u64 %rd1, [a];
WAIT: { .reg .pred done; ld.acquire.gpu.global.u32 %r1, [%rd1]; setp.ne.u32 done, %r1, 0; @!done bra WAIT; }
  call.uni (retval0), f, (param0);
T: .branchtargets WAIT, END;
  brx.idx %r1, T;
END: st.global.v2.b32 [%rd1+-8], {%r1, 0x7};
  ret;
}
.section .debug_str { .b8 1 }
"""
)


def asked(text):
    """Everything that can be asked of a text's kernels, as the rules ask it."""
    listing = listing_of_ptx(text, "hostile.ptx")
    for kernel in listing.kernels:
        flow = Flow(kernel)
        for at, instruction in enumerate(kernel.instructions):
            (
                flow.roots(at),
                flow.guards(at),
                flow.is_one_thread(at),
                flow.same_address(0, at),
                flow.loop_of(at),
            )
            for register in instruction.uses:
                flow.slice_of(register, at)
    findings_of(listing)
    return listing


def answer(text):
    """What is asked of it, or the refusal, which is one line."""
    try:
        return asked(text)
    except RecordingError as error:
        refusal = str(error)
    assert "\n" not in refusal
    return refusal


def test_a_text_that_is_cut_off_anywhere_is_read_up_to_there():
    for end in range(len(WHOLE)):
        answer(WHOLE[:end])


WORDS = """
{ } ; : , [ ] ( ) @ ! %p1 %r1 %rd1 + -8 0x 9 . | " // /* */ ld .global .acquire.gpu bra brx.idx L L: ret
.entry .func k .reg .b32 <9> .loc .branchtargets call .param .section _ setp.eq \x00 \u00fc $ wgmma.mma_async
bar.sync cp.async.bulk.tensor mbarrier mov mad elect.sync %tid.x"""
PIECES = st.sampled_from([" ", "\n", *WORDS.split()])


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES, max_size=60).map("".join))
def test_any_pieces_of_ptx_are_read_or_refused(text):
    answer(HEAD + text)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(0, 40), st.text(max_size=12))
def test_any_damage_is_read_or_refused(at, length, instead):
    answer(WHOLE[:at] + instead + WHOLE[at + length :])


@pytest.mark.parametrize(
    "text",
    [
        HEAD + "{" * 100_000,
        HEAD + "{ .reg .pred p; " * 10_000 + "setp.ne.u32 p, %r1, 0;" + "}" * 10_001,
        HEAD + "ld.global " * 20_000,
        HEAD + "/*" * 100_000,
        HEAD + '"' * 100_000,
        HEAD + "a" * 200_000,
        HEAD + "ld.global.u32 %r1, [" + "[" * 200_000 + "; }",
        HEAD + "ld.global.u32 %r1, [" + "x" * 200_000 + "]; }",
        HEAD + "".join(f"L{n}:\n" for n in range(20_000)) + "}",
        HEAD + ".reg .b32 %r<2000000000>; add.u32 %r1, %r1, %r1999999999; }",
        ".version 9.0\n" + ".visible .entry k(.param .u64 a)" * 5_000,
        ".version 9.0\n" + ".visible " * 20_000,
        ".version 9.0\n.entry k(.param .u64 " + " " * 200_000 + "a) { ret; }",
    ],
    ids=[
        "braces", "scopes", "no semicolon", "comment", "quotes", "word", "brackets", "name", "labels",
        "registers", "heads", "qualifiers", "spaces",
    ],
)  # fmt: skip
def test_endless_repetition_takes_linear_time(text):
    begun = time.process_time()
    asked(text)
    assert time.process_time() - begun < 5


def test_more_than_is_read_is_refused_or_noted(monkeypatch):
    with pytest.raises(
        RecordingError, match=r"big\.ptx has 32,000,001 characters of PTX; at most 32,000,000 are"
    ):
        listing_of_ptx(" " * (MOST_CHARACTERS + 1), "big.ptx")
    monkeypatch.setattr("wavesim.lint.ptx.MOST_STATEMENTS", 9)
    listing = listing_of_ptx(HEAD + "add.u32 %r1, %r1, 1; " * 20 + "}", "long.ptx")
    assert len(listing.kernels[0].instructions) == 5
    assert "only the first 9 statements were read" in listing.notes
    assert MOST_STATEMENTS == 300_000


def test_a_kernel_that_branches_too_much_is_given_up_and_said_to_be(monkeypatch):
    monkeypatch.setattr("wavesim.lint.paths.Effort.__init__.__defaults__", (10_000,))
    loops = "".join(f"A{n}: add.u32 %r1, %r1, 1;\n" for n in range(300))
    ends = "".join(f"@%p{n % 9} bra A{n};\n" for n in reversed(range(300)))
    wait = "ld.param.u64 %rd1, [a]; W: ld.acquire.gpu.u32 %r2, [%rd1]; setp.eq.u32 %p1, %r2, 0; @%p1 bra W;"
    findings = findings_of(listing_of_ptx(HEAD + loops + wait + ends + "ret; }", "nested.ptx"))
    assert [(finding.kind, finding.verdict) for finding in findings] == [("kernel", "unknown")]
    assert "branches too much to be followed in 10,000 steps" in findings[0].why


def test_kernels_that_were_checked_are_not_kept():
    before = len([value for value in gc.get_objects() if isinstance(value, Flow)])
    asked(WHOLE)
    findings_of(listing_of_ptx(WHOLE, "once.ptx"))
    gc.collect()
    assert len([value for value in gc.get_objects() if isinstance(value, Flow)]) <= before


def test_names_that_are_markup_or_control_characters_stay_text():
    hostile = '.file 1 "</script>\x1b[31m\x07"\n.loc 1 2 3'
    text = WHOLE.replace("entry k(", "entry $k_script(").replace(".loc 1 2 3", hostile)
    listing = asked(text)
    assert (
        listing.kernels[0].instructions[0].source.file == "</script>\x1b[31m\x07"
    )  # whoever shows it escapes it
    with pytest.raises(RecordingError) as refused:
        listing_of_ptx("</script>\n\x1b[31m", "a\n</script>\x1b.ptx")
    assert "\n" not in str(refused.value)
    assert "\x1b" not in str(refused.value)
