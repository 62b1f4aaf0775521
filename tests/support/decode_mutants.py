"""The decode step's source in a single file, and that file with a synchronisation broken."""

import re

from wavesim_gpu.kernels.decode.decode_launch import SOURCE

OWN = re.compile(r"#include <(kernels/decode/\w+\.cuh|kernels/gemm/sm90/mbarrier\.cuh)>\n")
ROOT = SOURCE.parents[2]
# What is broken: the text that does it right, and what stands in its place.
MUTANTS = {
    "words are not waited for": (
        "return cusync::mutant == cusync::Mutant::no_wait || seen == tag;",
        "return true;",
    ),
    "weights are not waited for": (
        "if (!await_phase(shared::full(at.slot), at.parity, waits_for_weights, at.slot)) reader.is_late = true;",
        "",
    ),
    "a parity is the same in each pass of the ring": (
        "shared::full(at.slot), at.parity, waits_for_weights",
        "shared::full(at.slot), 0, waits_for_weights",
    ),
    "a parity aliases: that of the pass before": (
        "shared::full(at.slot), at.parity, waits_for_weights",
        "shared::full(at.slot), at.parity ^ 1, waits_for_weights",
    ),
    "tags of a step are those of the step before": (
        "steps * static_cast<unsigned>(layers) + static_cast<unsigned>(layer) + 1u",
        "static_cast<unsigned>(layer) + 1u",
    ),
    "sums are overwritten before they are read": (
        "if (!await_phase(shared::sum_free(buffer.slot), buffer.parity ^ 1, waits_for_sums, buffer.slot)) "
        "reader.is_late = true;",
        "",
    ),
    "a slot is filled again before it is free": (
        "is_late |= !await_phase(shared::empty(place.slot), place.parity ^ 1, waits_for_slot, place.slot);",
        "",
    ),
    "a slot is given back before it is read": (
        "if constexpr (cusync::mutant == cusync::Mutant::early_post) warp.free_slot(at);",
        "warp.free_slot(at);",
    ),
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
