// Launches from the device, by the second device runtime (CUDA 12 and later): what a call costs, when a child begins,
// how many launches may be pending, how deep grids nest, and who should launch uneven work.
//
//   launch_calls    one thread calls `count` children; stamps of its calls and of their begin
//   launch_from_many  lanes of warps of blocks call at once; the same stamps
//   fill_pool       one thread calls children behind one that holds its stream, so that all of them stay pending
//   nest            each grid launches one, until a launch fails
//   uneven_parent   threads with uneven items; a thread, its warp, its block or nobody launches

namespace {

__device__ unsigned long long now_ns() {
  unsigned long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

// 0: the block's own stream, 1: fire-and-forget, 2: tail.
__device__ cudaStream_t stream_of(int kind) {
  return kind == 0 ? cudaStream_t(0) : kind == 1 ? cudaStreamFireAndForget : cudaStreamTailLaunch;
}

constexpr unsigned long long held_at_most_ns = 200'000'000;

}  // namespace

extern "C" __global__ void stamp(unsigned long long* begun) { *begun = now_ns(); }

// called, begun: (count,) ns of one clock; errors: (count,) cudaError_t. One block of one thread.
extern "C" __global__ void launch_calls(int kind, int count, unsigned long long* called, unsigned long long* begun,
                                        int* errors) {
  for (int i = 0; i < count; ++i) {
    called[i] = now_ns();
    stamp<<<1, 1, 0, stream_of(kind)>>>(begun + i);
    errors[i] = cudaGetLastError();
  }
}

// The first `lanes` lanes of each warp call `count` children each, fire-and-forget. called, begun: (callers, count) ns, where
// a caller is a lane; errors: of all, 0 where there was none.
extern "C" __global__ void launch_from_many(int lanes, int count, unsigned long long* called, unsigned long long* begun,
                                            int* error) {
  const int lane = threadIdx.x % 32, warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
  if (lane >= lanes) return;
  for (int i = 0; i < count; ++i) {
    const int at = (warp * lanes + lane) * count + i;
    called[at] = now_ns();
    stamp<<<1, 1, 0, cudaStreamFireAndForget>>>(begun + at);
    if (const int found = cudaGetLastError()) atomicExch(error, found);
  }
}

// Ends once the parent has called everything. The limit only keeps a fault from hanging the GPU.
extern "C" __global__ void hold(int* is_released) {
  const unsigned long long begin_ns = now_ns();
  while (atomicAdd(is_released, 0) == 0 && now_ns() - begin_ns < held_at_most_ns) {}
}

extern "C" __global__ void count_one(int* ran) { atomicAdd(ran, 1); }

// All on the block's own stream, behind `hold`: none of them can begin. errors: (count,). One block of one thread.
extern "C" __global__ void fill_pool(int count, int* is_released, int* ran, int* errors) {
  hold<<<1, 1>>>(is_released);
  for (int i = 0; i < count; ++i) {
    count_one<<<1, 1>>>(ran);
    errors[i] = cudaGetLastError();
  }
  // Whatever could not be launched, the holder is let go.
  atomicExch(is_released, 1);
}

// deepest: the level of the deepest grid that ran, the host's being 0; error: of the launch that failed, if one did.
extern "C" __global__ void nest(int level, int most, int* deepest, int* error) {
  atomicMax(deepest, level);
  if (level >= most) return;
  nest<<<1, 1, 0, cudaStreamFireAndForget>>>(level + 1, most, deepest, error);
  const int found = cudaGetLastError();
  if (found != cudaSuccess) atomicExch(error, found);
}

namespace {

constexpr int threads = 256;

__device__ void do_item(int* done, int item, int cycles) {
  const long long begin = clock64();
  while (clock64() - begin < cycles) {}
  atomicAdd(done + item, 1);
}

}  // namespace

// tasks: a row per block of the launch, its first item and the one behind its last.
extern "C" __global__ void uneven_child(const int2* tasks, int* done, int cycles) {
  const int2 task = tasks[blockIdx.x];
  const int item = task.x + threadIdx.x;
  if (item < task.y) do_item(done, item, cycles);
}

// first_item, first_task: (parents + 1,) running sums over the parent's threads; a thread without tasks does its
// items itself. gathered: threads per launch, 1, 32 or 256; 0 for nobody, and then no thread has tasks.
// lost: launches that failed. Blocks of 256 threads.
extern "C" __global__ void uneven_parent(int gathered, const int* first_item, const int* first_task, const int2* tasks,
                                         int* done, int cycles, int* lost) {
  const int thread = blockIdx.x * threads + threadIdx.x;
  if (first_task[thread] == first_task[thread + 1]) {
    for (int item = first_item[thread]; item < first_item[thread + 1]; ++item) do_item(done, item, cycles);
  }
  // A block's launch is gathered behind a barrier, as its sizes would be.
  if (gathered == threads) __syncthreads();
  if (gathered == 0 || thread % gathered != 0) return;
  const int first = first_task[thread], blocks = first_task[thread + gathered] - first;
  if (blocks == 0) return;
  uneven_child<<<blocks, threads, 0, cudaStreamFireAndForget>>>(tasks + first, done, cycles);
  if (cudaGetLastError() != cudaSuccess) atomicAdd(lost, 1);
}
