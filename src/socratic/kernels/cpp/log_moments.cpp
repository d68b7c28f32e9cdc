// Log-moments of sums over all pairs: the pairs that matter most, and what moving children do to the sums.
//
// The formulas are those of inference/layered/log_moments. Tensors have their rows second, (F, N, ...), and are turned a
// block of rows at a time: a vector then holds the same number of each row.
#include "lanes.h"
#include "matrices.h"
#include "threads.h"

// One side of the pairs, as the caller describes it.
struct Moving {
    const float *values;      // (F, N, A)
    const float *shares;      // (F, N, M, A)
    const float *rest;        // (F, N, A)
    const float *covariance;  // (F, N, A, A) or null
    size_t n_nodes, n_shares;
};

namespace {

constexpr float TINY = 1.17549435e-38f;
constexpr size_t N_MASKS = 3, N_ATOMS = 8;  // masks that are enumerated, and their patterns

// Where the rows of a block are among those of all folds.
struct Rows {
    size_t first, n;

    Rows(const Task &task, Block block, size_t n_rows) : first(task.fold * n_rows + block.row), n(block.n_rows) {}

    // Numbers (F, N, n) as vectors [n].
    void gather(const float *from, size_t n_numbers, vec *to) const
    {
        if (n < LANES)
            clear(to, n_numbers);
        transpose(from + first * n_numbers, n_numbers, n, n_numbers, reinterpret_cast<float *>(to), LANES);
    }

    void scatter(const vec *from, size_t n_numbers, float *to) const
    {
        transpose(reinterpret_cast<const float *>(from), LANES, n_numbers, n, to + first * n_numbers, n_numbers);
    }
};

INLINE size_t most(size_t a, size_t b) { return a > b ? a : b; }

INLINE vec one_over(vec x) { return 1.0f / at_least(x, TINY); }

INLINE ivec everywhere(size_t number) { return static_cast<int32_t>(number) - ivec{}; }

// In every lane, the place of the largest of some scores from 0 on. It is not found again.
INLINE ivec take_largest(vec *scores, size_t n)
{
    vec largest = all(-1.0f);
    ivec place = ivec{};
    for (size_t i = 0; i < n; i++) {
        const ivec better = scores[i] > largest;
        largest = better ? scores[i] : largest;
        place = better ? everywhere(i) : place;
    }
    for (size_t i = 0; i < n; i++)
        scores[i] = place == everywhere(i) ? all(-2.0f) : scores[i];
    return place;
}

// The pairs of largest score in every row.
class Top {
  public:
    Top(size_t n, vec *scores, ivec *places) : n(n), scores(scores), places(places) {}

    void begin()
    {
        for (size_t m = 0; m < n; m++)
            scores[m] = all(-1.0f), places[m] = everywhere(m);
        lowest = all(-1.0f);
    }

    void offer(vec score, size_t pair)
    {
        ivec taken = score > lowest;
        if (!any_lane(taken))
            return;
        vec least = all(INFINITY);
        for (size_t m = 0; m < n; m++) {
            const ivec here = taken & (scores[m] == lowest);
            scores[m] = here ? score : scores[m];
            places[m] = here ? everywhere(pair) : places[m];
            taken &= ~here;
            least = scores[m] < least ? scores[m] : least;
        }
        lowest = least;
    }

    size_t place(size_t m, size_t lane) const { return static_cast<size_t>(places[m][lane]); }

  private:
    const size_t n;
    vec *scores, lowest;
    ivec *places;
};

struct Settings {
    float rate, negligible, deep_fall;
    bool shared;  // whether the sums of a region share their masks
};

// What the sums of a layer are, and by how much they move, for a block of rows; all of it is added to.
struct Moved {
    vec *mean, *covariance;  // [s], [s][t] for t <= s
    vec bend;                // of all sums together
    ivec lost;
};

// What one side does to the sums.
class Mover {
  public:
    static size_t room(size_t n_sums, size_t n, size_t n_shares)
    {
        const size_t of_node = n_shares + most(n_shares, N_ATOMS) + 3 * n + 6 + N_MASKS + 3 * N_ATOMS;
        return n * of_node + most(n_shares, n) + 2 * n_sums * (n + N_ATOMS);
    }

