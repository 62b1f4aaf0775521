// Row semaphores for CUTLASS 3.x and later on Hopper (TMA, warp-specialised): the second GEMM of a pair waits for the
// tile rows of A that it reads, the first says when a tile is stored. Both are adaptors around the collectives that
// CollectiveBuilder returns, so that kernels, schedules and fusions (EVT) stay as they are:
//
//     using Epilogue = wavesim::SynchronisedEpilogue<typename CollectiveBuilder<...>::CollectiveOp>;
//     using Mainloop = wavesim::WaitingMainloop<typename CollectiveBuilder<...>::CollectiveOp>;
//
// Their Arguments are those of the adapted collective and one member more. CuTe kernels of your own call
// wait_for_row and post_row themselves. Include path: the folder that holds `wavesim`; needs CUTLASS's headers.
//
// The host zeroes the semaphores and the report before every run, launches the first GEMM, and the second by dependent
// launch (launch_with_pdl of GemmUniversalAdapter::run). Tiles have to come in rows or groups of rows: raster order
// AlongN, max_swizzle_size 1, 2, 4 or 8. A tile of the second has as many rows as one of the first. Split-K and
// stream-K schedulers are not for this.
#pragma once

#include <cutlass/arch/grid_dependency_control.h>
#include <cutlass/numeric_types.h>

#include <cute/tensor.hpp>

