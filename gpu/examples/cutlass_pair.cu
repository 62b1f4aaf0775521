// Two CUTLASS GEMMs, hidden = x w1 and y = hidden w2, all fp16, row-major, on one stream: plainly, or the second beside
// the first with row semaphores. The kernels are CollectiveBuilder's; wavesim's adaptors go around the collectives.
//
//     nvcc -std=c++17 -arch=sm_90a -O3 -shared -Xcompiler -fPIC --expt-relaxed-constexpr -I CUTLASS/include -I . -I gpu
//          gpu/examples/cutlass_pair.cu -o libcutlass_pair.so
#include <cutlass/cutlass.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/device/gemm_universal_adapter.h>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include <wavesim_gpu/for_cutlass/row_semaphores.cuh>

namespace {

using Half = cutlass::half_t;
using RowMajor = cutlass::layout::RowMajor;
using TileShape = cute::Shape<cute::_128, cute::_256, cute::_64>;
using Cluster = cute::Shape<cute::_1, cute::_1, cute::_1>;
constexpr int tile_m = 128, tile_n = 256;
constexpr int alignment = 8;       // elements of 16 bytes
constexpr int rows_per_group = 4;  // tiles come in groups of four tile rows

using PlainEpilogue = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, TileShape, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, RowMajor, alignment, Half, RowMajor, alignment,
    cutlass::epilogue::TmaWarpSpecializedCooperative>::CollectiveOp;
using PlainMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Half, RowMajor, alignment, Half, RowMajor, alignment, float,
    TileShape, Cluster,
    cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename PlainEpilogue::SharedStorage))>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;

// What changes: the collectives that wait and post.
using Epilogue = wavesim::SynchronisedEpilogue<PlainEpilogue>;
using Mainloop = wavesim::WaitingMainloop<PlainMainloop>;

template <class Mainloop, class Epilogue>
using GemmOf = cutlass::gemm::device::GemmUniversalAdapter<
    cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>>;
using Plain = GemmOf<PlainMainloop, PlainEpilogue>;
using First = GemmOf<PlainMainloop, Epilogue>;
using Second = GemmOf<Mainloop, Epilogue>;

// c (m, n) = a (m, k) b (k, n).
struct Product {
    int m, n, k;
    const Half *a, *b;
    Half* c;

    typename PlainMainloop::Arguments inputs() const { return {a, {k, {}, 0}, b, {{}, n, 0}}; }
    typename PlainEpilogue::Arguments output() const { return {{}, nullptr, {}, c, {n, {}, 0}}; }
};

template <class Gemm>
cutlass::Status launch(const Product& product, const typename Gemm::GemmKernel::MainloopArguments& mainloop,
                       const typename Gemm::GemmKernel::EpilogueArguments& epilogue, bool is_dependent,
                       cudaStream_t stream) {
    typename Gemm::Arguments arguments{
        cutlass::gemm::GemmUniversalMode::kGemm, {product.m, product.n, product.k, 1}, mainloop, epilogue};
    cudaGetDevice(&arguments.hw_info.device_id);
    arguments.hw_info.sm_count =
        cutlass::KernelHardwareInfo::query_device_multiprocessor_count(arguments.hw_info.device_id);
    using Raster = typename cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90Params::RasterOrderOptions;
    arguments.scheduler.raster_order = Raster::AlongN;
    arguments.scheduler.max_swizzle_size = rows_per_group;
    if (const auto status = Gemm::can_implement(arguments); status != cutlass::Status::kSuccess) return status;
    return Gemm().run(arguments, nullptr, stream, nullptr, is_dependent);
}

}  // namespace

// Words that `sync` has: the report of the second GEMM's waits, then a semaphore per tile row.
extern "C" int sync_words(int m) { return wavesim::report_words + (m + tile_m - 1) / tile_m; }

// Enqueues both plainly. Returns CUTLASS's status, 0 for success. k and n1 are multiples of 8, as is n2.
extern "C" int run_plain(const void* x, const void* w1, const void* w2, void* hidden, void* y, int m, int k, int n1,
                         int n2, void* stream) {
    const auto h = static_cast<Half*>(hidden);
    const Product up{m, n1, k, static_cast<const Half*>(x), static_cast<const Half*>(w1), h};
    const Product down{m, n2, n1, h, static_cast<const Half*>(w2), static_cast<Half*>(y)};
    for (const Product& one : {up, down}) {
        const auto status =
            launch<Plain>(one, one.inputs(), one.output(), false, static_cast<cudaStream_t>(stream));
        if (status != cutlass::Status::kSuccess) return static_cast<int>(status);
    }
    return 0;
}

// The same with row semaphores. A wait gives up after `limit_ns`; then sync[0] is not 0, and y is NaN.
extern "C" int run_synchronised(const void* x, const void* w1, const void* w2, void* hidden, void* y, unsigned* sync,
                                int m, int k, int n1, int n2, unsigned long long limit_ns, int leave_out_first,
                                void* stream_pointer) {
    const auto stream = static_cast<cudaStream_t>(stream_pointer);
    const auto h = static_cast<Half*>(hidden);
    const Product up{m, n1, k, static_cast<const Half*>(x), static_cast<const Half*>(w1), h};
    const Product down{m, n2, n1, h, static_cast<const Half*>(w2), static_cast<Half*>(y)};
    unsigned* semaphores = sync + wavesim::report_words;
    const auto tiles_per_row = static_cast<unsigned>((n1 + tile_n - 1) / tile_n);
    cudaMemsetAsync(sync, 0, sizeof(unsigned) * sync_words(m), stream);
    auto status = cutlass::Status::kSuccess;
    if (!leave_out_first) {  // left out by the test of waits that nobody ends
        status = launch<First>(up, up.inputs(), {up.output(), {semaphores, nullptr}}, false, stream);
    }
    if (status != cutlass::Status::kSuccess) return static_cast<int>(status);
    status = launch<Second>(down, {down.inputs(), {semaphores, tiles_per_row, sync, limit_ns}},
                            {down.output(), {nullptr, sync}}, !leave_out_first, stream);
    return static_cast<int>(status);
}