    Mover(const Moving &side, const Settings &settings, size_t n_sums, vec *room)
        : side(side), settings(settings), n(side.n_nodes), n_shares(side.n_shares), n_sums(n_sums)
    {
        const auto take = [&](size_t size) { return room += size, room - size; };
        share = take(n_shares * n), turned_part = take(most(n_shares, N_ATOMS) * n);
        spread = take(n * n), other_spread = take(n * n), covariance = take(n * n);
        rest = take(n), relevance = take(n), total = take(n), residual = take(n), within = take(n), diagonal = take(n);
        first = take(N_MASKS * n), factor = take(N_ATOMS * n), inverse = take(N_ATOMS * n);
        weighted = take(N_ATOMS * n), score = take(most(n_shares, n));
        turned = take(n_sums * n), passed = take(n_sums * n);
        changed = take(N_ATOMS * n_sums), centred = take(N_ATOMS * n_sums);
    }

    // Add what the moves of its nodes do to the sums in which they have the shares rho [s][a].
    void add(const Rows &rows, const vec *rho, Moved &moved)
    {
        rows.gather(side.shares, n_shares * n, share);
        rows.gather(side.rest, n, rest);
        for (size_t a = 0; a < n; a++) {
            relevance[a] = vec{};
            for (size_t s = 0; s < n_sums; s++)
                relevance[a] += rho[s * n + a] * rho[s * n + a];
            relevance[a] *= 1.0f / static_cast<float>(n_sums);
        }
        const bool matrix = settings.shared || side.covariance != nullptr;
        if (settings.shared)
            enumerate_shared(moved);
        else
            enumerate_own(moved);
        if (matrix)
            fill_spread(rows);
        turn(turned, rho, n_sums, n);
        add_atoms(moved);
        add_expansion(rho, matrix, moved);
    }

  private:
    // Unit masks: those of the pairs that matter most are enumerated.
    void enumerate_shared(Moved &moved)
    {
        const float keep = 1.0f - settings.rate;
        for (size_t m = 0; m < n_shares; m++) {
            score[m] = vec{};
            for (size_t a = 0; a < n; a++)
                score[m] += share[m * n + a] * relevance[a];
        }
        for (size_t mask = 0; mask < N_MASKS; mask++) {
            const ivec chosen = take_largest(score, n_shares);
            vec *of_mask = first + mask * n;
            clear(of_mask, n);
            for (size_t m = 0; m < n_shares; m++) {
                const ivec here = chosen == everywhere(m);
                if (!any_lane(here))
                    continue;
                for (size_t a = 0; a < n; a++) {
                    of_mask[a] = here ? share[m * n + a] : of_mask[a];
                    share[m * n + a] = here ? vec{} : share[m * n + a];
                }
            }
        }
        for (size_t a = 0; a < n; a++) {
            total[a] = rest[a];
            for (size_t m = 0; m < n_shares; m++)
                total[a] += share[m * n + a];
        }
        vec sum = vec{};
        for (size_t atom = 0; atom < N_ATOMS; atom++) {
            ivec dead = ~ivec{};
            for (size_t a = 0; a < n; a++) {
                vec value = keep * total[a];
                for (size_t mask = 0; mask < N_MASKS; mask++)
                    value += kept(atom, mask) ? first[mask * n + a] : vec{};
                const ivec dies = value <= 0.0f;
                dead &= dies;
                moved.lost |= dies & (relevance[a] > settings.negligible);
                factor[atom * n + a] = value;
            }
            // An atom in which nothing is left is not part of what is averaged over.
            probability[atom] = dead ? vec{} : all(chance(atom));
            sum += probability[atom];
        }
        for (size_t atom = 0; atom < N_ATOMS; atom++)
            probability[atom] *= one_over(sum);
        for (size_t a = 0; a < n; a++) {
            // A sum that is dead in one atom only is taken as it is in the worst atom that it survives.
            vec smallest = all(INFINITY);
            for (size_t atom = 0; atom < N_ATOMS; atom++) {
                const vec value = factor[atom * n + a];
                smallest = ((value > 0.0f) & (value < smallest)) ? value : smallest;
            }
            smallest = smallest == INFINITY ? all(1.0f) : smallest;
            const vec scale = one_over(total[a]);
            for (size_t atom = 0; atom < N_ATOMS; atom++) {
                const vec value = factor[atom * n + a], alive = value > 0.0f ? value : smallest;
                inverse[atom * n + a] = total[a] / alive;
                weighted[atom * n + a] = inverse[atom * n + a] * probability[atom];
                factor[atom * n + a] = alive * (1.0f / keep);
            }
            for (size_t m = 0; m < n_shares; m++)
                share[m * n + a] *= scale;
        }
    }

