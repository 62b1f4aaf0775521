// A math warpgroup: multiplies and adds the chunks of the ring, sums up slices, hands the outputs over.
#pragma once

#include <kernels/sm90/slices.cuh>
#include <kernels/sm90/wgmma.cuh>

template <class S, bool IS_BF16>
class MathGroup {
public:
    __device__ __forceinline__ MathGroup(const Shared<S>& shared, int group) : shared_(shared), group_(group) {
        a_ = wgmma::describe(shared.ring + group * S::frags_m * S::panel_bytes, 16, 1024);
        b_ = wgmma::describe(shared.ring + S::a_bytes, S::panel_bytes, 1024);
    }

    template <class... Parts>
    __device__ __forceinline__ void run(const Parts&... parts) {
        for_each_tile<S>(shared_, [&](TileNote& note, int) {
            accumulate(note.first, note.last);
            with_part(note, [&](const auto& part) { finish(part, note); }, parts...);
        });
    }

private:
    // sum_ = the product over these chunks. One batch of multiply-adds stays in flight.
    __device__ __forceinline__ void accumulate(int first, int last) {
        for (int chunk = first; chunk < last; ++chunk) {
            mbarrier::wait(shared_.full(place_.slot), place_.parity);
            const wgmma::Descriptor slot = place_.slot * (S::stage_bytes / 16);
            wgmma::begin();
            each<S::tile_k / 16>([&](auto step) {
                constexpr int s = step.value;
                each<S::frags_m>([&](auto fragment) {
                    wgmma::multiply_add<IS_BF16>(sum_[fragment.value],
                                                 a_ + slot + (fragment.value * S::panel_bytes + s * 32) / 16,
                                                 b_ + slot + s * 16 * 128 / 16, s > 0 || chunk > first);
                });
            });
            wgmma::commit();
            if (chunk > first) {
                wgmma::wait<1>();
                release(previous_);
            }
            previous_ = place_.slot;
            place_.advance();
        }
        wgmma::wait<0>();
        release(previous_);
    }

    // This warp no longer needs the slot: told to every block whose loads go there.
    __device__ __forceinline__ void release(int slot) const {
        const unsigned lane = threadIdx.x & 31;
        if constexpr (S::cluster == 1) {
            if (lane == 0) mbarrier::arrive(shared_.empty(slot));
        } else {
            if (lane < S::cluster) mbarrier::arrive_remote(shared_.empty(slot), lane);
        }
    }

    // In epilogue.cuh: what becomes of the sums.
    template <class Part>
    __device__ __forceinline__ void finish(const Part& part, TileNote& note);
    __device__ __forceinline__ void hand_over_nothing();
    template <Activation ACTIVATION>
    __device__ __forceinline__ void stage(const float (&sum)[S::tile_n / 2], int piece);
    __device__ __forceinline__ void stage_products(const float (&sum)[S::tile_n / 2], int piece, unsigned row, int lane);
    template <Activation ACTIVATION>
    static __device__ __forceinline__ float activated(float x);
    static __device__ __forceinline__ float swiglu(float gate, float value);
    static __device__ __forceinline__ void store_matrices(unsigned to, const unsigned (&r)[4]);
    __device__ __forceinline__ void hand_over();

    const Shared<S>& shared_;
    const int group_;
    wgmma::Descriptor a_, b_;  // of the ring's first slot
    Sums<S> sum_;
    mbarrier::Place<S::stages> place_;
    mbarrier::Place<S::staged> staged_;
    int previous_ = 0;
};
