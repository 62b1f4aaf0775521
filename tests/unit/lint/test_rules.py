"""Each rule on a few lines of PTX that break it, keep it, or do not say which."""

import pytest

from wavesim.lint.check import findings_of
from wavesim.lint.finding import Known
from wavesim.lint.ptx import listing_of_ptx
from wavesim.lint.rules import RULES

HEAD = """
.version 9.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p0, .param .u64 p1, .param .u64 p2)
{
.reg .pred %p<9>;
.reg .b32 %r<19>;
.reg .f32 %f<9>;
.reg .b64 %rd<19>;
.shared .align 16 .b8 tile[1024];
ld.param.u64 %rd1, [p0];
ld.param.u64 %rd2, [p1];
ld.param.u64 %rd3, [p2];
mov.u32 %r1, %tid.x;
setp.ne.s32 %p1, %r1, 0;
mul.wide.u32 %rd9, %r1, 4;
add.s64 %rd4, %rd1, %rd9;
add.s64 %rd5, %rd2, %rd9;
"""
LOAD = "ld.global.f32 %f1, [%rd4];\n"
STORE = "st.global.f32 [%rd5], %f1;\n"
BARRIER = "bar.sync 0;\n"
FENCE = "fence.acq_rel.gpu;\n"


def spin(poll):
    return f"@%p1 bra AFTER;\nSPIN:\n{poll};\nsetp.eq.s32 %p2, %r2, 0;\n@%p2 bra SPIN;\nAFTER:\n"


ACQUIRING = spin("ld.acquire.gpu.global.u32 %r2, [%rd3]")
RELAXED = spin("ld.relaxed.gpu.global.u32 %r2, [%rd3]")
POST = "@%p1 bra DONE;\nred.release.gpu.global.add.u32 [%rd3], 1;\nDONE:\n"
RELAXED_POST = POST.replace("release", "relaxed")


def judged(body, known=None, head=HEAD):
    listing = listing_of_ptx(f"{head}{body}ret;\n}}\n", "k.ptx")
    return {(finding.verdict, finding.rule) for finding in findings_of(listing, known or Known())}


def wrong(body, known=None):
    return {rule for verdict, rule in judged(body, known) if verdict == "wrong"}


WRONG = {
    "no-acquire": RELAXED + BARRIER + LOAD,
    "poll-hoisted": spin("ld.global.u32 %r2, [%rd3]") + FENCE + BARRIER + LOAD,
    "load-before-barrier": ACQUIRING + LOAD,
    "fence-misplaced": FENCE + RELAXED + BARRIER + LOAD,
    "no-release": STORE + BARRIER + RELAXED_POST + ACQUIRING.replace("AFTER", "END") + BARRIER,
    "post-before-barrier": STORE + POST,
    "early-post": POST + STORE,
    "narrow-scope": spin("ld.acquire.cta.global.u32 %r2, [%rd3]") + BARRIER + LOAD,
    "non-coherent-load": ACQUIRING + BARRIER + LOAD.replace("global", "global.nc"),
    "load-above-wait": LOAD + ACQUIRING + BARRIER + LOAD,
    "bulk-store-pending": "cp.async.bulk.global.shared::cta.bulk_group [%rd5], [tile], 64;\n"
    "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;\n" + POST,
    "early-reset": ACQUIRING + BARRIER + LOAD + "st.global.u32 [%rd3], 0;\n",
    "divergent-barrier": f"@%p1 bra SKIP;\n{BARRIER}SKIP:\n",
    "load-above-grid-wait": LOAD + "griddepcontrol.wait;\n" + STORE,
    "async-copy-pending": "cp.async.ca.shared.global [tile], [%rd4], 16;\ncp.async.commit_group;\n"
    + BARRIER
    + "ld.shared.f32 %f2, [tile];\n",
}
RIGHT = {
    "acquiring poll": ACQUIRING + BARRIER + LOAD,
    "fence after the poll": RELAXED + FENCE + BARRIER + LOAD,
    "barrier and release": STORE + BARRIER + POST,
    "fence and relaxed post": STORE + BARRIER + "@%p1 bra DONE;\n" + FENCE + RELAXED_POST.partition("\n")[2],
    "written bulk store": WRONG["bulk-store-pending"].replace(".read", ""),
    "load below the grid's wait": "griddepcontrol.wait;\n" + LOAD,
    "copies awaited": WRONG["async-copy-pending"].replace(
        "commit_group;\n", "commit_group;\ncp.async.wait_group 0;\n"
    ),
    "addition by compare-and-swap": "L:\natom.global.cas.b32 %r5, [%rd5], %r4, %r6;\nadd.s32 %r6, %r5, 1;\n"
    "setp.ne.s32 %p3, %r5, %r4;\nmov.u32 %r4, %r5;\n@%p3 bra L;\n" + ACQUIRING + BARRIER + LOAD,
}


