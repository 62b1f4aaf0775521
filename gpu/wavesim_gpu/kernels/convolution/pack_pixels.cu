// Images of few colours for a convolution that packs rows of taps: each pixel's colours in 8 channels, zeros behind them,
// and columns of zeros to the left and right of every image. x (image rows, WIDTH * COLOURS), out (image rows *
// (WIDTH + 2 * ZEROS), 8), 16 bits each. A block per ROWS image rows, a thread per 16 bytes of the output.
#include <generated.cuh>

#include <cusync/dependent_launch.cuh>
#include <cusync/tile_stage.cuh>

struct Operand {
    unsigned short* address;
    long long row_stride;
};
struct Operands {
    Operand x, out;
};

template <int COLOURS>
__device__ __forceinline__ uint4 packed(const unsigned short* colours) {
    unsigned short channels[8] = {};
#pragma unroll
    for (int i = 0; i < COLOURS; ++i) channels[i] = colours[i];
    const auto pair = [&](int i) { return channels[2 * i] | static_cast<unsigned>(channels[2 * i + 1]) << 16; };
    return make_uint4(pair(0), pair(1), pair(2), pair(3));
}

template <int ROWS, int IMAGE_ROWS, int WIDTH, int COLOURS, int ZEROS, int THREADS>
__global__ void __launch_bounds__(THREADS)
pack_pixels(const __grid_constant__ cusync::StageParams<generated::stage> sync, const __grid_constant__ Operands p) {
    constexpr int wide = WIDTH + 2 * ZEROS;
    static_assert(generated::stage::input_count == 0, "images come from outside");
    cusync::launch_dependents();
    cusync::Stage<generated::stage> stage(sync);
    const cusync::Tile tile = stage.begin();
    cusync::wait_for_previous_grid();
    stage.before_stores(tile, cusync::is_leader());
    const int rows = min(ROWS, IMAGE_ROWS - tile.y * ROWS);
    for (int i = threadIdx.x; i < rows * wide; i += THREADS) {
        const int row = tile.y * ROWS + i / wide, column = i % wide - ZEROS;
        uint4 pixel = make_uint4(0, 0, 0, 0);
        if (static_cast<unsigned>(column) < WIDTH) pixel = packed<COLOURS>(p.x.address + row * p.x.row_stride + column * COLOURS);
        const long long place = static_cast<long long>(row) * wide + i % wide;
        *reinterpret_cast<uint4*>(p.out.address + place * p.out.row_stride) = pixel;
    }
    // What follows reads by TMA: each thread's stores before its proxy, and all of them before the post.
    asm volatile("fence.proxy.async.global;" ::: "memory");
    stage.finish(tile);
}
