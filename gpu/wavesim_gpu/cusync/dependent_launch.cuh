// Programmatic dependent launch, from sm_90 on: a kernel's blocks are issued once every block of the kernel before it in
// the stream has called launch_dependents, or has exited. Where the launch is an ordinary one, or the GPU an older one,
// both do nothing.
#pragma once

namespace cusync {

// The next kernel's blocks may be issued as soon as there is room. It says nothing about data.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Until the kernel before has ended and all that it wrote is visible. Not needed for what semaphores tell.
__device__ __forceinline__ void wait_for_previous_grid() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace cusync
