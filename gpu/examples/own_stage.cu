// A user's own kernel as a stage: out = x / sqrt(mean(x^2) + epsilon) by rows, between two products. x, out (M, COLUMNS),
// fp16. A block of 8 warps per TILE_M rows, which need all tiles of the product in their rows.
#include <generated.cuh>

#include <cusync/dependent_launch.cuh>
#include <cusync/tile_stage.cuh>

// NVRTC has no cuda_fp16.h at hand: the bits of an fp16.
using Half = unsigned short;

__device__ __forceinline__ float to_float(Half bits) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
}

__device__ __forceinline__ Half to_half(float value) {
    Half bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}

// Of every operand, in the order in which the description names them.
struct Operand {
    Half* address;
    long long row_stride;
};
struct Operands {
    Operand x, out;
};

constexpr int threads = 256;
constexpr float epsilon = 1e-5f;

// One warp, one row: `scale` is NaN where the row is not there.
template <int COLUMNS>
__device__ __forceinline__ void normalise_row(const Half* x, Half* out, float scale) {
    float sum = 0.0f;
    for (int i = threadIdx.x % 32; i < COLUMNS; i += 32) sum += to_float(x[i]) * to_float(x[i]);
    for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
    scale *= rsqrtf(sum / COLUMNS + epsilon);
    for (int i = threadIdx.x % 32; i < COLUMNS; i += 32) out[i] = to_half(to_float(x[i]) * scale);
}

template <int TILE_M, int M, int COLUMNS>
__global__ void __launch_bounds__(threads)
normalise(const __grid_constant__ cusync::StageParams<generated::stage> sync, const __grid_constant__ Operands p) {
    __shared__ bool are_rows_there;
    cusync::launch_dependents();
    cusync::TileStage<generated::stage> stage(sync);
    const cusync::Tile tile = stage.begin();
    // Without semaphores the whole kernel before has to end.
    if constexpr (generated::stage::input_count == 0) cusync::wait_for_previous_grid();
    if (threadIdx.x < 32) {
        cusync::TileWait<generated::stage> input(stage, tile);
        input.prefetch(0);
        input.wait(0);
        if (threadIdx.x == 0) are_rows_there = !input.is_aborted();
    }
    // Block barrier: hands the warp's acquire, and what it found, on to the others.
    __syncthreads();
    stage.before_stores(tile, cusync::is_leader());
    const float scale = are_rows_there ? 1.0f : __int_as_float(0x7fffffff);  // NaN
    for (int row = tile.y * TILE_M + threadIdx.x / 32; row < min((tile.y + 1) * TILE_M, M); row += threads / 32)
        normalise_row<COLUMNS>(p.x.address + row * p.x.row_stride, p.out.address + row * p.out.row_stride, scale);
    // With semaphores nothing else waits for the grid before; what follows this one must find that all have left.
    cusync::wait_for_previous_grid();
    stage.finish(tile);
}
