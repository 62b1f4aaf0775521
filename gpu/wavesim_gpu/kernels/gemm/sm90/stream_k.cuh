// The producer warp under Stream-K: the block's parts of tiles, one after the other.
#pragma once

#include <kernels/gemm/sm90/producer.cuh>
#include <kernels/gemm/sm90/stream_k_parts.cuh>

template <class S, class Part>
__device__ __forceinline__ void ProducerWarp<S, Part>::run_stream_k() {
    static_assert(!S::is_stream_k || !has_input, "Stream-K runs under stream sync");
    const int tiles = stage_.positions(), blocks = gridDim.x;
    const int most = static_cast<int>(stream_k::most_shares(stream_k::split_tiles(tiles, blocks), blocks));
    stream_k::for_each_part(tiles, k_block_count(), blockIdx.x, blocks, [&](const stream_k::TilePart& part) {
        const int ticket = part.split < 0 ? 0 : part.split;
        load({stage_.tile_at(part.position), part.first, part.last, part.index, part.count, ticket, ticket * most, 0, 1,
              sync_.sync.stage},
             no_work);
    });
}
