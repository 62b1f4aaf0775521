// cp.async that arrives on an mbarrier by itself: two warps copy, two wait for the phase.
extern "C" __global__ void __launch_bounds__(128) arriving_copies(const uint4* in, unsigned* out, int steps) {
    __shared__ uint4 box[64];
    __shared__ unsigned long long bars[2];  // filled, taken
    unsigned filled = static_cast<unsigned>(__cvta_generic_to_shared(&bars[0])), taken = filled + 8;
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(filled) : "memory");
        asm volatile("mbarrier.init.shared.b64 [%0], 64;" ::"r"(taken) : "memory");
    }
    __syncthreads();
    int i = threadIdx.x & 63;
    unsigned sum = 0;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
        unsigned ok;
        if (threadIdx.x < 64) {
            if (step > 0) {
                do {
                    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                                 : "=r"(ok) : "r"(taken), "r"((step - 1) & 1) : "memory");
                } while (!ok);
            }
            unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(&box[i]));
            asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(to), "l"(in + (blockIdx.x * steps + step) * 64 + i)
                         : "memory");
            asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(filled) : "memory");
        } else {
            do {
#if FIRST_PHASE_ONLY
                unsigned phase = 0;
#else
                unsigned phase = step & 1;
#endif
                asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                             : "=r"(ok) : "r"(filled), "r"(phase) : "memory");
#if TESTED_ONCE
                if (!ok) __nanosleep(200);
                break;
#endif
            } while (!ok);
            uint4 v = box[(i * 7) & 63];
            sum += v.x ^ v.y ^ v.z ^ v.w;
            asm volatile("{ .reg .b64 s; mbarrier.arrive.shared.b64 s, [%0]; }" ::"r"(taken) : "memory");
        }
    }
    if (threadIdx.x >= 64) out[blockIdx.x * 64 + i] = sum;
}
