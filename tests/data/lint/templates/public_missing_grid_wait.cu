// The preprocess kernel of an attention backward pass, launched as a programmatic dependent, reads the gradient that
// the kernel before writes, and does not wait for it.
extern "C" __global__ void project_back(const float* in, float* gradient) {
    unsigned at = blockIdx.x * 128 + threadIdx.x;
    asm volatile("griddepcontrol.wait;" ::: "memory");
    gradient[at] = in[at] * 0.5f;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

extern "C" __global__ void preprocess(const float* out, const float* gradient, float* sums, float* accumulator) {
    unsigned at = blockIdx.x * 128 + threadIdx.x;
#if !BUG
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    float product = out[at] * gradient[at];
    for (int step = 16; step > 0; step /= 2) product += __shfl_xor_sync(~0u, product, step);
    if (threadIdx.x % 32 == 0) sums[at / 32] = product;
    accumulator[at] = 0.0f;
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}
