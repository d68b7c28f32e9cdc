// Work that comes in tasks, shared among threads.
#pragma once

#include <atomic>
#include <cstddef>

// Call work(data) in so many threads at the most, one of which is this one; returns when all of them have.
void in_threads(size_t n_threads, void (*work)(void *), void *data);

// Call work(first, last) so that every task is in one of the calls; 0, or what a call that failed returned.
template <typename Work> int share(size_t n_tasks, size_t n_threads, const Work &work)
{
    if (n_threads <= 1)
        return work(size_t{0}, n_tasks);
    struct Shared {
        const Work &work;
        const size_t n_tasks, n_parts;
        std::atomic<size_t> next;
        std::atomic<int> failed;
    } shared{work, n_tasks, n_threads, {0}, {0}};
    // Threads take parts until none is left: nothing is left undone where fewer threads come than were asked for.
    in_threads(
        n_threads,
        [](void *data) {
            Shared &shared = *static_cast<Shared *>(data);
            for (size_t part = shared.next++; part < shared.n_parts; part = shared.next++) {
                const size_t first = shared.n_tasks * part / shared.n_parts;
                const int failed = shared.work(first, shared.n_tasks * (part + 1) / shared.n_parts);
                if (failed != 0)
                    shared.failed = failed;
            }
        },
        &shared);
    return shared.failed;
}
