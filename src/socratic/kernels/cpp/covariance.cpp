// Relative covariances of sums over all pairs of left and right nodes.
//
// With L and R the covariances of both sides times the values a and b, and the weights W_t of a sum as a matrix, the
// covariance of the sums s and t is, over the product of both,
//
//     sum_lr W_slr (L W_t (R + b b'))_lr + (a' W_s) R (a' W_t)'                       where both sides have covariances,
//     sum_lr W_slr W_tlr l_l r_r + (a' W_s) R (a' W_t)' + (W_s b)' L (W_t b)          where they have variances l and r,
//
// or one side has none and the terms with it are 0. Masks add odds sum_lr W_slr W_tlr E[a_l^2 b_r^2], where s = t unless
// all sums share them. All terms are positive: nothing cancels.
#include "lanes.h"
#include "matrices.h"
#include "threads.h"

namespace {

enum class Kind : int { ZERO, VARIANCES, MATRIX };

}  // namespace

// One side of the pairs, as the caller describes it: values, and their relative covariances in any form.
struct Side {
    const float *values, *covariance;
    size_t fold_step, node_step;
    size_t covariance_fold, covariance_line, covariance_node;
    size_t n_nodes;
    Kind kind;
};

namespace {

// One side of the pairs for a block of rows.
struct BlockSide {
    size_t n;
    vec *values;      // [n]
    vec *covariance;  // times both values: [n][n], or only the diagonal [n]
    vec *moments;     // E[value^2]: [n]
    vec *marginals;   // of each sum: [t][n]

    static size_t size(size_t n, size_t n_sums) { return n * (n + 2 + n_sums); }

    BlockSide(size_t n, vec *room)
        : n(n), values(room), covariance(values + n), moments(covariance + n * n), marginals(moments + n)
    {
    }

    void read(const Side &side, size_t fold, Block block, bool as_matrix)
    {
        for (size_t i = 0; i < n; i++) {
            const float *from = side.values + fold * side.fold_step + i * side.node_step + block.row;
            values[i] = load(from, block.n_rows, 1.0f);
            moments[i] = values[i] * values[i];
        }
        if (side.kind == Kind::ZERO)
            return;
        const float *from = side.covariance + fold * side.covariance_fold + block.row;
        if (side.kind == Kind::VARIANCES && as_matrix)
            clear(covariance, n * n);
        for (size_t i = 0; i < n; i++) {
            const size_t own = as_matrix ? i * n + i : i;
            if (side.kind == Kind::VARIANCES)
                covariance[own] = load(from + i * side.covariance_node, block.n_rows, 0.0f) * moments[i];
            else
                for (size_t j = 0; j < n; j++) {
                    const float *entry = from + i * side.covariance_line + j * side.covariance_node;
                    covariance[i * n + j] = load(entry, block.n_rows, 0.0f) * values[i] * values[j];
                }
            moments[i] += covariance[own];
        }
    }

    // Add what the marginals of all sums pass on of the covariance; room is for two matrices like the marginals.
    void add_marginals(vec *sums, bool as_matrix, size_t n_sums, vec *passed, vec *by_node) const
    {
        turn(by_node, marginals, n_sums, n);
        add_quadratic(sums, marginals, by_node, covariance, as_matrix, n_sums, n, passed);
    }
};

// The pairs of a layer, and room for a block of rows.
class Pairs {
  public:
    vec *sums;  // [t][s] for s <= t, of the block that was computed last

    Pairs(const Side &left, const Side &right, size_t n_sums, float shared_odds, float own_odds)
        : left(left), right(right), n_sums(n_sums), shared_odds(shared_odds), own_odds(own_odds),
          n_left(left.n_nodes), n_right(right.n_nodes),
          n_pairs(n_left * n_right), matrices(left.kind == Kind::MATRIX || right.kind == Kind::MATRIX),
          widest(n_left > n_right ? n_left : n_right), of_left(left.kind != Kind::ZERO),
          of_right(right.kind != Kind::ZERO), both(of_left && of_right),
          room(2 * (n_sums * n_pairs / LANES + 1) + BlockSide::size(n_left, n_sums) + BlockSide::size(n_right, n_sums) +
               n_pairs + 2 * TILE_LINES * n_right + n_right * n_right + n_sums * (n_sums + 1 + 2 * widest))
    {
    }

    bool missing() const { return room.missing(); }

    // Turn to another fold, with weights (S, A * B).
    void begin(const float *weights_of_fold)
    {
        weights = weights_of_fold;
        by_pair = reinterpret_cast<float *>(room.start());
        squares = reinterpret_cast<float *>(room.start() + n_sums * n_pairs / LANES + 1);
        transpose(weights, n_pairs, n_sums, n_pairs, by_pair, n_sums);
        for (size_t k = 0; own_odds > 0.0f && k < n_pairs * n_sums; k++)
            squares[k] = own_odds * by_pair[k] * by_pair[k];
    }

