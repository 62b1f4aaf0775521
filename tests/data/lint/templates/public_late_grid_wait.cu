// A merge step reads where its tile begins and ends from what the kernel before writes, and waits for it only after.
extern "C" __global__ void partition(const int* keys, unsigned* bounds, unsigned n) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
    unsigned tile = blockIdx.x * 64 + threadIdx.x;
    unsigned low = 0, high = n;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (keys[middle] < static_cast<int>(tile)) low = middle + 1;
        else high = middle;
    }
    bounds[tile] = low;
}

extern "C" __global__ void merge(const int* keys, const unsigned* bounds, int* out) {
#if !BUG
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    unsigned begin = bounds[blockIdx.x], end = bounds[blockIdx.x + 1];
#if BUG
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    for (unsigned i = begin + threadIdx.x; i < end; i += 64) out[i] = keys[i];
}
