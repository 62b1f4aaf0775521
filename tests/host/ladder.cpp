// The ladders on the host, at ragged sizes, against double precision: a line with kernel, size and relative error each.
// Arguments: what is dropped, "syncthreads" or "syncwarp", if anything; and the only family to run, if one.

#include "lanes_on_host.h"

#include <cmath>
#include <random>
#include <string>

namespace reduction {
#include "reduce.cu"
}
namespace convolution {
#include "convolution.cu"
}
namespace product {
#include "matmul.cu"
}

using Floats = std::vector<float>;

static Floats random_floats(size_t count) {
    static std::mt19937 chance(7);
    std::uniform_real_distribution<float> draw(0, 1);
    Floats found(count);
    for (float& one : found) one = draw(chance);
    return found;
}

static void report(const char* name, unsigned size, const Floats& found, const std::vector<double>& expected) {
    double difference = 0, norm = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        difference += (found[i] - expected[i]) * (found[i] - expected[i]);
        norm += expected[i] * expected[i];
    }
    std::printf("%s %u %g\n", name, size, std::sqrt(difference / norm));
}

static void reduce(unsigned n) {
    using Kernel = void (*)(const float*, float*, unsigned);
    const std::pair<Kernel, unsigned> steps[] = {{reduction::reduce_v0, 256}, {reduction::reduce_v1, 256},
                                                 {reduction::reduce_v2, 256}, {reduction::reduce_v3, 512},
                                                 {reduction::reduce_v4, 512}, {reduction::reduce_v5, 0}};
    struct alignas(16) Vector {
        float of[4];
    };
    const Floats values = random_floats(n);
    std::vector<Vector> aligned(n / 4 + 1);
    std::memcpy(aligned.data(), values.data(), 4 * n);
    double expected = 0;
    for (float one : values) expected += one;
    for (int i = 0; i < 6; ++i) {
        const auto [kernel, covers] = steps[i];
        const unsigned blocks = covers ? (n + covers - 1) / covers : 2;
        Floats sums(blocks, NAN);
        host::launch({blocks, 1, 1}, {256, 1, 1}, [&, kernel = kernel] { kernel(aligned[0].of, sums.data(), n); });
        double sum = 0;
        for (float one : sums) sum += one;
        report(("reduce_v" + std::to_string(i)).c_str(), n, {static_cast<float>(sum)}, {expected});
    }
}

static void convolve(unsigned n) {
    const Floats in = random_floats(n), taps = random_floats(9);
    convolution::Weights weights;
    std::memcpy(weights.of, taps.data(), sizeof weights);
    std::vector<double> expected(n);
    for (int i = 0; i < static_cast<int>(n); ++i)
        for (int k = 0; k < 9; ++k)
            if (0 <= i + k - 4 && i + k - 4 < static_cast<int>(n)) expected[i] += double(taps[k]) * in[i + k - 4];
    const auto check = [&](const char* name, auto kernel, auto last) {
        Floats out(n, NAN);
        host::launch({(n + 255) / 256, 1, 1}, {256, 1, 1}, [&] { kernel(in.data(), out.data(), n, last); });
        report(name, n, out, expected);
    };
    check("convolve_naive", convolution::convolve_naive, taps.data());
    check("convolve_constant", convolution::convolve_constant, weights);
    check("convolve_tiled", convolution::convolve_tiled, weights);
}

static void multiply(unsigned n) {
    const Floats a = random_floats(n * n), b = random_floats(n * n);
    std::vector<double> expected(n * n);
    for (unsigned y = 0; y < n; ++y)
        for (unsigned k = 0; k < n; ++k)
            for (unsigned x = 0; x < n; ++x) expected[y * n + x] += double(a[y * n + k]) * b[k * n + x];
    const auto check = [&](const char* name, auto kernel, unsigned covers, unsigned edge) {
        Floats out(n * n, NAN);
        const unsigned blocks = (n + covers - 1) / covers;
        host::launch({blocks, blocks, 1}, {edge, edge, 1}, [&] { kernel(a.data(), b.data(), out.data(), n); });
        report(name, n, out, expected);
    };
    check("matmul_naive", product::matmul_naive, 16, 16);
    check("matmul_tiled_16", product::matmul_tiled_16, 16, 16);
    check("matmul_tiled_32", product::matmul_tiled_32, 32, 32);
    check("matmul_register", product::matmul_register, 64, 16);
}

int main(int count, char** words) {
    const std::string dropped = count > 1 ? words[1] : "", only = count > 2 ? words[2] : "";
    host::drops_syncthreads = dropped == "syncthreads";
    host::drops_syncwarp = dropped == "syncwarp";
    if (only.empty() || only == "reduce") reduce(603);
    if (only.empty() || only == "convolve") convolve(300);
    if (only.empty() || only == "multiply") multiply(37);
    return 0;
}