    // Edge masks: of the sums that matter most, the mask of the largest share is enumerated.
    void enumerate_own(Moved &moved)
    {
        const float keep = 1.0f - settings.rate, odds = settings.rate / keep;
        vec *of_kept = first, *of_fallen = first + n;
        for (size_t a = 0; a < n; a++) {
            vec best = all(-1.0f), squares = vec{}, of_others = vec{};
            total[a] = rest[a];
            for (size_t m = 0; m < n_shares; m++) {
                const vec value = share[m * n + a];
                squares += value * value;
                // What is the best no longer is one of the others from here on.
                const vec other = value > best ? best : value;
                best = larger(value, best);
                total[a] += at_least(other, 0.0f);
                score[m] = other;
            }
            const vec scale = one_over(total[a]);
            for (size_t m = 0; m < n_shares; m++) {
                const vec relative = at_least(score[m], 0.0f) * scale;
                of_others += relative * relative;
            }
            const ivec dies = total[a] <= 0.0f;
            vec kept = best + keep * total[a];
            kept = kept <= 0.0f ? all(1.0f) : kept;
            const vec part = total[a] / kept;
            within[a] = of_others * (keep * keep * settings.rate * part * part + settings.rate * odds);
            residual[a] = odds * squares;
            of_kept[a] = kept * (1.0f / keep);
            of_fallen[a] = dies ? of_kept[a] : total[a];
            moved.lost |= dies & (relevance[a] > settings.negligible);
        }
        for (size_t atom = 0; atom < N_ATOMS; atom++) {
            probability[atom] = all(chance(atom));
            for (size_t a = 0; a < n; a++)
                factor[atom * n + a] = all(1.0f);
        }
        for (size_t a = 0; a < n; a++)
            score[a] = relevance[a] * residual[a];
        for (size_t mask = 0; mask < N_MASKS; mask++) {
            const ivec chosen = take_largest(score, n);
            for (size_t a = 0; a < n; a++) {
                const ivec here = chosen == everywhere(a);
                if (!any_lane(here))
                    continue;
                residual[a] = here ? within[a] : residual[a];
                for (size_t atom = 0; atom < N_ATOMS; atom++) {
                    const vec state = kept(atom, mask) ? of_kept[a] : of_fallen[a];
                    factor[atom * n + a] = here ? state : factor[atom * n + a];
                }
            }
        }
    }

    // The covariance of Gaussian logarithms: from the masks that no atom enumerates, and from further below.
    void fill_spread(const Rows &rows)
    {
        clear(spread, n * n);
        if (settings.shared) {
            turn(turned_part, share, n_shares, n);
            multiply_below(spread, turned_part, share, n, n_shares);
            clear(other_spread, n * n);
            turn(turned_part, weighted, N_ATOMS, n);
            multiply_below(other_spread, turned_part, inverse, n, N_ATOMS);
            const float odds = settings.rate * (1.0f - settings.rate);
            for (size_t i = 0; i < n; i++) {
                for (size_t j = 0; j <= i; j++)
                    spread[i * n + j] = spread[j * n + i] = odds * spread[i * n + j] * other_spread[i * n + j];
                residual[i] = spread[i * n + i];
            }
        } else
            for (size_t i = 0; i < n; i++)
                spread[i * n + i] = residual[i];
        if (side.covariance != nullptr) {
            rows.gather(side.covariance, n * n, covariance);
            for (size_t i = 0; i < n * n; i++)
                spread[i] += covariance[i];
        }
    }

