// A copy by rows, decode attention over a cache in two splits, and a copy of what it made, run by threads of the host again
// and again: the loop of row kernels (kernels/rows/rows.cuh), whose blocks take tile after tile, and the whole decode kernel.
//
//   decode_chain OPERATIONS SEED [DROPPED]      ends with "rounds operations wrong aborted"
//
// A warp is its first lane, so of a step's keys every fourth is there, and of a row of sums the first words. Weights and
// sums mean nothing then; but as they are merged in one order, all runs must end with the same words.
#include "ptx_on_host.h"

#include <generated.cuh>

namespace generated {
using stage = pipeline::second;
}

#include <kernels/attention/decode.cu>
#include <kernels/rows/rows.cuh>

#include "resident_blocks.h"

using First = pipeline::first;
using Second = pipeline::second;
using Third = pipeline::third;

constexpr int head = 64, heads = 8, kv_heads = Second::columns, group = heads / kv_heads, sequences = Second::rows;
constexpr int keys = 69, row_blocks = 2;  // the step's own included; blocks of a row kernel
constexpr int packed = (heads + 2 * kv_heads) * head, cached = kv_heads * head, out = heads * head;
using Config = DecodeConfig<head, 8, host::warps, 16, 3, false>;

using Elements = std::vector<unsigned short>;

struct Data {
    Elements packed_rows, k, v, out_rows, copied, seen;
    std::vector<float> partials;
    std::vector<unsigned> tickets, counters;
};

// A wait schedule of one step a tile (and split): row y of the only producer. A warp has one lane here.
struct Schedule {
    std::vector<cusync::WaitStep> steps;
    std::vector<int> first;
    Schedule(int columns, int slices) {
        for (int tile = 0; tile < columns * sequences * slices; ++tile) {
            first.push_back(static_cast<int>(steps.size()));
            for (const cusync::WaitStep step : {cusync::WaitStep{0, 0, 0, tile / slices / columns}, {INT_MAX, -1, 0, 0}}) {
                steps.push_back(step);
                steps.resize(steps.size() + 31, cusync::WaitStep{INT_MAX, -1, 0, 0});
            }
        }
    }
};

template <class Generated>
cusync::StageParams<Generated> params_of(host::Runs& runs, Data& data, int stage, const Schedule* schedule) {
    cusync::StageParams<Generated> params{};
    params.sync = {data.counters.data(), &runs.errors, nullptr, host::limit_ns, schedule ? schedule->steps.data() : nullptr,
                   schedule ? schedule->first.data() : nullptr, stage, 3, static_cast<int>(data.counters.size()),
                   2 * row_blocks + Second{}.blocks(), {}};
    return params;
}

// What a row kernel does: each warp copies its half of the row, or poisons it.
template <class Generated>
void copy_rows(const cusync::StageParams<Generated>& sync, const Elements& from, Elements& to, int columns) {
    const RowTiles tiles{sequences, sequences, 1, 1, 0};
    for_each_tile(sync, tiles, [&](const cusync::Tile& tile, bool is_there) {
        const RowRange rows(tiles, tile.y);
        const int half = columns / host::warps, begin = rows.first * columns + static_cast<int>(threadIdx.x) / 32 * half;
        for (int i = begin; i < begin + half; ++i) to[i] = is_there ? from[i] : 0xffff;
    });
}

DecodeParams decode_params(Data& data) {
    DecodeParams p{};
    const auto rows_at = [&](Elements& of, int column, int row) { return Operand{of.data() + column, row, row}; };
    p.q = rows_at(data.packed_rows, 0, packed), p.out = rows_at(data.out_rows, 0, out);
    p.k_new = rows_at(data.packed_rows, out, packed), p.v_new = rows_at(data.packed_rows, out + cached, packed);
    p.k = {data.k.data(), cached, keys * cached}, p.v = {data.v.data(), cached, keys * cached};
    p.partials = data.partials.data(), p.tickets = data.tickets.data();
    p.length = keys, p.tile_n = 16, p.group = group, p.scale = 1.0f;
    return p;
}

int main(int count, char** words) {
    if (count < 3) return 2;
    host::Runs runs(words);
    Data data{Elements(sequences * packed), Elements(sequences * keys * cached, 1), Elements(sequences * keys * cached, 1),
              Elements(sequences * out),    Elements(sequences * out),              {},
              std::vector<float>(Second{}.blocks() * group * Config::row_floats),
              std::vector<unsigned>(kv_heads * sequences),
              std::vector<unsigned>((pipeline::counter_count + 1 + 3) / 4 * 4)};
    const Elements given(sequences * packed, 1);
    const Schedule of_second(kv_heads, Second::slices), of_third(1, 1);
    const auto first = params_of<First>(runs, data, 0, nullptr);
    const auto second = params_of<Second>(runs, data, 1, &of_second);
    const auto third = params_of<Third>(runs, data, 2, &of_third);
    const DecodeParams p = decode_params(data);
    const auto block = [&](int index) {
        if (index < row_blocks) {
            copy_rows(first, given, data.packed_rows, packed);
        } else if (index < row_blocks + Second{}.blocks()) {
            decode<Config>(second, p);
        } else {
            copy_rows(third, data.out_rows, data.copied, out);
        }
    };
    // Counters and tickets are zero again, what was copied is what was made, and it is the same in every run.
    const auto look = [&] {
        if (runs.errors.aborted == 0) {
            if (data.seen.empty()) data.seen = data.out_rows;
            runs.wrong += data.copied != data.out_rows || data.out_rows[0] == 0;
            for (int row = 0; row < sequences; ++row) runs.wrong += data.out_rows[row * out] != data.seen[0];
            runs.wrong += data.counters.size() - std::count(data.counters.begin(), data.counters.end(), 0u);
            runs.wrong += data.tickets.size() - std::count(data.tickets.begin(), data.tickets.end(), 0u);
        }
        for (Elements* all : {&data.packed_rows, &data.out_rows, &data.copied}) std::fill(all->begin(), all->end(), 0);
    };
    runs.run(2 * row_blocks + Second{}.blocks(), block, look);
    return runs.end();
}
