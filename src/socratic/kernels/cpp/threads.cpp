// Threads: those that torch's own steps run in, where they can be had.
//
// Threads of OpenMP stay busy for a while when their work is done, waiting for more. Others would have to share the
// cores with them.
#include "threads.h"

#include <pthread.h>

#include "lanes.h"

namespace {

// GOMP_parallel, with which OpenMP runs a function in a number of threads.
using Parallel = void (*)(void (*)(void *), void *, unsigned, unsigned);
std::atomic<Parallel> parallel{nullptr};

constexpr size_t MOST_THREADS = 256;

struct Call {
    void (*work)(void *);
    void *data;
};

void *in_thread(void *data)
{
    const Call &call = *static_cast<Call *>(data);
    call.work(call.data);
    return nullptr;
}

}  // namespace

// Take the threads of an OpenMP runtime from now on, given its GOMP_parallel.
EXPORT void take_threads_of(void *function)
{
    if (parallel.exchange(reinterpret_cast<Parallel>(function)) == nullptr)
        // A process that is forked has the memory of these threads, not the threads.
        pthread_atfork(nullptr, nullptr, [] { parallel = nullptr; });
}

void in_threads(size_t n_threads, void (*work)(void *), void *data)
{
    if (const Parallel run = parallel) {
        run(work, data, static_cast<unsigned>(n_threads), 0);
        return;
    }
    pthread_t others[MOST_THREADS];
    Call call{work, data};
    size_t n_others = 0;
    while (n_others + 1 < smaller(n_threads, MOST_THREADS) &&
           pthread_create(&others[n_others], nullptr, in_thread, &call) == 0)
        n_others++;
    work(data);
    for (size_t other = 0; other < n_others; other++)
        pthread_join(others[other], nullptr);
}