    // What the atoms do, at which the sums are evaluated as they are.
    void add_atoms(Moved &moved)
    {
        clear(changed, N_ATOMS * n_sums);
        multiply(changed, factor, turned, N_ATOMS, n, n_sums, n_sums);
        for (size_t atom = 0; atom < N_ATOMS; atom++) {
            vec *of_atom = changed + atom * n_sums;
            vec top = all(-INFINITY), bottom = all(INFINITY);
            for (size_t s = 0; s < n_sums; s++) {
                of_atom[s] = logarithm(at_least(of_atom[s], TINY));
                top = larger(of_atom[s], top);
                bottom = of_atom[s] < bottom ? of_atom[s] : bottom;
            }
            moved.lost |= bottom - top < -settings.deep_fall;
        }
        for (size_t s = 0; s < n_sums; s++) {
            vec mean = vec{};
            for (size_t atom = 0; atom < N_ATOMS; atom++)
                mean += probability[atom] * changed[atom * n_sums + s];
            for (size_t atom = 0; atom < N_ATOMS; atom++) {
                changed[atom * n_sums + s] -= mean;
                centred[s * N_ATOMS + atom] = probability[atom] * changed[atom * n_sums + s];
            }
            moved.mean[s] += mean;
        }
        multiply_below(moved.covariance, centred, changed, n_sums, N_ATOMS);
    }

    // What Gaussian logarithms do, to second order.
    void add_expansion(const vec *rho, bool matrix, Moved &moved)
    {
        add_quadratic(moved.covariance, rho, turned, matrix ? spread : residual, matrix, n_sums, n, passed);
        for (size_t a = 0; a < n; a++)
            diagonal[a] = matrix ? spread[a * n + a] : residual[a];
        for (size_t s = 0; s < n_sums; s++) {
            vec linear = vec{}, of_residual = vec{}, variance = vec{};
            for (size_t a = 0; a < n; a++) {
                linear += rho[s * n + a] * diagonal[a];
                of_residual += rho[s * n + a] * residual[a];
                variance += passed[s * n + a] * rho[s * n + a];
            }
            const vec bend = 0.5f * (linear - variance);
            moved.bend += bend;
            moved.mean[s] += bend - 0.5f * of_residual;
        }
    }

    static bool kept(size_t atom, size_t mask) { return ((atom >> mask) & 1) == 0; }

    float chance(size_t atom) const
    {
        float chance = 1.0f;
        for (size_t mask = 0; mask < N_MASKS; mask++)
            chance *= kept(atom, mask) ? 1.0f - settings.rate : settings.rate;
        return chance;
    }

    const Moving &side;
    const Settings &settings;
    const size_t n, n_shares, n_sums;
    vec probability[N_ATOMS];
    vec *share, *turned_part, *spread, *other_spread, *covariance;
    vec *rest, *relevance, *total, *residual, *within, *diagonal;
    vec *first, *factor, *inverse, *weighted, *score, *turned, *passed, *changed, *centred;
};

}  // namespace

// Shares (F, N, M, S) of the M pairs that matter most to the sums (F, N, S), one over which is given (0 for those that
// are 0), and of all other pairs together (F, N, S), 0 below a limit. Values are (F, N, A) and (F, N, B).
EXPORT int top_shares(
    const float *weights, const float *left, const float *right, const float *inverse, float *shares, float *rest,
    float rounding, size_t n_sums, size_t n_left, size_t n_right, size_t n_shares, size_t n_rows, size_t n_tasks,
    size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t begin, size_t end) {
        const size_t n_pairs = n_left * n_right;
        const Vectors room(n_left + n_right + n_sums + n_pairs + n_shares), places(n_shares);
        const Vectors by_pair(n_sums * n_pairs / LANES + 1);
        if (room.missing() || places.missing() || by_pair.missing())
            return -1;
        vec *a = room.start(), *b = a + n_left, *scale = b + n_right, *scores = scale + n_sums;
        float *of_pair = reinterpret_cast<float *>(by_pair.start());
        Top top(n_shares, scores + n_pairs, reinterpret_cast<ivec *>(places.start()));
        for (size_t number = begin; number < end; number++) {
            const Task task(number, n_rows);
            const float *of_fold = weights + task.fold * n_sums * n_pairs;
            if (number == begin || task.row == 0)
                transpose(of_fold, n_pairs, n_sums, n_pairs, of_pair, n_sums);
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Block block(task, number);
                const Rows rows(task, block, n_rows);
                rows.gather(left, n_left, a);
                rows.gather(right, n_right, b);
                rows.gather(inverse, n_sums, scale);
                clear(scores, n_pairs);
                add_products(n_pairs, scores, of_fold, n_pairs, scale, n_sums);
                top.begin();
                for (size_t l = 0, pair = 0; l < n_left; l++)
                    for (size_t r = 0; r < n_right; r++, pair++)
                        top.offer(scores[pair] * a[l] * b[r], pair);
                for (size_t lane = 0; lane < block.n_rows; lane++) {
                    const size_t row = rows.first + lane;
                    for (size_t s = 0; s < n_sums; s += LANES) {
                        const size_t some = smaller(LANES, n_sums - s);
                        const vec one_over_sums = load(inverse + row * n_sums + s, some, 0.0f);
                        vec others = all(1.0f);
                        for (size_t m = 0; m < n_shares; m++) {
                            const size_t pair = top.place(m, lane);
                            const float value = a[pair / n_right][lane] * b[pair % n_right][lane];
                            const vec share = load(of_pair + pair * n_sums + s, some, 0.0f) * value * one_over_sums;
                            store(shares + (row * n_shares + m) * n_sums + s, share, some);
                            others -= share;
                        }
                        store(rest + row * n_sums + s, others < rounding ? vec{} : others, some);
                    }
                }
            }
        }
        return 0;
    });
}