namespace wavesim {

#include <wavesim/codegen/semaphore.cuh>

// Words of a report, zero before a run: whether a wait gave up; then column and row of its tile, seen, awaited.
enum ReportWord { gave_up = 0, column = 1, row = 2, seen = 3, awaited = 4, report_words = 5 };

constexpr unsigned long long wait_limit_ns = 30'000'000'000;  // then a wait gives up, and outputs are NaN

// What a tile of the second GEMM waits for: its row's semaphore has reached the number of tiles in a row of the first.
struct RowsToWaitFor {
    unsigned* semaphores;  // one per tile row; null: no wait
    unsigned tiles_per_row;
    unsigned* report;
    unsigned long long limit_ns = wait_limit_ns;
};

// What an epilogue posts, and what makes its tiles NaN.
struct RowsToPost {
    unsigned* semaphores;    // one per tile row; null: no post
    const unsigned* report;  // of the waits of this kernel; null where it has none
};

// Until tile row y is stored. Called by the warp that loads A, before its first load of the tile; the loads may be TMA's.
// Where time runs out it is reported, and the loads go on: the tile's epilogue makes it NaN.
__device__ __forceinline__ void wait_for_row(const RowsToWaitFor& rows, int x, int y) {
    if (rows.semaphores == nullptr) return;
    unsigned* semaphore = rows.semaphores + y;
    // All lanes look: whichever is elected to load has acquired.
    unsigned count = load_relaxed(semaphore);
    if (count < rows.tiles_per_row) {
        const unsigned long long start = time_ns();
        while ((count = load_relaxed(semaphore)) < rows.tiles_per_row) {
            if (time_ns() - start < rows.limit_ns && load_relaxed(rows.report + gave_up) == 0) continue;
            // One lane reports, and of all blocks the first.
            if (threadIdx.x % 32 == 0 && atomicExch(rows.report + gave_up, 1) == 0) {
                rows.report[column] = x;
                rows.report[row] = y;
                rows.report[seen] = count;
                rows.report[awaited] = rows.tiles_per_row;
            }
            break;
        }
        __syncwarp();
    }
    acquire_fence();
    // TMA reads through another proxy, which an acquire alone does not order.
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

// Says that a tile of a row is stored. Called by the whole warp that issued the tile's TMA stores, after they were
// committed. It waits until they have been made: `.read`, which the epilogue's own pipeline waits for, only says that
// shared memory may be used again.
__device__ __forceinline__ void post_row(unsigned* semaphore) {
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    __syncwarp();
    if (threadIdx.x % 32 == 0) add_release(semaphore, 1);
}

// The next kernel's blocks may be issued where there is room.
__device__ __forceinline__ void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

// A mainloop whose producer warp waits for the tile row of A. Arguments: {{the mainloop's}, RowsToWaitFor}.
template <class Mainloop>
struct WaitingMainloop : Mainloop {
    static_assert(!cutlass::arch::IsGdcGloballyEnabled,
                  "CUTLASS_ENABLE_GDC_FOR_SM90 makes every kernel wait for the whole one before it; do not define it");

    struct Arguments : Mainloop::Arguments {
        RowsToWaitFor rows;
    };

    struct Params : Mainloop::Params {
        RowsToWaitFor rows;
    };

    template <class ProblemShape>
    static constexpr Params to_underlying_arguments(const ProblemShape& shape, const Arguments& arguments,
                                                    void* workspace) {
        return {Mainloop::to_underlying_arguments(shape, arguments, workspace), arguments.rows};
    }

    template <class Pipeline, class State, class Inputs, class Coord, class... Rest>
    __device__ __forceinline__ void load(const Params& params, Pipeline pipeline, State state, const Inputs& inputs,
                                         const Coord& coord, Rest&&... rest) {
        wait_for_row(params.rows, int(cute::get<1>(coord)), int(cute::get<0>(coord)));
        Mainloop::load(params, pipeline, state, inputs, coord, rest...);
    }
};

// An epilogue that posts its tile's row, and makes a tile NaN where a wait of this kernel has given up.
// Arguments: {{the epilogue's}, RowsToPost}.
template <class Epilogue>
struct SynchronisedEpilogue : Epilogue {
    static_assert(!cute::is_void_v<typename Epilogue::GmemTiledCopyD>,
                  "this epilogue stores without TMA; use EpilogueScheduleType TmaWarpSpecialized[Cooperative]");

    struct Arguments : Epilogue::Arguments {
        RowsToPost rows;
    };

    struct Params : Epilogue::Params {
        RowsToPost rows;
    };

    template <class ProblemShape>
    static constexpr Params to_underlying_arguments(const ProblemShape& shape, const Arguments& arguments,
                                                    void* workspace) {
        return {Epilogue::to_underlying_arguments(shape, arguments, workspace), arguments.rows};
    }

    __device__ __forceinline__ SynchronisedEpilogue(const Params& params, typename Epilogue::TensorStorage& shared)
        : Epilogue(params, shared), rows_(params.rows) {}

    // Among the first that a block does, by one thread. The second kernel starts once all blocks of the first have.
    __device__ __forceinline__ static void prefetch_tma_descriptors(const Params& params) {
        if (params.rows.semaphores != nullptr) launch_dependents();
        Epilogue::prefetch_tma_descriptors(params);
    }

    template <class Loads, class LoadState, class Stores, class StoreState, class Shape, class Tile, class Coord,
              class Accumulators, class Mma, class... Rest>
    __device__ __forceinline__ auto store(Loads loads, LoadState load_state, Stores stores, StoreState store_state,
                                          Shape shape, Tile tile, Coord coord, Accumulators accumulators, Mma mma,
                                          int thread, Rest&&... rest) {
        if (rows_.report != nullptr && load_relaxed(rows_.report + gave_up) != 0) {
            cute::fill(accumulators, __int_as_float(0x7fffffff));  // NaN
        }
        auto states = Epilogue::store(loads, load_state, stores, store_state, shape, tile, coord, accumulators, mma,
                                      thread, rest...);
        // The first warp issues the stores (sm90_epilogue_tma_warpspecialized.hpp, issue_tma_store).
        if (rows_.semaphores != nullptr && thread / 32 == 0) post_row(rows_.semaphores + int(cute::get<0>(coord)));
        return states;
    }

  private:
    RowsToPost rows_;
};

}  // namespace wavesim
