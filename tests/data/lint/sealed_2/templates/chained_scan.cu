// Scan with decoupled look-back, status words apart from the values: one thread of the block looks back.
enum : unsigned { EMPTY = 0, AGGREGATE = 1, PREFIX = 2 };

struct TileState {
    volatile unsigned* status;
    int* aggregate;
    int* prefix;
};

__device__ void publish(TileState s, int tile, int* values, int value, unsigned status) {
#if STATUS_FIRST
    s.status[tile] = status;
    __threadfence();
    values[tile] = value;
#else
    values[tile] = value;
#if NO_STORE_FENCE
#elif BLOCK_STORE_FENCE
    __threadfence_block();
#else
    __threadfence();
#endif
    s.status[tile] = status;
#endif
}

__device__ int look_back(TileState s, int tile) {
    int sum = 0;
    while (true) {
        tile--;
        unsigned status;
        do {
            status = s.status[tile];
        } while (status == EMPTY);
#if !NO_LOAD_FENCE
        __threadfence();
#endif
#if TEXTURE_PATH
        if (status == PREFIX) return sum + __ldg(s.prefix + tile);
        sum += __ldg(s.aggregate + tile);
#else
        if (status == PREFIX) return sum + s.prefix[tile];
        sum += s.aggregate[tile];
#endif
    }
}

extern "C" __global__ void chained_scan(const int* in, int* out, TileState s, unsigned* next_tile) {
    __shared__ int warp_sums[8], tile_shared, before;
    if (threadIdx.x == 0) tile_shared = atomicAdd(next_tile, 1);
    __syncthreads();
    int tile = tile_shared, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    int mine = in[tile * 256 + threadIdx.x], sum = mine;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(~0u, sum, step);
        if (lane >= step) sum += other;
    }
    if (lane == 31) warp_sums[warp] = sum;
    __syncthreads();
    int total = 0;
#pragma unroll
    for (int w = 0; w < 8; w++) {
        if (w < warp) sum += warp_sums[w];
        total += warp_sums[w];
    }
    if (threadIdx.x == 0) {
        if (tile == 0) {
            before = 0;
        } else {
            publish(s, tile, s.aggregate, total, AGGREGATE);
            before = look_back(s, tile);
        }
        publish(s, tile, s.prefix, before + total, PREFIX);
    }
    __syncthreads();
    out[tile * 256 + threadIdx.x] = before + sum;
}
