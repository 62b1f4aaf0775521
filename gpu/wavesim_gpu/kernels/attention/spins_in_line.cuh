// A stage whose waits hold no call: one that is not inlined would cost the whole kernel a stack, and registers around it.
#pragma once

#include <cusync/stage.cuh>

struct SpinsInLine : cusync::OneTilePerBlock {
    static constexpr bool spins_in_line = true;
};
