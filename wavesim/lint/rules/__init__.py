"""The rules that synchronisation code is held to: what breaks each, and what mends it."""

from wavesim.lint.rule import Rule

RULES = {
    rule.name: rule
    for rule in (
        Rule(
            "no-acquire",
            "wait",
            "a flag is polled, and neither the poll nor a fence between it and the loads of data acquires",
            "Poll with ld.acquire.gpu (in CUDA C++ cuda::atomic_ref with memory_order_acquire), or put "
            "__threadfence() between the poll and the first load of the data.",
        ),
        Rule(
            "acquire-deleted",
            "wait",
            "the PTX acquires, and the machine code made from it does not",
            "Use the value that the acquiring load or atomic returns, or let the loop poll with it.",
        ),
        Rule(
            "poll-hoisted",
            "wait",
            "an ordinary load is polled, which the compiler may do once, before the loop",
            "Poll with ld.acquire.gpu, or with volatile and a fence after the loop.",
        ),
        Rule(
            "no-release",
            "post",
            "a flag is posted, and neither the post nor a fence between it and the stores of data releases",
            "Post with st.release.gpu or red.release.gpu, or put __threadfence() before the post.",
        ),
        Rule(
            "post-before-barrier",
            "post",
            "one thread posts for the block, and no block barrier orders the other threads' stores before it",
            "Put __syncthreads() between the block's stores and the one thread's release.",
        ),
        Rule(
            "load-before-barrier",
            "wait",
            "one thread waits for the block, and no block barrier holds back the other threads' loads",
            "Put __syncthreads() between the one thread's acquire and the block's loads.",
        ),
        Rule(
            "fence-misplaced",
            "wait",
            "there is a fence, but on the wrong side of the wait or of the post",
            "Fence after the last poll and before the loads; fence after the stores and before the post.",
        ),
        Rule(
            "early-post",
            "post",
            "data is stored after the flag that announces it was posted",
            "Move the post behind the last store of what it announces.",
        ),
        Rule(
            "narrow-scope",
            "wait",
            "acquire, release or fence has the scope of a block or a cluster, and other blocks take part",
            "Use gpu scope (__threadfence, .gpu, thread_scope_device).",
        ),
        Rule(
            "no-system-scope",
            "wait",
            "memory of another GPU or of the host is synchronised with a scope narrower than the system",
            "Use sys scope (__threadfence_system, .sys, thread_scope_system).",
        ),
        Rule(
            "bulk-store-pending",
            "post",
            "a flag is posted while TMA or bulk stores may not have been written",
            "Wait with cp.async.bulk.wait_group 0, without .read, after the last commit_group.",
        ),
        Rule(
            "no-proxy-fence",
            "load",
            "ordinary accesses and TMA touch the same memory with no proxy fence between",
            "Put fence.proxy.async (.global for produced data, .shared::cta for staged tiles) between them.",
        ),
        Rule(
            "load-above-wait",
            "load",
            "produced data is loaded or prefetched before the wait for it",
            "Move the load below the wait, and give the wait's assembly a memory clobber.",
        ),
        Rule(
            "non-coherent-load",
            "load",
            "produced data is loaded by the non-coherent path (ld.global.nc, __ldg, texture)",
            "Load it with ld.global; drop const __restrict__ or __ldg from what another kernel writes.",
        ),
        Rule(
            "load-above-grid-wait",
            "load",
            "memory that the kernel before may write is loaded above griddepcontrol.wait",
            "Move the load below cudaGridDependencySynchronize() (griddepcontrol.wait).",
        ),
        Rule(
            "one-sided-dependent-launch",
            "dependent launch",
            "griddepcontrol.launch_dependents stands without a griddepcontrol.wait in the dependent, or the "
            "other way round",
            "Call cudaGridDependencySynchronize() in the dependent kernel before it reads or writes what the "
            "kernel before touches.",
        ),
        Rule(
            "trigger-as-release",
            "dependent launch",
            "griddepcontrol.launch_dependents is taken for a release, which it is not",
            "Wait with griddepcontrol.wait, or post a semaphore with release and wait for it with acquire.",
        ),
        Rule(
            "unbounded-spin",
            "spin",
            "a loop polls with no clock, count or abort flag that ends it",
            "Bound the loop by %globaltimer or a count of polls, and report who waited for what.",
        ),
        Rule(
            "mbarrier-not-awaited",
            "wait",
            "the answer of mbarrier.try_wait or test_wait is not looped on",
            "Repeat try_wait until it returns true.",
        ),
        Rule(
            "mbarrier-phase",
            "wait",
            "an mbarrier is awaited again and again with a phase parity that never flips",
            "Flip the parity each time the barrier is passed.",
        ),
        Rule(
            "no-expect",
            "barrier",
            "a bulk load completes on an mbarrier of which no thread expects the bytes",
            "Call mbarrier.arrive.expect_tx with the bytes before the load is issued.",
        ),
        Rule(
            "async-copy-pending",
            "load",
            "shared memory is read while the cp.async that fills it may be under way, or by other threads "
            "with no barrier after the wait",
            "Use cp.async.wait_group with the groups that may remain, then __syncthreads(), then read.",
        ),
        Rule(
            "no-wait",
            "wait",
            "data that another kernel of the file posts is read with no wait for the flag",
            "Wait with acquire for the flag that the producer posts.",
        ),
        Rule(
            "no-post",
            "post",
            "a flag is awaited that nobody in the file posts",
            "Post the flag with release once the data is stored.",
        ),
        Rule(
            "early-reset",
            "post",
            "a semaphore is set back while others may still poll it",
            "Let the last block reset it, once an atomic counter says that all have passed.",
        ),
        Rule(
            "divergent-barrier",
            "barrier",
            "a barrier is not reached by all the threads that it counts",
            "Move the barrier out of the branch, or name the threads that take part in bar.sync.",
        ),
    )
}