@pytest.mark.parametrize("rule", WRONG)
def test_a_broken_rule_is_named(rule):
    assert rule in RULES
    assert rule in wrong(WRONG[rule])


@pytest.mark.parametrize("name", RIGHT)
def test_right_code_is_called_right(name):
    verdicts = {verdict for verdict, _ in judged(RIGHT[name])}
    assert verdicts == {"right"}


def test_a_kernel_with_no_wait_and_no_post_is_unknown():
    assert judged(LOAD + STORE) == {("unknown", "")}


def test_what_may_be_a_post_or_a_counter_is_unknown_until_the_user_calls_it_a_flag():
    body = STORE + BARRIER + RELAXED_POST
    assert judged(body) == {("unknown", "no-release")}
    assert wrong(body, Known(flags=frozenset({"2"}))) == {"no-release"}


def test_memory_of_another_gpu_needs_system_scope():
    remote = Known(remote=frozenset({"k:2"}))
    assert wrong(ACQUIRING + BARRIER + LOAD, remote) == {"no-system-scope"}
    assert wrong(STORE + BARRIER + POST, remote) == {"no-system-scope"}
    assert not wrong((STORE + BARRIER + POST).replace("gpu", "sys"), remote)


def test_constant_data_may_be_loaded_above_the_wait_and_without_order():
    body = LOAD + RELAXED + LOAD.replace("rd4", "rd5")
    assert wrong(body, Known(produced=frozenset({"1"}))) == {"no-acquire"}
    assert not wrong(body, Known(constant=frozenset({"0", "1"})))


def test_a_load_above_a_wait_that_guards_stores_is_wrong_only_where_it_is_said_to_be_produced():
    body = LOAD + ACQUIRING + BARRIER + STORE
    assert not wrong(body)
    assert wrong(body, Known(produced=frozenset({"0"}))) == {"load-above-wait"}


def test_a_spin_whose_clock_starts_again_with_each_post_is_bounded():
    restarted = """mov.u64 %rd10, %globaltimer;
SPIN:
ld.relaxed.gpu.global.u32 %r2, [%rd3];
setp.ne.s32 %p2, %r2, 0;
@%p2 bra AFTER;
mov.u64 %rd11, %globaltimer;
setp.eq.s32 %p3, %r2, %r3;
selp.b64 %rd10, %rd10, %rd11, %p3;
mov.u32 %r3, %r2;
sub.s64 %rd12, %rd11, %rd10;
setp.lt.u64 %p4, %rd12, 30000000000;
@%p4 bra SPIN;
AFTER:
"""
    assert "unbounded-spin" not in {rule for _, rule in judged(restarted + FENCE + LOAD)}


def test_an_unbounded_spin_is_right_and_said():
    spins = [f for f in judged(ACQUIRING + BARRIER + LOAD) if f[1] == "unbounded-spin"]
    assert spins == [("right", "unbounded-spin")]


def test_a_trigger_without_a_wait_in_the_other_kernel_is_wrong():
    other = HEAD.replace("entry k(", "entry dependent(") + LOAD + "ret;\n}\n"
    trigger = "griddepcontrol.launch_dependents;\n"
    body = f"{trigger}{STORE}ret;\n}}\n{other}"
    listing = listing_of_ptx(HEAD + body, "pair.ptx")
    assert ("wrong", "one-sided-dependent-launch") in {(f.verdict, f.rule) for f in findings_of(listing)}
    waiting = listing_of_ptx(HEAD + body.replace(LOAD, "griddepcontrol.wait;\n" + LOAD), "pair.ptx")
    assert {f.verdict for f in findings_of(waiting)} == {"right"}


LOCK = (
    "@%p1 bra DONE;\nTAKE:\natom.acquire.gpu.global.cas.b32 %r2, [%rd3], 0, 1;\nsetp.ne.s32 %p2, %r2, 0;\n"
    "@%p2 bra TAKE;\nld.global.u32 %r3, [%rd1];\nst.global.u32 [%rd2], %r3;\n"
)
UNLOCK = "st.release.gpu.global.u32 [%rd3], 0;\n"
COUNT = "add.s32 %r4, %r3, 1;\nst.global.u32 [%rd1], %r4;\n"


def test_what_a_lock_guards_is_stored_before_the_lock_is_given_back():
    assert wrong(f"{LOCK}{COUNT}{UNLOCK}DONE:\n") == set()
    assert wrong(f"{LOCK}{UNLOCK}{COUNT}DONE:\n") == {"early-post"}


