// Where an operand of attention is: rows of heads, as a matrix of its own, packed beside others, or in a cache.
#pragma once

struct Operand {
    unsigned short* data;      // its first head
    long long row, sequence;   // elements from row to row, and from one sequence's first row to the next's

    __device__ __forceinline__ unsigned short* at(int sequence_index, long long row_index, int column) const {
        return data + sequence_index * sequence + row_index * row + column;
    }
};
static_assert(sizeof(Operand) == 24, "operands.py packs 24 bytes");
