// Single instructions under short names. BUG in a template brings back what was reported.
#pragma once
#define D __device__ __forceinline__
typedef unsigned u32;
typedef unsigned long long u64;
D u32 acq(const u32* p) { u32 v; asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
D u32 rlx(const u32* p) { u32 v; asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
D u32 acq_sys(const u32* p) { u32 v; asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory"); return v; }
D void rel(u32* p, u32 v) { asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
D void put(u32* p, u32 v) { asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory"); }
D void red_rel(u32* p) { asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
D void red_rlx(u32* p) { asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(p) : "memory"); }
D u32 atom_rel(u32* p) { u32 v; asm volatile("atom.add.release.gpu.u32 %0, [%1], 1;" : "=r"(v) : "l"(p) : "memory"); return v; }
D u32 atom_acqrel(u32* p) { u32 v; asm volatile("atom.add.acq_rel.gpu.u32 %0, [%1], 1;" : "=r"(v) : "l"(p) : "memory"); return v; }
D u32 atom_rlx(u32* p) { u32 v; asm volatile("atom.add.relaxed.gpu.u32 %0, [%1], 1;" : "=r"(v) : "l"(p) : "memory"); return v; }
D void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
D void grid_go() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
D u32 sm(const void* p) { return (u32)__cvta_generic_to_shared(p); }
D void mb_init(void* b, u32 n) { asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(sm(b)), "r"(n) : "memory"); }
D void mb_arrive(void* b) { asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(sm(b)) : "memory"); }
D void mb_expect(void* b, u32 n) { asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(sm(b)), "r"(n) : "memory"); }
D bool mb_try(void* b, u32 parity) {
    u32 ok;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }" : "=r"(ok) : "r"(sm(b)), "r"(parity) : "memory");
    return ok;
}
D void mb_wait(void* b, u32 parity) { while (!mb_try(b, parity)) {} }
D void mb_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
D void bulk_load(void* d, const void* s, u32 n, void* b) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(sm(d)), "l"(s), "r"(n), "r"(sm(b)) : "memory");
}
D void bulk_store(void* d, const void* s, u32 n) { asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(d), "r"(sm(s)), "r"(n) : "memory"); }
D void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
D void bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
D void bulk_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
D void proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
D void bar_sync(int i, int n) { asm volatile("bar.sync %0, %1;" ::"r"(i), "r"(n) : "memory"); }
D void bar_arrive(int i, int n) { asm volatile("bar.arrive %0, %1;" ::"r"(i), "r"(n) : "memory"); }
D void cl_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
D void cl_arrive_rlx() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
D void cl_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
D u32 cl_rank() { u32 r; asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
D u32 mapa(const void* p, u32 rank) { u32 a; asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(a) : "r"(sm(p)), "r"(rank)); return a; }
D float ld_cl(u32 a) { float v; asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(a) : "memory"); return v; }
D void st_cl(u32 a, float v) { asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(a), "f"(v) : "memory"); }
#define K extern "C" __global__