def test_a_store_to_another_gpu_behind_the_post_is_early():
    known = Known(produced=frozenset({"0"}), remote=frozenset({"1", "2"}), flags=frozenset({"2"}))
    post = POST.replace("gpu", "sys")
    assert wrong(post + STORE, known) == {"early-post"}
    assert wrong(STORE + BARRIER + post, known) == set()


def test_a_volatile_load_of_what_the_kernels_blocks_store_is_not_made_above_the_wait():
    stores = STORE + BARRIER + POST
    early = "ld.volatile.global.f32 %f2, [%rd5+4];\n"
    waits = ACQUIRING.replace("DONE", "END") + BARRIER
    assert wrong(stores + waits + early + LOAD) == set()
    assert wrong(stores + early + waits + LOAD) == {"load-above-wait"}


def test_one_thread_that_loads_what_is_said_to_be_produced_above_its_own_wait_is_found():
    early = ACQUIRING.replace("SPIN:\n", "ld.global.f32 %f2, [%rd1];\nSPIN:\n", 1)
    assert wrong(early + BARRIER + LOAD, Known(produced=frozenset({"0"}))) == {"load-above-wait"}
    assert wrong(early + BARRIER + LOAD, Known(constant=frozenset({"0"}))) == set()


def test_a_swap_of_a_value_for_the_same_is_a_look():
    look = "@%p1 bra AFTER;\natom.global.cas.b32 %r2, [%rd3], %r5, %r5;\nsetp.ne.s32 %p2, %r2, 0;\n"
    once = look + "@%p2 bra AFTER;\nnanosleep.u32 20;\nAFTER:\n" + FENCE + BARRIER + LOAD
    assert "no-wait" in wrong("mov.u32 %r5, -1;\n" + once, Known(flags=frozenset({"2"})))


def test_a_fence_behind_a_ticket_is_in_its_place_and_the_one_before_it_is_what_lacks():
    ticket = "@%p1 bra DONE;\natom.global.add.u32 %r2, [%rd3], 1;\nsetp.ne.s32 %p2, %r2, 7;\n@%p2 bra DONE;\n"
    assert wrong(STORE + BARRIER + ticket + FENCE + "ld.global.f32 %f2, [%rd2];\nDONE:\n") == {"no-release"}


def test_produced_data_that_a_posting_kernel_reads_with_no_wait_has_lost_its_turn():
    known = Known(produced=frozenset({"0"}))
    assert wrong(LOAD + STORE + BARRIER + POST, known) == {"no-wait"}
    assert wrong(ACQUIRING.replace("DONE", "END") + BARRIER + LOAD + STORE + BARRIER + POST, known) == set()


def test_a_dependent_of_a_chain_waits_for_the_grid_whose_data_it_is_said_to_read():
    wired = "griddepcontrol.wait;\n" + LOAD + STORE + "griddepcontrol.launch_dependents;\nret;\n}\n"
    name = HEAD.partition(".visible")[2].replace(" k(", " next(")
    file = f"{HEAD}{wired}.visible{name}{wired.replace('griddepcontrol.wait;', '')}"
    findings = findings_of(listing_of_ptx(file, "chain.ptx"), Known(produced=frozenset({"next:0"})))
    assert "one-sided-dependent-launch" in {
        finding.rule for finding in findings if finding.verdict == "wrong"
    }
    whole = findings_of(listing_of_ptx(file, "chain.ptx"), Known(produced=frozenset({"k:0"})))
    assert not [entry for entry in whole if entry.verdict == "wrong"]


def test_a_kernel_launched_dependent_that_triggers_and_never_waits_is_wrong():
    body = STORE + "griddepcontrol.launch_dependents;\n"
    launched = Known(launched=frozenset({"k"}))
    assert ("wrong", "one-sided-dependent-launch") in judged(body, launched)
    assert ("wrong", "one-sided-dependent-launch") not in judged(STORE, launched)


EDGE = "setp.gt.u32 %p3, %r1, 199;\n@%p3 bra PAST;\n"


def test_a_barrier_that_some_threads_pass_by_and_go_on_is_divergent():
    """Those that end are no longer counted, and those of another role have a barrier of their own."""
    assert "divergent-barrier" in wrong(EDGE + STORE + BARRIER + "PAST:\n" + POST)
    assert "divergent-barrier" not in wrong(EDGE + "bra GO;\nPAST:\nret;\nGO:\n" + STORE + BARRIER + POST)
    assert "divergent-barrier" not in wrong(
        EDGE + STORE + BARRIER + "bra BOTH;\nPAST:\n" + BARRIER + "BOTH:\n" + POST
    )


