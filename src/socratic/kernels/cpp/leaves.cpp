// Leaves: natural parameters times statistics of rows, which are picked or computed as they are multiplied.
#include "lanes.h"

namespace {

constexpr size_t MOST_WAITING = 192;  // statistics, until they are multiplied

// Log-densities (F, I, N): natural parameters (F, D, T, I) times the T statistics of the D variables of each fold.
class Product {
  public:
    Product(const float *natural, float *out, size_t n_nodes, size_t n_statistics, size_t n_rows)
        : natural(natural), out(out), n_nodes(n_nodes), n_statistics(n_statistics), n_rows(n_rows),
          room(n_nodes + MOST_WAITING)
    {
    }

    bool missing() const { return room.missing(); }

    // Compute the rows of some tasks. add_statistics(entry, block, wait) calls wait(x) with the statistics of a variable.
    template <typename AddStatistics>
    void compute(const int64_t *picked, size_t n_picked, size_t first, size_t last, AddStatistics add_statistics)
    {
        vec *sums = room.start(), *waiting = sums + n_nodes;
        for (size_t number = first; number < last; number++) {
            const Task task(number, n_rows);
            const int64_t *entries = picked + task.fold * n_picked;
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Block block(task, number);
                const float *next = natural + task.fold * n_picked * n_statistics * n_nodes;
                size_t n_waiting = 0;
                clear(sums, n_nodes);
                const auto multiply = [&]() {
                    add_products(n_nodes, sums, next, n_nodes, waiting, n_waiting);
                    next += n_waiting * n_nodes;
                    n_waiting = 0;
                };
                const auto wait = [&](vec statistic) {
                    waiting[n_waiting++] = statistic;
                    if (n_waiting == MOST_WAITING)
                        multiply();
                };
                for (size_t place = 0; place < n_picked; place++)
                    add_statistics(static_cast<size_t>(entries[place]), block, wait);
                multiply();
                float *to = out + task.fold * n_nodes * n_rows + block.row;
                for (size_t node = 0; node < n_nodes; node++)
                    store(to + node * n_rows, sums[node], block.n_rows);
            }
        }
    }

  private:
    const float *natural;
    float *out;
    const size_t n_nodes, n_statistics, n_rows;
    const Vectors room;
};

}  // namespace

// Statistics are powers 1, z, z^2, ... of deviations from the centres (U,), of those of the values (U, N) that are
// picked (F, D). Missing values, which are not numbers, have none.
EXPORT int power_product(
    const float *natural, const float *values, const float *centre, const int64_t *picked, float limit, float *out,
    size_t n_nodes, size_t n_picked, size_t n_statistics, size_t n_rows, size_t first, size_t last)
{
    Product product(natural, out, n_nodes, n_statistics, n_rows);
    if (product.missing())
        return -1;
    product.compute(picked, n_picked, first, last, [&](size_t entry, Block block, auto wait) {
        const vec value = load(values + entry * n_rows + block.row, block.n_rows, 0.0f);
        const vec deviation = at_least(at_most(value - centre[entry], limit), -limit);
        const ivec known = value == value;
        const vec z = known ? deviation : vec{};
        vec power = known ? all(1.0f) : vec{};
        for (size_t t = 0; t < n_statistics; t++, power *= z)
            wait(power);
    });
    return 0;
}

// Statistics are those of a table (U, T, N).
EXPORT int picked_product(
    const float *natural, const float *table, const int64_t *picked, float *out, size_t n_nodes, size_t n_picked,
    size_t n_statistics, size_t n_rows, size_t first, size_t last)
{
    Product product(natural, out, n_nodes, n_statistics, n_rows);
    if (product.missing())
        return -1;
    product.compute(picked, n_picked, first, last, [&](size_t entry, Block block, auto wait) {
        for (size_t t = 0; t < n_statistics; t++)
            wait(load(table + (entry * n_statistics + t) * n_rows + block.row, block.n_rows, 0.0f));
    });
    return 0;
}
