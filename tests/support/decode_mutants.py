"""The decode step's source in a single file, and that file with a synchronisation broken."""

import re

from wavesim_gpu.kernels.decode.decode_launch import SOURCE

OWN = re.compile(r"#include <(kernels/decode/\w+\.cuh|kernels/gemm/sm90/mbarrier\.cuh)>\n")
ROOT = SOURCE.parents[2]
# What is broken: the text that does it right, and what stands in its place.
FULL = "await_phase(shared::full(at.slot), at.parity, waits_for_weights, at.slot)"
SUM_FREE = "await_phase(shared::sum_free(buffer.slot), buffer.parity ^ 1, waits_for_sums, buffer.slot)"
EMPTY = "await_phase(shared::empty(place.slot), place.parity ^ 1, waits_for_slot, place.slot)"
EARLY = "if constexpr (cusync::mutant == cusync::Mutant::early_post) "
TAG = "steps * static_cast<unsigned>(layers) + static_cast<unsigned>(layer) + 1u"
MUTANTS = {
    "words are not waited for": ("cusync::mutant == cusync::Mutant::no_wait || seen == tag", "true"),
    "weights are not waited for": (FULL, "true"),
    "a parity is the same in each pass of the ring": (FULL, FULL.replace("at.parity", "0")),
    "a parity aliases: that of the pass before": (FULL, FULL.replace("at.parity", "at.parity ^ 1")),
    "tags of a step are those of the step before": (TAG, "static_cast<unsigned>(layer) + 1u"),
    "sums are overwritten before they are read": (SUM_FREE, "true"),
    "a slot is filled again before it is free": (EMPTY, "true"),
    "a slot is given back before it is read": (EARLY, ""),
}


def in_a_single_file():
    """The kernel's source with its own headers written out."""
    seen = set()

    def written_out(text):
        return OWN.sub(lambda match: included(match[1]), text)

    def included(name):
        if name in seen:
            return ""
        seen.add(name)
        return written_out((ROOT / name).read_text().replace("#pragma once\n", ""))

    return written_out(SOURCE.read_text())


def mutated(name):
    """The same with a mutant in it."""
    right, wrong = MUTANTS[name]
    text = in_a_single_file()
    assert text.count(right) == 1, f"{name}: {text.count(right)} places"
    return text.replace(right, wrong)