def test_what_a_barrier_found_is_the_same_for_all_and_parts_no_threads():
    vote = "bar.red.or.pred %p4, 0, %p1;\n@%p4 bra PAST;\n"
    assert "divergent-barrier" not in wrong(vote + STORE + BARRIER + "PAST:\n" + POST)


def test_a_size_of_run_time_may_be_a_multiple_of_the_blocks():
    edge = "ld.param.u32 %r6, [p2];\nsetp.ge.u32 %p3, %r1, %r6;\n@%p3 bra PAST;\n"
    assert "divergent-barrier" not in wrong(edge + STORE + BARRIER + "PAST:\n" + POST)


def test_a_wait_that_guards_stores_alone_holds_back_those_of_the_other_threads():
    assert wrong(ACQUIRING + STORE) == {"load-before-barrier"}
    assert wrong(ACQUIRING + BARRIER + STORE) == set()
    assert wrong(ACQUIRING + STORE + BARRIER + LOAD) == set()


def test_a_role_of_several_warps_meets_before_one_of_them_posts():
    role = "setp.gt.u32 %p3, %r1, 63;\n@%p3 bra DONE;\nand.b32 %r5, %r1, 63;\nsetp.ne.s32 %p1, %r5, 0;\n"
    assert wrong(role + STORE + POST) == {"post-before-barrier"}
    assert wrong(role + STORE + "bar.sync 1, 64;\n" + POST) == set()


ROLES = (
    "setp.gt.u32 %p3, %r1, 127;\n@%p3 bra READERS;\n"
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [tile+512], 64;\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%rd1], 64, [tile+512];\n"
    "EMPTY:\nmbarrier.try_wait.parity.shared::cta.b64 %p4, [tile+520], 0;\n@!%p4 bra EMPTY;\nret;\nREADERS:\n"
)
FULL = "FULL:\nmbarrier.try_wait.parity.shared::cta.b64 %p5, [tile+512], 0;\n@!%p5 bra FULL;\n"


def test_a_role_that_reads_what_tma_writes_waits_for_the_mbarrier_itself():
    assert wrong(ROLES + "ld.shared.f32 %f1, [tile];\n") == {"mbarrier-not-awaited"}
    assert wrong(ROLES + FULL + "ld.shared.f32 %f1, [tile];\n") == set()


# One thread polls until the flag is up or another gave up, and the block votes: who gave up leaves.
VOTING = """
mov.u32 %r9, 1;
@%p1 bra VOTE;
SPIN:
ld.relaxed.gpu.global.u32 %r3, [%rd3+8];
mov.u32 %r9, 0;
setp.ne.s32 %p3, %r3, 0;
@%p3 bra VOTE;
ld.relaxed.gpu.global.u32 %r2, [%rd3];
setp.eq.s32 %p2, %r2, 0;
@%p2 bra SPIN;
FENCE
mov.u32 %r9, 1;
VOTE:
setp.ne.u32 %p4, %r9, 0;
bar.red.and.pred %p5, 0, %p4;
selp.u32 %r4, 1, 0, %p5;
setp.eq.s32 %p6, %r4, 0;
@%p6 bra LEAVE;
"""


def voting(fence=FENCE, **changes):
    body = VOTING.replace("FENCE\n", fence)
    for old, new in changes.values():
        assert old in body
        body = body.replace(old, new)
    return f"{body}{LOAD}{STORE}LEAVE:\n"


def test_who_gave_up_waiting_and_votes_no_reads_nothing():
    assert "no-acquire" not in wrong(voting())


@pytest.mark.parametrize(
    "body",
    [
        voting(fence=""),
        voting(answer=("mov.u32 %r9, 0;", "mov.u32 %r9, 1;")),
        voting(vote=("red.and", "red.or")),
        voting(branch=("@%p6 bra", "@!%p6 bra")),
    ],
    ids=["no fence", "who gave up votes yes", "one yes suffices", "who votes no goes on"],
)
def test_a_vote_that_lets_who_gave_up_go_on_hides_no_missing_acquire(body):
    assert "no-acquire" in wrong(body)


def test_taking_a_free_place_sets_no_flag_back():
    taken = "atom.relaxed.gpu.global.cas.b32 %r7, [%rd3], 0, %r1;\n"
    freed = "atom.relaxed.gpu.global.exch.b32 %r7, [%rd3], 0;\n"
    assert "early-reset" not in wrong(ACQUIRING + BARRIER + LOAD + STORE + taken)
    assert "early-reset" in wrong(ACQUIRING + BARRIER + LOAD + STORE + freed)