// What the moves of both sides' nodes do to the sums (F, N, S) over all pairs of them: by how much the means (F, N, S) of
// their logarithms move, the covariance (F, N, S, S) of those, and the mean curvature (F, N), infinite where one is lost.
EXPORT int moved_sums(
    const float *weights, const Moving *left, const Moving *right, float rate, float negligible, float deep_fall,
    int shared, float *sums, float *mean, float *covariance, float *curvature, size_t n_sums, size_t n_rows,
    size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t begin, size_t end) {
        const Settings settings{rate, negligible, deep_fall, shared != 0};
        const size_t n_left = left->n_nodes, n_right = right->n_nodes, n_pairs = n_left * n_right;
        const size_t of_left = Mover::room(n_sums, n_left, left->n_shares);
        const size_t of_right = Mover::room(n_sums, n_right, right->n_shares);
        const Vectors room(
            (n_sums + 1) * (n_left + n_right) + n_sums * (n_sums + 2) + most(of_left, of_right));
        if (room.missing())
            return -1;
        vec *next = room.start();
        const auto take = [&](size_t n) { return next += n, next - n; };
        vec *a = take(n_left), *b = take(n_right), *by_left = take(n_sums * n_left), *by_right = take(n_sums * n_right);
        vec *totals = take(n_sums);
        Moved moved{take(n_sums), take(n_sums * n_sums), {}, {}};
        Mover of_a(*left, settings, n_sums, next), of_b(*right, settings, n_sums, next);  // one after the other
        for (size_t number = begin; number < end; number++) {
            const Task task(number, n_rows);
            const float *of_fold = weights + task.fold * n_sums * n_pairs;
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Rows rows(task, Block(task, number), n_rows);
                rows.gather(left->values, n_left, a);
                rows.gather(right->values, n_right, b);
                for (size_t s = 0; s < n_sums; s++) {
                    vec *of_left = by_left + s * n_left, *of_right = by_right + s * n_right;
                    sum_lines(of_left, of_fold + s * n_pairs, b, n_left, n_right);
                    multiply_weights(of_right, a, of_fold + s * n_pairs, 1, n_left, n_right);
                    totals[s] = vec{};
                    for (size_t l = 0; l < n_left; l++)
                        totals[s] += of_left[l] *= a[l];
                    const vec scale = one_over(totals[s]);
                    for (size_t l = 0; l < n_left; l++)
                        of_left[l] *= scale;
                    for (size_t r = 0; r < n_right; r++)
                        of_right[r] *= b[r] * scale;
                }
                clear(moved.mean, n_sums);
                clear(moved.covariance, n_sums * n_sums);
                moved.bend = vec{}, moved.lost = ivec{};
                of_a.add(rows, by_left, moved);
                of_b.add(rows, by_right, moved);
                for (size_t s = 0; s < n_sums; s++)
                    for (size_t t = 0; t < s; t++)
                        moved.covariance[t * n_sums + s] = moved.covariance[s * n_sums + t];
                const vec bend = moved.bend * (1.0f / static_cast<float>(n_sums));
                const vec curved = moved.lost ? all(INFINITY) : bend;
                rows.scatter(totals, n_sums, sums);
                rows.scatter(moved.mean, n_sums, mean);
                rows.scatter(moved.covariance, n_sums * n_sums, covariance);
                rows.scatter(&curved, 1, curvature);
            }
        }
        return 0;
    });
}
