// Gradients of logarithms of sums over all pairs, by the logarithms of both sides and by the weights.
//
// With gradients of the logarithms divided by the sums, g_t, a product gets Q_lr = sum_t W_tlr g_t. Values get
// a_l sum_r b_r Q_lr and b_r sum_l a_l Q_lr, in each row by itself; weights get sum over rows of g_t a_l b_r, for which
// pairs of nodes, not rows, are in the lanes of a vector.
#include "lanes.h"
#include "matrices.h"
#include "threads.h"

namespace {

constexpr size_t CHUNK_PAIRS = 1024;  // whose products are written out for CHUNK_ROWS: they fit in the second cache

// What the products of a left node with some right nodes get, passed on to both.
template <int n_right>
INLINE void add_line(
    vec *of_left, vec *of_right, const float *weights, size_t step, const vec *gradients, size_t n_sums, vec left,
    const vec *right)
{
    vec line[n_right], sum[2] = {};
    UNROLL for (int r = 0; r < n_right; r++) line[r] = vec{};
    for (size_t t = 0; t < n_sums; t++, weights += step)
        UNROLL for (int r = 0; r < n_right; r++) line[r] += weights[r] * gradients[t];
    UNROLL for (int r = 0; r < n_right; r++) of_right[r] += left * line[r];
    UNROLL for (int r = 0; r < n_right; r++) sum[r % 2] += right[r] * line[r];
    *of_left += sum[0] + sum[1];
}

// The pairs of a fold: values [node][row] of both sides and gradients [sum][row] of the sums, none of them logarithms.
struct Fold {
    const float *weights, *left, *right, *gradients;
    size_t n_sums, n_left, n_right, n_rows;

    size_t n_pairs() const { return n_left * n_right; }

    // Gradients [node][row] of the logarithms of the values, for a block of rows; room is for a block of all of them.
    void of_values(Block block, float *to_left, float *to_right, vec *room) const
    {
        const size_t tile = tile_size(n_right);
        vec *a = room, *b = a + n_left, *g = b + n_right, *of_left = g + n_sums, *of_right = of_left + n_left;
        gather(left, n_left, block, a);
        gather(right, n_right, block, b);
        gather(gradients, n_sums, block, g);
        clear(of_left, n_left + n_right);
        for (size_t r = 0; r < n_right; r += tile)
            with_size<MOST_SUMS>(smaller(tile, n_right - r), [&](auto size) {
                for (size_t l = 0; l < n_left; l++)
                    add_line<size>(
                        &of_left[l], of_right + r, weights + l * n_right + r, n_pairs(), g, n_sums, a[l], b + r);
            });
        scatter(to_left, n_left, block, a, of_left);
        scatter(to_right, n_right, block, b, of_right);
    }

    // Gradients [sum][pair] of the weights; room is for the products of a chunk and what they are made of.
    void of_weights(float *to, float *room) const
    {
        const size_t step = n_right < CHUNK_PAIRS ? CHUNK_PAIRS / n_right : 1;
        const size_t width = padded(step * n_right);
        float *a = room, *b = a + CHUNK_ROWS * n_left, *products = b + CHUNK_ROWS * padded(n_right);
        float *sums = products + CHUNK_ROWS * width;
        for (size_t first = 0; first < n_left; first += step) {
            const size_t n_first = smaller(step, n_left - first), n_columns = n_first * n_right;
            memset(sums, 0, n_sums * width * sizeof *sums);
            for (size_t row = 0; row < n_rows; row += CHUNK_ROWS) {
                const size_t rows = smaller(CHUNK_ROWS, n_rows - row);
                transpose(left + first * n_rows + row, n_rows, n_first, rows, a, n_first);
                transpose(right + row, n_rows, n_right, rows, b, padded(n_right));
                for (size_t n = 0; n < rows; n++)
                    write_products(products + n * width, a + n * n_first, n_first, b + n * padded(n_right), n_right);
                add_rows(sums, width, n_sums, gradients + row, n_rows, products, n_columns, rows);
            }
            for (size_t t = 0; t < n_sums; t++)
                memcpy(to + t * n_pairs() + first * n_right, sums + t * width, n_columns * sizeof *to);
        }
    }

    size_t room() const
    {
        const size_t values = 2 * (n_left + n_right) + n_sums;
        const size_t step = n_right < CHUNK_PAIRS ? CHUNK_PAIRS / n_right : 1;
        const size_t width = padded(step * n_right);
        const size_t numbers = CHUNK_ROWS * (n_left + padded(n_right) + width) + n_sums * width + LANES;
        return values > numbers / LANES + 1 ? values : numbers / LANES + 1;
    }

  private:
    void gather(const float *from, size_t n_nodes, Block block, vec *to) const
    {
        for (size_t node = 0; node < n_nodes; node++)
            to[node] = load(from + node * n_rows + block.row, block.n_rows, 0.0f);
    }

