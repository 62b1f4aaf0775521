// Reads `count` pieces of 16 bytes once: as fast as the memory goes, a step that reads as many bytes cannot end earlier.
extern "C" __global__ void read_once(const uint4* from, long long count, unsigned* sink) {
    const long long all = static_cast<long long>(gridDim.x) * blockDim.x;
    long long i = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
    unsigned seen = 0;
    for (; i + 3 * all < count; i += 4 * all) {
        const uint4 a = __ldcs(from + i), b = __ldcs(from + i + all), c = __ldcs(from + i + 2 * all), d = __ldcs(from + i + 3 * all);
        seen ^= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
    }
    for (; i < count; i += all) {
        const uint4 a = __ldcs(from + i);
        seen ^= a.x ^ a.y ^ a.z ^ a.w;
    }
    if (seen == 0x12345678u) *sink = seen;  // the loads are not to be left out
}
