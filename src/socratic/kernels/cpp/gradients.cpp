// Gradients of sums over all pairs, by the values of both sides and by the weights.
//
// With gradients g_t of the sums, Q_lr = sum_t W_tlr g_t is what a product gets. Values get sum_r b_r Q_lr and
// sum_l a_l Q_lr, in each row by itself; weights get sum over rows of g_t a_l b_r, for which pairs of nodes, not rows, are
// in the lanes of a vector.
#include "lanes.h"

namespace {

constexpr size_t CHUNK_ROWS = 64;   // whose products are written out together
constexpr size_t CHUNK_PAIRS = 1024;  // likewise: both fit in the second cache
constexpr int TILE_SUMS = MOST_SUMS > 12 ? 5 : 3, TILE_PAIRS = MOST_SUMS > 12 ? 4 : 3;  // of sums, and of vectors of pairs

INLINE vec load_whole(const float *from)
{
    vec x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store_whole(float *to, vec x) { memcpy(to, &x, sizeof x); }

template <int n_sums, int n_vectors>
INLINE void add_outer(
    float *out, size_t out_step, const float *gradients, size_t gradient_step, const float *products,
    size_t product_step, size_t n_rows)
{
    vec total[n_sums][n_vectors];
    UNROLL for (int t = 0; t < n_sums; t++)
        UNROLL for (int k = 0; k < n_vectors; k++) total[t][k] = load_whole(out + t * out_step + k * LANES);
    for (size_t row = 0; row < n_rows; row++)
        UNROLL for (int t = 0; t < n_sums; t++)
            UNROLL for (int k = 0; k < n_vectors; k++)
                total[t][k] += gradients[t * gradient_step + row] * load_whole(products + row * product_step + k * LANES);
    UNROLL for (int t = 0; t < n_sums; t++)
        UNROLL for (int k = 0; k < n_vectors; k++) store_whole(out + t * out_step + k * LANES, total[t][k]);
}

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

// A layer of sums over pairs, and the gradients (F, S, N) of the sums.
struct Layer {
    const float *weights;
    Values left, right;
    const float *gradients;
    size_t n_sums, n_rows;

    size_t n_pairs() const { return left.n_nodes * right.n_nodes; }

    // Gradients of the values of a task, (F, A, N) and (F, B, N); room is for a block of all of them.
    void of_values(const Task &task, float *to_left, float *to_right, vec *room) const
    {
        const size_t n_left = left.n_nodes, n_right = right.n_nodes;
        const size_t tile = tile_size(n_right);
        vec *a = room, *b = a + n_left, *g = b + n_right, *of_left = g + n_sums, *of_right = of_left + n_left;
        const Values of_sums{gradients, n_sums * n_rows, n_rows, n_sums};
        for (size_t number = 0; number < task.n_blocks(); number++) {
            const Block block(task, number);
            left.gather_block(task.fold, block, a);
            right.gather_block(task.fold, block, b);
            of_sums.gather_block(task.fold, block, g);
            clear(of_left, n_left + n_right);
            for (size_t r = 0; r < n_right; r += tile)
                with_size<MOST_SUMS>(smaller(tile, n_right - r), [&](auto size) {
                    const float *from = weights + task.fold * n_sums * n_pairs() + r;
                    for (size_t l = 0; l < n_left; l++)
                        add_line<size>(&of_left[l], of_right + r, from + l * n_right, n_pairs(), g, n_sums, a[l], b + r);
                });
            scatter(to_left, n_left, task.fold, block, of_left);
            scatter(to_right, n_right, task.fold, block, of_right);
        }
    }

    // Gradients (F, S, A * B) of the weights of a fold; room is for the products of a chunk and what they are made of.
    void of_weights(size_t fold, float *to, float *room) const
    {
        const size_t n_left = left.n_nodes, n_right = right.n_nodes;
        const size_t step = n_right < CHUNK_PAIRS ? CHUNK_PAIRS / n_right : 1;
        const size_t width = padded(step * n_right);
        float *a = room, *b = a + CHUNK_ROWS * n_left, *products = b + CHUNK_ROWS * padded(n_right);
        float *sums = products + CHUNK_ROWS * width;
        for (size_t first = 0; first < n_left; first += step) {
            const size_t n_first = smaller(step, n_left - first), n_columns = n_first * n_right;
            memset(sums, 0, n_sums * width * sizeof *sums);
            for (size_t row = 0; row < n_rows; row += CHUNK_ROWS) {
                const size_t rows = smaller(CHUNK_ROWS, n_rows - row);
                const float *from_left = left.start + fold * left.fold_step + first * left.node_step + row;
                const float *from_right = right.start + fold * right.fold_step + row;
                transpose(from_left, left.node_step, n_first, rows, a, n_first);
                transpose(from_right, right.node_step, n_right, rows, b, padded(n_right));
                for (size_t n = 0; n < rows; n++)
                    write_products(products + n * width, a + n * n_first, n_first, b + n * padded(n_right), n_right);
                add_rows(sums, width, gradients + fold * n_sums * n_rows + row, products, n_columns, rows);
            }
            for (size_t t = 0; t < n_sums; t++)
                memcpy(
                    to + (fold * n_sums + t) * n_pairs() + first * n_right, sums + t * width,
                    n_columns * sizeof *to);
        }
    }

    size_t room() const
    {
        const size_t values = 2 * (left.n_nodes + right.n_nodes) + n_sums;
        const size_t step = right.n_nodes < CHUNK_PAIRS ? CHUNK_PAIRS / right.n_nodes : 1;
        const size_t width = padded(step * right.n_nodes);
        const size_t numbers =
            CHUNK_ROWS * (left.n_nodes + padded(right.n_nodes) + width) + n_sums * width + LANES;
        return values > numbers / LANES + 1 ? values : numbers / LANES + 1;
    }

  private:
    // Room for so many numbers and for a vector that begins at the last of them.
    static size_t padded(size_t n) { return (n + 2 * LANES - 1) / LANES * LANES; }

    void scatter(float *to, size_t n_nodes, size_t fold, Block block, const vec *values) const
    {
        for (size_t node = 0; to != nullptr && node < n_nodes; node++)
            store(to + (fold * n_nodes + node) * n_rows + block.row, values[node], block.n_rows);
    }

    // All products of one row, side by side. The last vector of a left node reaches into what the next one writes.
    static void write_products(float *to, const float *a, size_t n_left, const float *b, size_t n_right)
    {
        for (size_t l = 0; l < n_left; l++, to += n_right)
            for (size_t r = 0; r < n_right; r += LANES)
                store_whole(to + r, a[l] * load_whole(b + r));
    }

    // sums[t][k] += sum over rows of gradients[t][row] products[row][k]
    void add_rows(
        float *sums, size_t width, const float *of_sums, const float *products, size_t n_columns, size_t rows) const
    {
        const size_t n_vectors = (n_columns + LANES - 1) / LANES;
        for (size_t k = 0; k < n_vectors; k += TILE_PAIRS)
            with_size<TILE_PAIRS>(smaller(TILE_PAIRS, n_vectors - k), [&](auto vectors) {
                for (size_t t = 0; t < n_sums; t += TILE_SUMS)
                    with_size<TILE_SUMS>(smaller(TILE_SUMS, n_sums - t), [&](auto n) {
                        add_outer<n, vectors>(
                            sums + t * width + k * LANES, width, of_sums + t * n_rows, n_rows, products + k * LANES,
                            width, rows);
                    });
            });
    }
};

}  // namespace

// Gradients by the values (F, A, N) and (F, B, N) and by the weights (F, S, A * B) of pairs, each unless it is null, from
// those of their sums (F, S, N), for some folds.
EXPORT int gradients_of_pairs(
    const float *weights, const float *left, size_t left_fold, size_t left_node, const float *right, size_t right_fold,
    size_t right_node, const float *gradients, float *to_left, float *to_right, float *to_weights, size_t n_sums,
    size_t n_left, size_t n_right, size_t n_rows, size_t first, size_t last)
{
    const Layer layer{
        weights,   {left, left_fold, left_node, n_left}, {right, right_fold, right_node, n_right},
        gradients, n_sums,                               n_rows};
    const Vectors room(layer.room());
    if (room.missing())
        return -1;
    const size_t n_groups = (n_rows + TASK_ROWS - 1) / TASK_ROWS;
    for (size_t fold = first; fold < last; fold++) {
        for (size_t group = 0; (to_left != nullptr || to_right != nullptr) && group < n_groups; group++)
            layer.of_values(Task(fold * n_groups + group, n_rows), to_left, to_right, room.start());
        if (to_weights != nullptr)
            layer.of_weights(fold, to_weights, reinterpret_cast<float *>(room.start()));
    }
    return 0;
}
