// Deliberately broken builds, for tests: a suite that cannot tell them from the right one proves
// nothing. A normal build defines neither macro, and every use below compiles to nothing.
#pragma once

#ifndef CUSYNC_MUTANT
#define CUSYNC_MUTANT 0
#endif
#ifndef CUSYNC_DELAY_NS
#define CUSYNC_DELAY_NS 0
#endif

namespace cusync {

enum class Mutant { none = 0, no_wait = 1, no_post = 2, no_fence = 3, early_post = 4 };

constexpr Mutant mutant = static_cast<Mutant>(CUSYNC_MUTANT);
constexpr unsigned long long delay_ns = CUSYNC_DELAY_NS;

}  // namespace cusync
