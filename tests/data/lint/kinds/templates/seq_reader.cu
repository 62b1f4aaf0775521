#include "kinds.cuh"
extern "C" __global__ void seq_reader(const u32* sequence, const float4* data, float4* out) {
  if (threadIdx.x == 0) {
    u32 first, second;
    float4 v;
    do {
      first = load_acquire(sequence);
      asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v.x) : "l"(&data->x) : "memory");
      asm volatile("ld.relaxed.gpu.global.f32 %0, [%1];" : "=f"(v.y) : "l"(&data->y) : "memory");
#ifdef UNORDERED_SECOND_LOOK
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(second) : "l"(sequence) : "memory");
#else
      asm volatile("fence.acq_rel.gpu;" ::: "memory");
      asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(second) : "l"(sequence) : "memory");
#endif
    } while (first != second || (first & 1u));
    v.z = v.w = 0.0f;
    out[blockIdx.x] = v;
  }
}
