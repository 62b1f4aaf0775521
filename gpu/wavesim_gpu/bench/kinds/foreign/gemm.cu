// C (m, n) = A (m, k) B (k, n), fp16 with fp32 sums, all row-major: a matrix product as textbooks on Ampere have it. A
// pipeline of cp.async over k-blocks, ldmatrix, mma.sync, stores from registers. A block waits at a barrier of all its
// warps, before the main loop or before the first k-block of every tile of A.

#include <bench/kinds/foreign/flags.cuh>
#include <record/wavesim_recorder.cuh>

using half_bits = unsigned short;

__device__ __forceinline__ unsigned shared_address(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// 16 bytes, or zeros where there is no such row.
__device__ __forceinline__ void copy_async(half_bits* to, const half_bits* from, bool is_there) {
    const int bytes = is_there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const half_bits* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}

__device__ __forceinline__ void load_transposed(unsigned (&to)[4], const half_bits* from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(from))
                 : "memory");
}

__device__ __forceinline__ void multiply(float (&sum)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ __forceinline__ unsigned two_halves(float low, float high) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

// TILE_M x TILE_N of C per tile, DEPTH k-blocks of TILE_K in shared memory, WARPS_M x WARPS_N warps. WAITS_IN_LOOP: before
// every tile of A, else once for all. n and k are multiples of the tile's, m is not.
template <int TILE_M, int TILE_N, int TILE_K, int DEPTH, int WARPS_M, int WARPS_N, int BLOCKS_PER_SM, bool WAITS_IN_LOOP,
          bool IS_PERSISTENT>
__global__ void __launch_bounds__(32 * WARPS_M* WARPS_N, BLOCKS_PER_SM)
    gemm(const half_bits* a, const half_bits* b, half_bits* c, int m, int n, int k, int stage,
         const __grid_constant__ Flags flags, void* recording) {
    constexpr int threads = 32 * WARPS_M * WARPS_N;
    constexpr int warp_m = TILE_M / WARPS_M, warp_n = TILE_N / WARPS_N;
    constexpr int a_row = TILE_K + 8, b_row = TILE_N + 8;  // padded: eight rows of 16 bytes are on all 32 banks
    constexpr int a_size = TILE_M * a_row, b_size = TILE_K * b_row;
    extern __shared__ __align__(16) half_bits shared[];
    __shared__ int fetched;
    half_bits* const a_blocks = shared;
    half_bits* const b_blocks = shared + DEPTH * a_size;

    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const int from_row = warp / WARPS_N * warp_m, from_column = warp % WARPS_N * warp_n;
    const int columns = n / TILE_N, rows = (m + TILE_M - 1) / TILE_M, k_blocks = k / TILE_K;

    begin_kernel(flags);
    for (;;) {
        int position = blockIdx.x;
        if constexpr (IS_PERSISTENT) {
            if (threadIdx.x == 0)
                // Back at zero once every block has fetched in vain.
                fetched = static_cast<int>(atomicInc(flags.next, columns * rows + gridDim.x - 1));
            __syncthreads();
            position = fetched;
        }
        if (position >= columns * rows) break;
        wavesim::Recorder recorder(recording);
        recorder.begin();
        const Place tile = place_of(position, columns, rows, flags.group);
        const int top = tile.y * TILE_M, left = tile.x * TILE_N;

        // The k-block at which the next tile of A begins, and that tile's column; never where there is nothing to wait for.
        int next_wait = flags.waits == nullptr ? k_blocks : 0, column = 0;
        const int step = WAITS_IN_LOOP && flags.wait_columns > 1 ? flags.producer_tile_n / TILE_K : k_blocks;
        // All threads: what k-block `number` reads of A is stored.
        const auto ensure = [&](int number) {
            if (number != next_wait) return;
            if (threadIdx.x == 0) {
                recorder.begin_wait();
                const int last = WAITS_IN_LOOP ? column : flags.wait_columns - 1;
                for (int x = column; x <= last; ++x) poll_rows(flags, x, top, min(top + TILE_M, m));
                recorder.end_wait();
            }
            __syncthreads();
            next_wait += step;
            ++column;
        };
        const auto load = [&](int number) {
            half_bits* const a_to = a_blocks + number % DEPTH * a_size;
            half_bits* const b_to = b_blocks + number % DEPTH * b_size;
            const int depth = number * TILE_K;
#pragma unroll
            for (int i = threadIdx.x; i < TILE_M * TILE_K / 8; i += threads) {
                const int row = i / (TILE_K / 8), at = i % (TILE_K / 8) * 8;
                const int from = min(top + row, m - 1);
                copy_async(a_to + row * a_row + at, a + static_cast<long long>(from) * k + depth + at, top + row < m);
            }
#pragma unroll
            for (int i = threadIdx.x; i < TILE_K * TILE_N / 8; i += threads) {
                const int row = i / (TILE_N / 8), at = i % (TILE_N / 8) * 8;
                copy_async(b_to + row * b_row + at, b + static_cast<long long>(depth + row) * n + left + at, true);
            }
        };

        float sums[warp_m / 16][warp_n / 8][4] = {};
        for (int number = 0; number < DEPTH - 1; ++number) {
            if (number < k_blocks) {
                ensure(number);
                load(number);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
        }
        for (int number = 0; number < k_blocks; ++number) {
            asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2) : "memory");
            __syncthreads();  // this k-block is there, and the one that is loaded over has been used
            if (number + DEPTH - 1 < k_blocks) {
                ensure(number + DEPTH - 1);
                load(number + DEPTH - 1);
            }
            asm volatile("cp.async.commit_group;" ::: "memory");
            const half_bits* const a_from = a_blocks + number % DEPTH * a_size;
            const half_bits* const b_from = b_blocks + number % DEPTH * b_size;
#pragma unroll
            for (int depth = 0; depth < TILE_K; depth += 16) {
                unsigned a_part[warp_m / 16][4], b_part[warp_n / 16][4];
#pragma unroll
                for (int i = 0; i < warp_m / 16; ++i) {
                    const int row = from_row + 16 * i + lane % 16;
                    load_matrices(a_part[i], a_from + row * a_row + depth + lane / 16 * 8);
                }
#pragma unroll
                for (int j = 0; j < warp_n / 16; ++j) {
                    const int column = from_column + 16 * j + lane / 16 * 8;
                    load_transposed(b_part[j], b_from + (depth + lane % 16) * b_row + column);
                }
#pragma unroll
                for (int i = 0; i < warp_m / 16; ++i) {
#pragma unroll
                    for (int j = 0; j < warp_n / 8; ++j) {
                        multiply(sums[i][j], a_part[i], b_part[j / 2][j % 2 * 2], b_part[j / 2][j % 2 * 2 + 1]);
                    }
                }
            }
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < warp_m / 16; ++i) {
#pragma unroll
            for (int part = 0; part < 2; ++part) {
                const int row = top + from_row + 16 * i + 8 * part + lane / 4;
                if (row >= m) continue;
                half_bits* const to = c + static_cast<long long>(row) * n + left + from_column + lane % 4 * 2;
#pragma unroll
                for (int j = 0; j < warp_n / 8; ++j) {
                    *reinterpret_cast<unsigned*>(to + 8 * j) = two_halves(sums[i][j][2 * part], sums[i][j][2 * part + 1]);
                }
            }
        }
        __syncthreads();
        // Warps that are done make room for the next block while the first one posts.
        recorder.end(stage, tile.x, tile.y);
        post(flags, tile.x, tile.y);
        if constexpr (!IS_PERSISTENT) break;
    }
    end_kernel(flags);
}
