// Sums over all pairs of left and right nodes: products are formed in registers and never written to memory.
#include "lanes.h"
#include "threads.h"

namespace {

constexpr size_t CHUNK = 4096;  // weights of a tile that are laid out at a time: half of the nearest cache

template <int n_sums>
INLINE void add_pairs(vec *sums, const float *weights, const vec *left, size_t n_left, const vec *right, size_t n_right)
{
    vec total[n_sums];
    UNROLL for (int t = 0; t < n_sums; t++) total[t] = vec{};
    for (size_t i = 0; i < n_left; i++)
        for (size_t j = 0; j < n_right; j++, weights += n_sums) {
            const vec product = left[i] * right[j];
            UNROLL for (int t = 0; t < n_sums; t++) total[t] += weights[t] * product;
        }
    UNROLL for (int t = 0; t < n_sums; t++) sums[t] += total[t];
}

// The pairs of a layer, and room for those of a task.
class Pairs {
  public:
    Pairs(const float *weights, Values left, Values right, size_t n_sums, size_t n_rows)
        : weights(weights), left(left), right(right), n_sums(n_sums),
          room((smaller(n_rows, TASK_ROWS) / LANES + 1) * (left.n_nodes + right.n_nodes + n_sums) +
               (CHUNK + right.n_nodes * MOST_SUMS) / LANES + 1)
    {
    }

    // Compute some tasks, of logarithms if values are such, and write(fold, block, sums) the sums [t] of every block.
    template <typename Write> int compute(size_t n_rows, size_t first, size_t last, bool logarithms, Write write) const
    {
        if (room.missing())
            return -1;
        for (size_t number = first; number < last; number++) {
            const Task task(number, n_rows);
            const vec *sums = sums_of(task, logarithms);
            for (size_t block = 0; block < task.n_blocks(); block++)
                write(task.fold, Block(task, block), sums + block * n_sums);
        }
        return 0;
    }

  private:
    // The sums [block][t] of a task.
    const vec *sums_of(const Task &task, bool logarithms) const
    {
        const size_t n_blocks = task.n_blocks(), n_left = left.n_nodes, n_right = right.n_nodes;
        const size_t n_pairs = n_left * n_right, tile = tile_size(n_sums);
        const size_t step = n_right * tile < CHUNK ? CHUNK / (n_right * tile) : 1;
        vec *of_left = room.start(), *of_right = of_left + n_blocks * n_left;
        vec *sums = of_right + n_blocks * n_right;
        float *chunk = reinterpret_cast<float *>(sums + n_blocks * n_sums);
        left.gather(task, of_left, logarithms);
        right.gather(task, of_right, logarithms);
        clear(sums, n_blocks * n_sums);
        for (size_t first = 0; first < n_left; first += step) {
            const size_t n_first = smaller(step, n_left - first);
            for (size_t t = 0; t < n_sums; t += tile) {
                const size_t n = smaller(tile, n_sums - t);
                const float *from = weights + (task.fold * n_sums + t) * n_pairs + first * n_right;
                transpose(from, n_pairs, n, n_first * n_right, chunk, n);
                fetch(first + step < n_left ? from + step * n_right : from - first * n_right + n_sums * n_pairs, n,
                      step * n_right);
                with_size<MOST_SUMS>(n, [&](auto size) {
                    for (size_t block = 0; block < n_blocks; block++)
                        add_pairs<size>(
                            sums + block * n_sums + t, chunk, of_left + block * n_left + first, n_first,
                            of_right + block * n_right, n_right);
                });
            }
        }
        return sums;
    }

    // Have the weights of the next chunk brought nearer while this one is multiplied.
    void fetch(const float *next, size_t n_lines, size_t n_columns) const
    {
        constexpr size_t line = 64 / sizeof(float);
        for (size_t t = 0; t < n_lines; t++)
            for (size_t k = 0; k < n_columns; k += line)
                __builtin_prefetch(next + t * left.n_nodes * right.n_nodes + k, 0, 2);
    }

    const float *weights;
    const Values left, right;
    const size_t n_sums;
    const Vectors room;
};

}  // namespace

// Sums (F, S, N) of values (F, A, N) and (F, B, N) with weights (F, S, A * B).
EXPORT int sums_of_pairs(
    const float *weights, const float *left, size_t left_fold, size_t left_node, const float *right, size_t right_fold,
    size_t right_node, float *out, size_t n_sums, size_t n_left, size_t n_right, size_t n_rows, size_t n_tasks,
    size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Pairs pairs(
            weights, {left, left_fold, left_node, n_left}, {right, right_fold, right_node, n_right}, n_sums, n_rows);
        return pairs.compute(n_rows, first, last, false, [&](size_t fold, Block block, const vec *sums) {
            for (size_t t = 0; t < n_sums; t++)
                store(out + (fold * n_sums + t) * n_rows + block.row, sums[t], block.n_rows);
        });
    });
}

// The same of logarithms, the largest of each fold and row 0, with what they are relative to; so is the result.
EXPORT int log_sums_of_pairs(
    const float *weights, const float *left, size_t left_fold, size_t left_node, const double *left_scale,
    size_t left_scale_fold, const float *right, size_t right_fold, size_t right_node, const double *right_scale,
    size_t right_scale_fold, float *out, double *out_scale, size_t n_sums, size_t n_left, size_t n_right,
    size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Pairs pairs(
            weights, {left, left_fold, left_node, n_left}, {right, right_fold, right_node, n_right}, n_sums, n_rows);
        return pairs.compute(n_rows, first, last, true, [&](size_t fold, Block block, const vec *sums) {
            vec largest = vec{};
            for (size_t t = 0; t < n_sums; t++)
                largest = larger(largest, sums[t]);
            // What all sums have in common goes into the scale; where all are 0, nothing.
            largest = largest == 0.0f ? vec{} : logarithm(largest);
            for (size_t t = 0; t < n_sums; t++)
                store(out + (fold * n_sums + t) * n_rows + block.row, logarithm(sums[t]) - largest, block.n_rows);
            const double *of_left = left_scale + fold * left_scale_fold + block.row;
            const double *of_right = right_scale + fold * right_scale_fold + block.row;
            for (size_t lane = 0; lane < block.n_rows; lane++)
                out_scale[fold * n_rows + block.row + lane] = of_left[lane] + of_right[lane] + largest[lane];
        });
    });
}
