// Stands in for kernels/sm90/wgmma.cuh, whose operands are made by macros: multiply-adds read both operands, one word of
// each warp's rows, at the latest moment that they may: when their batch is waited for.
#pragma once

#include "ptx_on_host.h"

namespace wgmma {}
