// Three dependent 3 x 3 convolutions by the portable kernel (kernels/convolution/conv_sm80.cu), run by threads of the host
// again and again: the second in splits of its taps, the third adds the first's outputs.
//
//   conv_chain OPERATIONS SEED [DROPPED]      ends with "rounds operations wrong aborted"
//
// A warp is its first lane, which copies the first 8 channels of every 8th pixel of a tile, multiplies every 16th, and
// stores their first filters. Images are 16 pixels wide, so these are the first column's, and of an output's taps those
// above, at and below it find what was stored: the halo is among them. A sum of a product grows by one where a pixel is
// not zero (ptx_on_host.h), so what each output must be is known. DROPPED "halo": tiles wait for the producer's tiles of
// their own row alone.
#include "ptx_on_host.h"

#include <generated.cuh>

#include <kernels/convolution/conv_sm80.cu>

#include "resident_blocks.h"

using First = pipeline::first;
using Second = pipeline::second;
using Third = pipeline::third;
using S = TileConfig<32, 64, 32, 1, host::warps, 3>;

constexpr int images = 3, height = 3, width = 16, pixels = images * height * width;
constexpr int filters = 40, given = 24, taps = 9;  // of the first convolution's images, and of what all three make
constexpr int counts[] = {First{}.blocks(), Second{}.blocks(), Third{}.blocks()};
static_assert(First::rows * S::tile_m > pixels && (First::rows - 1) * S::tile_m < pixels, "the last tile is ragged");

using Elements = std::vector<unsigned short>;

struct Data {
    // A word is looked at, so there is one more element behind the last.
    Elements images = Elements(pixels * given + 1, 0x3f80), weights = Elements(filters * taps * filters + 1, 0x3f80);
    Elements first = Elements(pixels * filters + 1), second = first, third = first;
    std::vector<float4> partials = std::vector<float4>(Second::columns * Second::rows * Second::slices * S::frags_m *
                                                       S::frags_n * S::threads);
    std::vector<unsigned> tickets = std::vector<unsigned>(Second::columns * Second::rows);
    std::vector<unsigned> counters = std::vector<unsigned>((pipeline::counter_count + 1 + 3) / 4 * 4);
};

// The lists that Python makes for the GPU, with one step in each window of 32: a warp has one lane here. With "halo" dropped
// without steps for other rows of tiles than the list's own.
struct Schedule {
    std::vector<cusync::WaitStep> steps;
    std::vector<int> first;
    template <class Lists>
    Schedule(const Lists&, int per_row) {
        const bool has_halo = std::string_view(host::dropped) != "halo";
        for (const int begin : Lists::first) {
            const int row = static_cast<int>(first.size()) / per_row;
            first.push_back(static_cast<int>(steps.size()));
            for (const int (*at)[4] = Lists::steps + begin;; ++at) {
                const cusync::WaitStep step{(*at)[0], (*at)[1], (*at)[2], (*at)[3]};
                if (step.at != INT_MAX && step.y != row && !has_halo) continue;
                steps.push_back(step);
                steps.resize(steps.size() + 31, cusync::WaitStep{INT_MAX, -1, 0, 0});
                if (step.at == INT_MAX) break;
            }
        }
    }
};

template <class Generated>
cusync::StageParams<Generated> sync_of(host::Runs& runs, Data& data, int stage, const Schedule* schedule) {
    cusync::StageParams<Generated> params{};
    params.sync = {data.counters.data(), &runs.errors, nullptr, host::limit_ns, schedule ? schedule->steps.data() : nullptr,
                   schedule ? schedule->first.data() : nullptr, stage, 3, static_cast<int>(data.counters.size()),
                   counts[0] + counts[1] + counts[2], {}};
    return params;
}

constexpr unsigned multiplier(unsigned divisor) {
    return divisor == 1 ? 0 : static_cast<unsigned>(((1ull << 32) + divisor - 1) / divisor);
}

