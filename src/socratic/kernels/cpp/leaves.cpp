// Leaves: natural parameters times statistics of rows, which are picked or computed as they are multiplied.
#include "lanes.h"
#include "matrices.h"
#include "threads.h"

namespace {

constexpr size_t MOST_PLACES = 60;  // variables of a fold whose statistics wait to be multiplied

// The T statistics of the D variables of each fold, and what they are multiplied with.
//
// read(entry, block, to) writes the statistics of a variable to every MOST_PLACES-th vector, and says which of its values
// are missing.
struct Leaves {
    const int64_t *picked;  // (F, D), where the variables of a fold are
    size_t n_nodes, n_picked, n_statistics, n_rows;

    // Log-densities (F, I, N) of some tasks: natural parameters (F, D, T, I) times the statistics. If no value is missing,
    // the first statistic of all may be known to be 1.
    template <bool first_is_one, typename Read>
    int multiply(const float *natural, float *out, size_t first, size_t last, Read read) const
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

    // Gradients (F, I, D * T) by the natural parameters of some folds, from those by the log-densities (F, I, N).
    template <typename Read>
    int add_gradients(const float *gradients, float *out, size_t first, size_t last, Read read) const
    {
        const size_t n_columns = n_picked * n_statistics, width = padded(n_columns);
        const Vectors room(MOST_PLACES * n_statistics), lines((CHUNK_ROWS + n_nodes) * width / LANES + 1);
        if (room.missing() || lines.missing())
            return -1;
        float *statistics = reinterpret_cast<float *>(lines.start()), *sums = statistics + CHUNK_ROWS * width;
        for (size_t fold = first; fold < last; fold++) {
            memset(sums, 0, n_nodes * width * sizeof *sums);
            for (size_t row = 0; row < n_rows; row += CHUNK_ROWS) {
                const size_t rows = smaller(CHUNK_ROWS, n_rows - row);
                for (size_t start = 0; start < rows; start += LANES) {
                    const Block block(row + start, smaller(LANES, rows - start));
                    write_lines(picked + fold * n_picked, block, room.start(), statistics + start * width, width, read);
                }
                const float *of_rows = gradients + fold * n_nodes * n_rows + row;
                add_rows(sums, width, n_nodes, of_rows, n_rows, statistics, n_columns, rows);
            }
            for (size_t node = 0; node < n_nodes; node++)
                transpose(
                    sums + node * width, n_picked, n_statistics, n_picked, out + (fold * n_nodes + node) * n_columns,
                    n_statistics);
        }
        return 0;
    }

  private:
    // The statistics of a block, those of a row side by side: the first of all variables, then the second.
    template <typename Read>
    void write_lines(const int64_t *entries, Block block, vec *room, float *to, size_t width, Read read) const
    {
        for (size_t start = 0; start < n_picked; start += MOST_PLACES) {
            const size_t n_places = smaller(MOST_PLACES, n_picked - start);
            for (size_t place = 0; place < n_places; place++)
                read(static_cast<size_t>(entries[start + place]), block, room + place);
            for (size_t t = 0; t < n_statistics; t++) {
                const float *from = reinterpret_cast<const float *>(room + t * MOST_PLACES);
                transpose(from, LANES, n_places, block.n_rows, to + t * n_picked + start, width);
            }
        }
    }

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

// Statistics are powers 1, z, z^2, ... of deviations from the centres (U,), of those of the values (U, N) that are
// picked. Missing values, which are not numbers, have none.
struct Powers {
    const float *values, *centre;
    float limit;
    size_t n_statistics, n_rows;

    ivec operator()(size_t entry, Block block, vec *to) const
    {
        const vec value = load(values + entry * n_rows + block.row, block.n_rows, 0.0f);
        const vec deviation = at_least(at_most(value - centre[entry], limit), -limit);
        const ivec missing = value != value;
        const vec z = missing ? vec{} : deviation;
        vec power = missing ? vec{} : all(1.0f);
        for (size_t t = 0; t < n_statistics; t++, power *= z)
            to[t * MOST_PLACES] = power;
        return missing;
    }
};

// Statistics are those of a table (U, T, N).
struct Table {
    const float *table;
    size_t n_statistics, n_rows;

    ivec operator()(size_t entry, Block block, vec *to) const
    {
        for (size_t t = 0; t < n_statistics; t++)
            to[t * MOST_PLACES] = load(table + (entry * n_statistics + t) * n_rows + block.row, block.n_rows, 0.0f);
        return ivec{};
    }
};

}  // namespace

// Log-densities (F, I, N): natural parameters (F, D, T, I) times powers.
EXPORT int power_product(
    const float *values, const float *centre, const int64_t *picked, float limit, const float *natural, float *out,
    size_t n_nodes, size_t n_picked, size_t n_statistics, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Powers powers{values, centre, limit, n_statistics, n_rows};
        const Leaves leaves{picked, n_nodes, n_picked, n_statistics, n_rows};
        return leaves.multiply<true>(natural, out, first, last, powers);
    });
}

// Gradients (F, I, D * T) by the natural parameters, from those by the log-densities; a fold is a task.
EXPORT int power_gradient(
    const float *values, const float *centre, const int64_t *picked, float limit, const float *gradients, float *out,
    size_t n_nodes, size_t n_picked, size_t n_statistics, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Powers powers{values, centre, limit, n_statistics, n_rows};
        const Leaves leaves{picked, n_nodes, n_picked, n_statistics, n_rows};
        return leaves.add_gradients(gradients, out, first, last, powers);
    });
}

// Log-densities (F, I, N): natural parameters (F, D, T, I) times statistics of a table (U, T, N).
EXPORT int picked_product(
    const float *table, const int64_t *picked, const float *natural, float *out, size_t n_nodes, size_t n_picked,
    size_t n_statistics, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Table statistics{table, n_statistics, n_rows};
        const Leaves leaves{picked, n_nodes, n_picked, n_statistics, n_rows};
        return leaves.multiply<false>(natural, out, first, last, statistics);
    });
}

// Gradients like those of powers.
EXPORT int picked_gradient(
    const float *table, const int64_t *picked, const float *gradients, float *out, size_t n_nodes, size_t n_picked,
    size_t n_statistics, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Table statistics{table, n_statistics, n_rows};
        const Leaves leaves{picked, n_nodes, n_picked, n_statistics, n_rows};
        return leaves.add_gradients(gradients, out, first, last, statistics);
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
