#include "kinds.cuh"
extern "C" __global__ void word_and_flag(const u64* lines, u32* out, u32 epoch) {
  const u64* line = lines + blockIdx.x * 128 + threadIdx.x;
  u32 data, flag;
#ifdef TWO_LOADS
  do { asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(flag) : "l"((const u32*)line + 1) : "memory"); } while (flag != epoch);
  asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(data) : "l"((const u32*)line) : "memory");
#else
  do {
    asm volatile("ld.volatile.global.v2.u32 {%0, %1}, [%2];" : "=r"(data), "=r"(flag) : "l"(line) : "memory");
  } while (flag != epoch);
#endif
  out[blockIdx.x * 128 + threadIdx.x] = data;
}
