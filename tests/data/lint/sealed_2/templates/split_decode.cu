// Flash-decoding: splits of the keys leave partial outputs, the block that comes last merges; atomicInc wraps.
extern "C" __global__ void __launch_bounds__(64)
    split_decode(const float* q, const float* keys, float* partial, float2* stats, float* out, unsigned* counters,
                 int per_split) {
    __shared__ unsigned order;
    int head = blockIdx.x, split = blockIdx.y, splits = gridDim.y, d = threadIdx.x;
    float top = -1e30f, sum = 0, acc = 0;
    for (int i = 0; i < per_split; i++) {
        float k = keys[((head * splits + split) * per_split + i) * 64 + d];
        float s = q[head * 64 + d] * k;
        float next = fmaxf(top, s), keep = __expf(top - next), p = __expf(s - next);
        acc = acc * keep + p * k, sum = sum * keep + p, top = next;
    }
    int at = (head * splits + split) * 64 + d;
    partial[at] = acc;
    stats[at] = make_float2(top, sum);
#if !NO_JOIN
    __syncthreads();
#endif
    if (d == 0) {
#if !NO_RELEASE
        __threadfence();
#endif
        order = atomicInc(counters + head, splits - 1);
#if !NO_ACQUIRE
        __threadfence();
#endif
    }
    __syncthreads();
    if (order != splits - 1) return;
    float all = -1e30f, weight = 0, value = 0;
    for (int s = 0; s < splits; s++) {
        int from = (head * splits + s) * 64 + d;
        float2 st = stats[from];
        float next = fmaxf(all, st.x), old = __expf(all - next), add = __expf(st.x - next);
        weight = weight * old + st.y * add, value = value * old + partial[from] * add, all = next;
    }
    out[head * 64 + d] = value / weight;
}
