// Two kernels on two streams: a 64-bit mask per row of tiles says which columns are stored; a class hides it.
class TileGate {
public:
    __device__ TileGate(unsigned long long* mask) : mask_(mask) {}
    __device__ void open(int column) const {
#if NEVER_OPENED
        return;
#endif
#if SKIP_JOIN
        if (threadIdx.x + threadIdx.y == 0) {
#else
        __syncthreads();
        if (threadIdx.x + threadIdx.y == 0) {
#endif
#if !SKIP_RELEASE
            __threadfence();
#endif
            atomicOr(mask_, 1ull << column);
        }
    }
    __device__ void pass(unsigned long long columns) const {
#if NOT_AWAITED
        return;
#endif
        if (threadIdx.x + threadIdx.y == 0) {
#if ONE_GLANCE
            if ((look() & columns) != columns) __nanosleep(2000);
#else
            while ((look() & columns) != columns) {
            }
#endif
#if !SKIP_ACQUIRE
            __threadfence();
#endif
        }
        __syncthreads();
    }

private:
    __device__ unsigned long long look() const { return *static_cast<volatile unsigned long long*>(mask_); }
    unsigned long long* mask_;
};

extern "C" __global__ void gate_producer(const float* a, float* c, unsigned long long* masks, int k) {
    __shared__ float tile[16][17];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int i = 0; i < k; i += 16) {
        tile[threadIdx.y][threadIdx.x] = a[row * k + i + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += tile[threadIdx.y][j] * tile[j][threadIdx.x];
        __syncthreads();
    }
    c[row * gridDim.x * 16 + column] = sum;
    TileGate(masks + blockIdx.y).open(blockIdx.x);
}

extern "C" __global__ void gate_consumer(const float* c, float* out, unsigned long long* masks, int columns) {
    TileGate(masks + blockIdx.y).pass((1ull << columns) - 1);
    int row = blockIdx.y * 16 + threadIdx.y;
    float sum = 0;
    for (int i = threadIdx.x; i < columns * 16; i += 16) sum += c[row * columns * 16 + i];
    atomicAdd(out + row, sum);
}
