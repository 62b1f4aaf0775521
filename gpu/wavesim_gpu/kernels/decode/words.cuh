// What one stage hands to the next: words of eight bytes, two bf16 and a tag, stored and loaded whole. A word whose tag is
// this layer's and this step's is the value itself, so that no flag and no fence stand between a result and its reader:
// nothing else is read on the strength of a word. Words of earlier layers have other tags; nobody clears them.
#pragma once

#include <kernels/decode/waiting.cuh>

typedef unsigned long long Word;

__device__ __forceinline__ Word tagged(unsigned payload, unsigned tag) {
    return static_cast<Word>(tag) << 32 | payload;
}
__device__ __forceinline__ unsigned payload_of(Word word) { return static_cast<unsigned>(word); }
__device__ __forceinline__ unsigned tag_of(Word word) { return static_cast<unsigned>(word >> 32); }

// Relaxed, at the scope of the GPU: the word is all that is handed over.
__device__ __forceinline__ void store_word(Word* to, unsigned payload, unsigned tag) {
    asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(to), "l"(tagged(payload, tag)) : "memory");
}
__device__ __forceinline__ Word load_word(const Word* from) {
    Word word;
    asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(word) : "l"(from) : "memory");
    return word;
}

// Two words side by side; each is read whole, the pair is not.
struct WordPair {
    Word first = 0, second = 0;

    __device__ __forceinline__ void load(const Word* from) {
        asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(first), "=l"(second) : "l"(from) : "memory");
    }
};

__device__ __forceinline__ bool is_there(unsigned seen, unsigned tag) {
    return cusync::mutant == cusync::Mutant::no_wait || seen == tag;
}

// Who waits for words: with which tag, and whether this thread has given up.
struct Reader {
    unsigned tag = 0;
    bool is_late = false;

    __device__ __forceinline__ bool has(Word word) const { return is_there(tag_of(word), tag); }
    __device__ __forceinline__ bool has(const WordPair& pair) const { return has(pair.first) && has(pair.second); }

    // Until the word is there or the step is given up.
    __device__ __forceinline__ Word await_word(const Word* from) {
        come_late();
        Word word = load_word(from);
        Patience patience;
        while (!is_late && !has(word)) {
            const int index = static_cast<int>((from - watch().words) % shape::words_of_replica);
            is_late = patience.has_ended(waits_for_words, index, tag_of(word), tag);
            word = load_word(from);
        }
        return word;
    }

    // For whole warps. `load` asks for the words that are not there yet, `missing` returns where one of them is, or null. While
    // some are missing one lane alone looks at one word: hundreds of threads that ask again and again on every SM would take
    // the L2 from those who still stream weights. With `polls_all`, for small models, each lane looks at a word of its own.
    template <class Load, class Missing>
    __device__ __forceinline__ void await(const Load& load, const Missing& missing) {
        come_late();
        for (;;) {
            load();
            const Word* from = is_late ? nullptr : missing();
            const unsigned waiting = __ballot_sync(~0u, from != nullptr);
            if (waiting == 0) return;
            if (shape::polls_all ? from != nullptr : threadIdx.x % 32 == __ffs(waiting) - 1) await_word(from);
            is_late = __any_sync(~0u, is_late);
        }
    }
};

__device__ __forceinline__ float minus_infinity() { return __uint_as_float(0xff800000u); }
__device__ __forceinline__ float low_of(unsigned pair) { return __uint_as_float(pair << 16); }
__device__ __forceinline__ float high_of(unsigned pair) { return __uint_as_float(pair & 0xffff0000u); }

// Two floats as bf16, rounded to nearest even; the first is the lower half.
__device__ __forceinline__ unsigned packed(float low, float high) {
    unsigned pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
__device__ __forceinline__ float rounded(float value) { return low_of(packed(value, 0.f)); }