ConvSm80Params conv_of(Data& data, const Elements& from, int channels, const Elements* residual, Elements& to) {
    ConvSm80Params p{};
    p.a = from.data(), p.b = data.weights.data(), p.c = to.data();
    if (residual != nullptr) p.residual = residual->data();
    p.partials = reinterpret_cast<float*>(data.partials.data()), p.tickets = data.tickets.data();
    p.a_stride = channels, p.b_stride = taps * channels, p.c_stride = p.residual_stride = filters;
    const unsigned blocks = (channels + S::tile_k - 1) / S::tile_k;
    p.im2col = {height * width, width, 1, 1, 1, 3, static_cast<int>(blocks), multiplier(blocks), multiplier(3)};
    p.images = images, p.height = height, p.width = width, p.channels = channels;
    p.taps = taps, p.outputs = pixels, p.filters = filters, p.has_relu = 1;
    return p;
}

// What an output in the first column must be: of each of its taps that finds a pixel a one per block of channels. Of the
// images all pixels are there, so the taps to the right too; of what a convolution made the first column alone.
float expected(int pixel, int channels, bool has_all_columns) {
    const int row = pixel / width % height, rows = (row > 0) + 1 + (row + 1 < height);
    return static_cast<float>(rows * (has_all_columns ? 2 : 1) * ((channels + S::tile_k - 1) / S::tile_k));
}

unsigned long long differing(const Elements& found, const std::function<float(int)>& value) {
    unsigned long long wrong = 0;
    for (int pixel = 0; pixel < pixels; pixel += width) {
        for (int filter = 0; filter < filters; filter += S::warp_n) {
            wrong += __uint_as_float(static_cast<unsigned>(found[pixel * filters + filter]) << 16) != value(pixel);
        }
    }
    return wrong;
}

template <class Generated>
void convolution(const cusync::StageParams<Generated>& sync, const ConvSm80Params& p, int block) {
    blockIdx.x = block;
    // What other lanes would have copied.
    if (threadIdx.x == 0) std::memset(host::dynamic_shared(), 0, S::pipeline_depth * S::slot_bytes);
    host::self.block->wait();
    convolve<S, 1, true>(sync, p);
}

int main(int count, char** words) {
    if (count < 3) return 2;
    host::Runs runs(words);
    Data data;
    const Schedule of_second(pipeline::second_waits{}, Second::columns * Second::slices);
    const Schedule of_third(pipeline::third_waits{}, Third::columns);
    const auto first = sync_of<First>(runs, data, 0, nullptr);
    const auto second = sync_of<Second>(runs, data, 1, &of_second);
    const auto third = sync_of<Third>(runs, data, 2, &of_third);
    const auto of_first = conv_of(data, data.images, given, nullptr, data.first);
    const auto of_taps = conv_of(data, data.first, filters, nullptr, data.second);
    const auto of_sum = conv_of(data, data.second, filters, &data.first, data.third);
    const auto block = [&](int index) {
        if (index < counts[0]) {
            convolution(first, of_first, index);
        } else if ((index -= counts[0]) < counts[1]) {
            convolution(second, of_taps, index);
        } else {
            convolution(third, of_sum, index - counts[1]);
        }
    };
    const auto look = [&] {
        if (runs.errors.aborted == 0) {
            const auto of_images = [](int pixel) { return expected(pixel, given, true); };
            const auto of_made = [](int pixel) { return expected(pixel, filters, false); };
            runs.wrong += differing(data.first, of_images) + differing(data.second, of_made);
            runs.wrong += differing(data.third, [&](int pixel) { return of_made(pixel) + of_images(pixel); });
            runs.wrong += data.counters.size() - std::count(data.counters.begin(), data.counters.end(), 0u);
        }
        for (Elements* all : {&data.first, &data.second, &data.third}) std::fill(all->begin(), all->end(), 0);
        std::fill(data.tickets.begin(), data.tickets.end(), 0);
    };
    runs.run(counts[0] + counts[1] + counts[2], block, look);
    return runs.end();
}