    void scatter(float *to, size_t n_nodes, Block block, const vec *values, const vec *gradients) const
    {
        for (size_t node = 0; to != nullptr && node < n_nodes; node++)
            store(to + node * n_rows + block.row, values[node] * gradients[node], block.n_rows);
    }

    // All products of one row, side by side. The last vector of a left node reaches into what the next one writes.
    static void write_products(float *to, const float *a, size_t n_left, const float *b, size_t n_right)
    {
        for (size_t l = 0; l < n_left; l++, to += n_right)
            for (size_t r = 0; r < n_right; r += LANES)
                store_whole(to + r, a[l] * load_whole(b + r));
    }
};

// Logarithms with their rows last, relative to a scale.
struct Side {
    Values values;
    const double *scale;
    size_t scale_fold;

    void exponentiate(const Task &task, float *to, size_t n_rows) const
    {
        const float *from = values.start + task.fold * values.fold_step;
        for (size_t node = 0; node < values.n_nodes; node++)
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Block block(task, number);
                const vec x = load(from + node * values.node_step + block.row, block.n_rows, 0.0f);
                store(to + node * n_rows + block.row, exponential(x), block.n_rows);
            }
    }
};

// Logarithms (F, S, N) of sums, their scale and their gradients.
struct Sums {
    const float *log_value;
    const double *log_scale;
    const float *gradients;
    size_t n_sums;

    // The gradients of a task divided by the sums, 0 where a sum is 0. Sums are relative to the scales of both sides.
    void divide(const Task &task, const Side &left, const Side &right, float *to, size_t n_rows) const
    {
        for (size_t number = 0; number < task.n_blocks(); number++) {
            const Block block(task, number);
            vec shift = vec{};
            for (size_t lane = 0; lane < block.n_rows; lane++) {
                const size_t row = block.row + lane;
                const double of_sides = left.scale[task.fold * left.scale_fold + row] +
                                        right.scale[task.fold * right.scale_fold + row];
                shift[lane] = static_cast<float>(log_scale[task.fold * n_rows + row] - of_sides);
            }
            for (size_t t = 0; t < n_sums; t++) {
                const size_t place = (task.fold * n_sums + t) * n_rows + block.row;
                const vec sum = exponential(load(log_value + place, block.n_rows, 0.0f) + shift);
                const vec gradient = load(gradients + place, block.n_rows, 0.0f) / sum;
                store(to + t * n_rows + block.row, sum == 0.0f ? vec{} : gradient, block.n_rows);
            }
        }
    }
};

}  // namespace

// Gradients by the logarithms (F, A, N) and (F, B, N) and by the weights (F, S, A * B) of pairs, each unless it is null,
// from those of the logarithms (F, S, N) that log_sums_of_pairs found; a fold is a task.
EXPORT int gradients_of_log_pairs(
    const float *weights, const float *left, size_t left_fold, size_t left_node, const double *left_scale,
    size_t left_scale_fold, const float *right, size_t right_fold, size_t right_node, const double *right_scale,
    size_t right_scale_fold, const float *log_value, const double *log_scale, const float *gradients, float *to_left,
    float *to_right, float *to_weights, size_t n_sums, size_t n_left, size_t n_right, size_t n_rows, size_t n_tasks,
    size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Side of_left{{left, left_fold, left_node, n_left}, left_scale, left_scale_fold};
        const Side of_right{{right, right_fold, right_node, n_right}, right_scale, right_scale_fold};
        const Sums sums{log_value, log_scale, gradients, n_sums};
        const Vectors values((n_left + n_right + n_sums) * n_rows / LANES + 1);
        float *a = reinterpret_cast<float *>(values.start()), *b = a + n_left * n_rows, *g = b + n_right * n_rows;
        const Vectors room(Fold{weights, a, b, g, n_sums, n_left, n_right, n_rows}.room());
        if (values.missing() || room.missing())
            return -1;
        const size_t n_groups = (n_rows + TASK_ROWS - 1) / TASK_ROWS;
        for (size_t number = first; number < last; number++) {
            const Fold fold{weights + number * n_sums * n_left * n_right, a, b, g, n_sums, n_left, n_right, n_rows};
            for (size_t group = 0; group < n_groups; group++) {
                const Task task(number * n_groups + group, n_rows);
                of_left.exponentiate(task, a, n_rows);
                of_right.exponentiate(task, b, n_rows);
                sums.divide(task, of_left, of_right, g, n_rows);
                for (size_t block = 0; (to_left != nullptr || to_right != nullptr) && block < task.n_blocks(); block++)
                    fold.of_values(
                        Block(task, block), to_left == nullptr ? nullptr : to_left + number * n_left * n_rows,
                        to_right == nullptr ? nullptr : to_right + number * n_right * n_rows, room.start());
            }
            if (to_weights != nullptr)
                fold.of_weights(
                    to_weights + number * n_sums * n_left * n_right, reinterpret_cast<float *>(room.start()));
        }
        return 0;
    });
}