    void compute(size_t fold, Block block)
    {
        vec *next = room.start() + 2 * (n_sums * n_pairs / LANES + 1);
        const auto take = [&](size_t n) { return next += n, next - n; };
        BlockSide a(n_left, take(BlockSide::size(n_left, n_sums)));
        BlockSide b(n_right, take(BlockSide::size(n_right, n_sums)));
        vec *diagonal = take(n_pairs), *shared = take(TILE_LINES * n_right), *half = take(TILE_LINES * n_right);
        vec *plus = take(n_right * n_right);
        sums = take(n_sums * n_sums);
        vec *passed = take(n_sums * widest), *by_node = take(n_sums * widest);
        a.read(left, fold, block, matrices);
        b.read(right, fold, block, matrices);
        clear(sums, n_sums * n_sums);
        const bool chain = both && matrices;
        if (of_right) {
            for (size_t t = 0; t < n_sums; t++)
                multiply_weights(b.marginals + t * n_right, a.values, weights + t * n_pairs, 1, n_left, n_right);
            b.add_marginals(sums, matrices, n_sums, passed, by_node);
        }
        if (of_left && !chain) {
            for (size_t t = 0; t < n_sums; t++)
                sum_lines(a.marginals + t * n_left, weights + t * n_pairs, b.values, n_left, n_right);
            a.add_marginals(sums, matrices, n_sums, passed, by_node);
        }
        if (own_odds > 0.0f)
            add_own(a, b, diagonal, take(n_sums));
        const bool has_diagonal = fill_diagonal(a, b, diagonal);
        if (!chain && !has_diagonal)
            return;
        for (size_t i = 0; chain && i < n_right; i++)
            for (size_t j = 0; j < n_right; j++)
                plus[i * n_right + j] = b.covariance[i * n_right + j] + b.values[i] * b.values[j];
        // Some left nodes at a time: what all sums need of them stays in the nearest cache.
        for (size_t first = 0; first < n_left; first += TILE_LINES) {
            const size_t n_first = smaller(TILE_LINES, n_left - first), begin = first * n_right, n = n_first * n_right;
            for (size_t t = 0; t < n_sums; t++) {
                const float *of_sum = weights + t * n_pairs;
                if (has_diagonal)
                    for (size_t k = 0; k < n; k++)
                        shared[k] = of_sum[begin + k] * diagonal[begin + k];
                else
                    clear(shared, n);
                if (chain) {
                    multiply_weights(half, a.covariance + first * n_left, of_sum, n_first, n_left, n_right);
                    multiply(shared, half, plus, n_first, n_right, n_right, n_right);
                }
                add_products(t + 1, sums + t * n_sums, by_pair + begin * n_sums, n_sums, shared, n);
            }
        }
    }

  private:
    // What masks of its own add to the variance of each sum.
    void add_own(const BlockSide &a, const BlockSide &b, vec *moments, vec *own)
    {
        for (size_t l = 0, k = 0; l < n_left; l++)
            for (size_t r = 0; r < n_right; r++, k++)
                moments[k] = a.moments[l] * b.moments[r];
        clear(own, n_sums);
        add_products(n_sums, own, squares, n_sums, moments, n_pairs);
        for (size_t t = 0; t < n_sums; t++)
            sums[t * n_sums + t] += own[t];
    }

    // What the weights of both sums meet at the same pair: variances, and what shared masks add. False if it is 0.
    bool fill_diagonal(const BlockSide &a, const BlockSide &b, vec *diagonal) const
    {
        const bool variances = both && !matrices;
        for (size_t l = 0, k = 0; l < n_left; l++)
            for (size_t r = 0; r < n_right; r++, k++) {
                diagonal[k] = shared_odds * a.moments[l] * b.moments[r];
                if (variances)
                    diagonal[k] += a.covariance[l] * b.covariance[r];
            }
        return variances || shared_odds > 0.0f;
    }

    const Side &left, &right;
    const size_t n_sums;
    const float shared_odds, own_odds;
    const size_t n_left, n_right, n_pairs;
    const bool matrices;
    const size_t widest;
    const bool of_left, of_right, both;
    const Vectors room;
    const float *weights = nullptr;
    float *by_pair = nullptr;  // the weights, those of all sums side by side
    float *squares = nullptr;  // likewise their squares, times the odds of masks of their own
};

}  // namespace

// Covariances (F, S, S, N) of sums over all pairs; weights are (F, S, A * B), sums (F, S, N).
EXPORT int pair_covariance(
    const float *weights, const Side *left, const Side *right, const float *sums, size_t sum_fold, size_t sum_node,
    float shared_odds, float own_odds, float limit, float *out, size_t n_sums, size_t n_rows, size_t n_tasks,
    size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        Pairs pairs(*left, *right, n_sums, shared_odds, own_odds);
        const Vectors inverse(n_sums);
        if (pairs.missing() || inverse.missing())
            return -1;
        for (size_t number = first; number < last; number++) {
            const Task task(number, n_rows);
            if (number == first || task.row == 0)
                pairs.begin(weights + task.fold * n_sums * left->n_nodes * right->n_nodes);
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Block block(task, number);
                pairs.compute(task.fold, block);
                vec *one_over = inverse.start();
                for (size_t t = 0; t < n_sums; t++)
                    one_over[t] =
                        1.0f / load(sums + task.fold * sum_fold + t * sum_node + block.row, block.n_rows, 1.0f);
                float *to = out + task.fold * n_sums * n_sums * n_rows + block.row;
                for (size_t t = 0; t < n_sums; t++)
                    for (size_t s = 0; s <= t; s++) {
                        const vec value = at_most(pairs.sums[t * n_sums + s] * one_over[s] * one_over[t], limit);
                        store(to + (t * n_sums + s) * n_rows, value, block.n_rows);
                        store(to + (s * n_sums + t) * n_rows, value, block.n_rows);
                    }
            }
        }
        return 0;
    });
}
