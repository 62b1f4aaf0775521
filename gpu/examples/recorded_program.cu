// The recorded pair in plain CUDA, no Python:
//     nvcc -std=c++17 -I gpu/wavesim_gpu/record -o recorded gpu/examples/recorded_program.cu
// Runs both kernels and writes the recording's bytes to the file that is named, for records_of() to read.

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "recorded_pair.cu"

static void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(status));
    std::exit(1);
}

int main(int argc, char** argv) {
    if (argc != 2) return std::fprintf(stderr, "usage: %s RECORDING\n", argv[0]), 2;
    constexpr int m = 512, n = 768, k = 1024;
    constexpr unsigned tiles = (n / TILE) * (m / TILE) + m / TILE;
    const std::vector<float> a(m * k, 0.5f), b(k * n, 0.25f);
    float *a_gpu, *b_gpu, *c_gpu, *out_gpu;
    check(cudaMalloc(&a_gpu, a.size() * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&b_gpu, b.size() * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&c_gpu, m * n * sizeof(float)), "cudaMalloc");
    check(cudaMalloc(&out_gpu, m * n * sizeof(float)), "cudaMalloc");
    check(cudaMemcpy(a_gpu, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemcpy(b_gpu, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");

    // The recorder's whole host side: room, the header before the run, the bytes after it.
    const size_t bytes = wavesim::recording_bytes(tiles);
    const wavesim::RecordingHeader header = wavesim::recording_header(tiles);
    void* recording;
    check(cudaMalloc(&recording, bytes), "cudaMalloc");
    check(cudaMemcpy(recording, &header, sizeof header, cudaMemcpyHostToDevice), "cudaMemcpy");

    matmul<<<dim3(n / TILE, m / TILE), dim3(TILE, TILE)>>>(a_gpu, b_gpu, c_gpu, n, k, recording);
    normalise_rows<<<dim3(1, m / TILE), dim3(TILE, TILE)>>>(c_gpu, out_gpu, n, recording);
    check(cudaGetLastError(), "launch");

    std::vector<char> copied(bytes);
    check(cudaMemcpy(copied.data(), recording, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    std::FILE* file = std::fopen(argv[1], "wb");
    if (file == nullptr || std::fwrite(copied.data(), 1, bytes, file) != bytes || std::fclose(file) != 0) {
        return std::fprintf(stderr, "%s: cannot be written\n", argv[1]), 1;
    }
    std::printf("%u tiles recorded\n", tiles);
    return 0;
}
