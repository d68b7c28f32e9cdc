// What a kernel in CUDA C++ needs to be compiled for a processor: a block is as many threads, one block after the other.

#include <algorithm>
#include <cmath>
#include <barrier>
#include <cstddef>
#include <thread>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __shared__
#define __launch_bounds__(...)
#define __syncthreads() wait_for_all->arrive_and_wait()

using std::max;
using std::min;

struct alignas(16) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

struct Place {
    int x, y, z;
};
thread_local Place threadIdx, blockIdx;
static std::barrier<> *wait_for_all;
extern "C" {
alignas(16) float4 shared_memory[1 << 14];
}

// Copies that were begun, to be carried out as late as may be.
thread_local std::vector<std::function<void()>> copies;

template <int N> void copy_later(float *to, const float *from)
{
    struct alignas(4 * N) Numbers {
        float number[N];
    };
    copies.push_back([=] { *reinterpret_cast<Numbers *>(to) = *reinterpret_cast<const Numbers *>(from); });
}

inline void copy_now()
{
    for (const auto &copy : copies)
        copy();
    copies.clear();
}

// Run a kernel for all blocks of a grid.
template <typename Kernel> void run_on_cpu(int columns, int lines, int layers, int n_threads, const Kernel &kernel)
{
    for (int number = 0; number < columns * lines * layers; number++) {
        const Place block = {number % columns, number / columns % lines, number / columns / lines};
        // Of a block before, or whatever else is in a GPU's memory: nothing may be taken for 0.
        std::fill_n(reinterpret_cast<float *>(shared_memory), 4 << 14, __builtin_nanf(""));
        std::barrier<> barrier(n_threads);
        wait_for_all = &barrier;
        std::vector<std::thread> threads;
        for (int place = 0; place < n_threads; place++)
            threads.emplace_back([&, place] {
                threadIdx = {place, 0, 0};
                blockIdx = block;
                kernel();
            });
        for (auto &thread : threads)
            thread.join();
    }
}
