// Leaves: natural parameters times statistics of rows, which are picked or computed as they are multiplied.
#include "lanes.h"
#include "threads.h"

namespace {

constexpr size_t MOST_PLACES = 60;  // variables of a fold whose statistics wait to be multiplied

INLINE bool any_lane(ivec mask)
{
    int32_t lanes[LANES], found = 0;
    memcpy(lanes, &mask, sizeof lanes);
    for (size_t lane = 0; lane < LANES; lane++)
        found |= lanes[lane];
    return found != 0;
}

// Log-densities (F, I, N): natural parameters (F, D, T, I) times the T statistics of the D variables of each fold.
struct Leaves {
    const float *natural;
    const int64_t *picked;  // (F, D), where the variables of a fold are
    float *out;
    size_t n_nodes, n_picked, n_statistics, n_rows;

    // Compute the rows of some tasks. read(entry, block, to) writes the statistics of a variable to every MOST_PLACES-th
    // vector, and says which of its values are missing: if none is, its first statistic is 1.
    template <bool first_is_one, typename Read> int compute(size_t first, size_t last, Read read) const
    {
        const Vectors room(n_nodes + n_nodes / LANES + 1 + MOST_PLACES * n_statistics);
        if (room.missing())
            return -1;
        vec *sums = room.start(), *statistics = sums + n_nodes;
        float *totals = reinterpret_cast<float *>(statistics + MOST_PLACES * n_statistics);
        const size_t step = n_statistics * n_nodes;
        for (size_t number = first; number < last; number++) {
            const Task task(number, n_rows);
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Block block(task, number);
                clear(sums, n_nodes);
                for (size_t start = 0; start < n_picked; start += MOST_PLACES) {
                    const size_t n_places = smaller(MOST_PLACES, n_picked - start);
                    const int64_t *entries = picked + task.fold * n_picked + start;
                    const float *factors = natural + (task.fold * n_picked + start) * step;
                    ivec missing = ivec{};
                    for (size_t place = 0; place < n_places; place++)
                        missing |= read(static_cast<size_t>(entries[place]), block, statistics + place);
                    const bool complete = first_is_one && !any_lane(missing);
                    if (complete)
                        add_constants(sums, factors, n_places, totals);
                    for (size_t t = complete ? 1 : 0; t < n_statistics; t++)
                        add_products(
                            n_nodes, sums, factors + t * n_nodes, step, statistics + t * MOST_PLACES, n_places);
                }
                float *to = out + task.fold * n_nodes * n_rows + block.row;
                for (size_t node = 0; node < n_nodes; node++)
                    store(to + node * n_rows, sums[node], block.n_rows);
            }
        }
        return 0;
    }

  private:
    // The first statistic, where it is 1 for all rows.
    void add_constants(vec *sums, const float *factors, size_t n_places, float *totals) const
    {
        memset(totals, 0, n_nodes * sizeof *totals);
        for (size_t place = 0; place < n_places; place++, factors += n_statistics * n_nodes)
            for (size_t node = 0; node < n_nodes; node++)
                totals[node] += factors[node];
        for (size_t node = 0; node < n_nodes; node++)
            sums[node] += totals[node];
    }
};

}  // namespace

// Statistics are powers 1, z, z^2, ... of deviations from the centres (U,), of those of the values (U, N) that are
// picked. Missing values, which are not numbers, have none.
EXPORT int power_product(
    const float *natural, const float *values, const float *centre, const int64_t *picked, float limit, float *out,
    size_t n_nodes, size_t n_picked, size_t n_statistics, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Leaves leaves{natural, picked, out, n_nodes, n_picked, n_statistics, n_rows};
        return leaves.compute<true>(first, last, [&](size_t entry, Block block, vec *to) {
            const vec value = load(values + entry * n_rows + block.row, block.n_rows, 0.0f);
            const vec deviation = at_least(at_most(value - centre[entry], limit), -limit);
            const ivec missing = value != value;
            const vec z = missing ? vec{} : deviation;
            vec power = missing ? vec{} : all(1.0f);
            for (size_t t = 0; t < n_statistics; t++, power *= z)
                to[t * MOST_PLACES] = power;
            return missing;
        });
    });
}

// Statistics are those of a table (U, T, N).
EXPORT int picked_product(
    const float *natural, const float *table, const int64_t *picked, float *out, size_t n_nodes, size_t n_picked,
    size_t n_statistics, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Leaves leaves{natural, picked, out, n_nodes, n_picked, n_statistics, n_rows};
        return leaves.compute<false>(first, last, [&](size_t entry, Block block, vec *to) {
            for (size_t t = 0; t < n_statistics; t++)
                to[t * MOST_PLACES] = load(table + (entry * n_statistics + t) * n_rows + block.row, block.n_rows, 0.0f);
            return ivec{};
        });
    });
}

// Natural parameters (P, 3, I) of Gaussian leaves with means and variances (P, I), for powers of deviations from the
// centres (P,); a line is a task.
EXPORT int gaussian_natural(
    const float *mean, const float *variance, const float *centre, float *out, size_t n_nodes, size_t n_tasks,
    size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        constexpr float two_pi = 6.28318531f;
        for (size_t line = first; line < last; line++)
            for (size_t i = 0; i < n_nodes; i += LANES) {
                const size_t n = smaller(LANES, n_nodes - i);
                const vec spread = load(variance + line * n_nodes + i, n, 1.0f);
                const vec deviation = load(mean + line * n_nodes + i, n, 0.0f) - centre[line];
                const vec precision = 1.0f / spread, linear = deviation * precision;
                float *to = out + 3 * line * n_nodes + i;
                store(to, -0.5f * (deviation * linear + logarithm(two_pi * spread)), n);
                store(to + n_nodes, linear, n);
                store(to + 2 * n_nodes, -0.5f * precision, n);
            }
        return 0;
    });
}
