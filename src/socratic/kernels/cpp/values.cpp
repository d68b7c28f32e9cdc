// Weights normalised, and log-values made relative to the largest of their region and row.
#include "lanes.h"
#include "threads.h"

namespace {

INLINE float largest_lane(vec x)
{
    float largest = x[0];
    for (size_t lane = 1; lane < LANES; lane++)
        largest = x[lane] > largest ? x[lane] : largest;
    return largest;
}

INLINE float sum_of_lanes(vec x)
{
    float sum = 0.0f;
    for (size_t lane = 0; lane < LANES; lane++)
        sum += x[lane];
    return sum;
}

}  // namespace

// How many rows of a fold a task has at the most.
EXPORT size_t rows_of_task() { return TASK_ROWS; }

// The softmax of lines (M, K), and the smallest value of each (M,); a line is a task.
EXPORT int softmax(
    const float *logits, float *weights, float *smallest, size_t n_children, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        for (size_t line = first; line < last; line++) {
            const float *from = logits + line * n_children;
            float *to = weights + line * n_children;
            vec top = all(-INFINITY), total = vec{}, least = all(INFINITY);
            for (size_t k = 0; k < n_children; k += LANES)
                top = larger(load(from + k, smaller(LANES, n_children - k), -INFINITY), top);
            const float largest = largest_lane(top);
            for (size_t start = 0; start < n_children; start += MOST_TERMS) {
                vec part = vec{};
                for (size_t k = start; k < smaller(start + MOST_TERMS, n_children); k += LANES) {
                    const size_t n = smaller(LANES, n_children - k);
                    const vec value = exponential(load(from + k, n, -INFINITY) - largest);
                    part += value;
                    store(to + k, value, n);
                }
                total += part;
            }
            const float scale = 1.0f / sum_of_lanes(total);
            for (size_t k = 0; k < n_children; k += LANES) {
                const size_t n = smaller(LANES, n_children - k);
                const vec weight = load(to + k, n, INFINITY) * scale;
                least = weight < least ? weight : least;
                store(to + k, weight, n);
            }
            smallest[line] = -largest_lane(-least);
        }
        return 0;
    });
}

// Log-values (F, S, N) are made relative to the largest of their fold and row, which becomes a scale (F, 1, N).
EXPORT int rescale(float *log_value, double *log_scale, size_t n_nodes, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        for (size_t number = first; number < last; number++) {
            const Task task(number, n_rows);
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Block block(task, number);
                const size_t start = task.fold * n_nodes * n_rows + block.row;
                vec largest = all(-INFINITY), unknown = vec{};
                for (size_t node = 0; node < n_nodes; node++) {
                    const vec value = load(log_value + start + node * n_rows, block.n_rows, 0.0f);
                    largest = larger(value, largest);
                    unknown = value != value ? value : unknown;  // what is not a number makes its region so
                }
                largest = largest == -INFINITY ? unknown : largest + unknown;
                for (size_t node = 0; node < n_nodes; node++) {
                    const vec value = load(log_value + start + node * n_rows, block.n_rows, 0.0f);
                    store(log_value + start + node * n_rows, value - largest, block.n_rows);
                }
                for (size_t lane = 0; lane < block.n_rows; lane++)
                    log_scale[task.fold * n_rows + block.row + lane] = largest[lane];
            }
        }
        return 0;
    });
}

// Sums over repetitions of values (R, C, N), which are relative to scales (R, 1, N): logarithms (1, C, N) relative to the
// largest scale (1, 1, N).
EXPORT int join(
    const float *log_value, const double *log_scale, float *relative, double *shift, size_t n_repetitions,
    size_t n_classes, size_t n_rows, size_t n_tasks, size_t n_threads)
{
    return share(n_tasks, n_threads, [&](size_t first, size_t last) {
        const Vectors room(n_repetitions);
        if (room.missing())
            return -1;
        vec *offset = room.start();
        for (size_t number = first; number < last; number++) {
            const Task task(number, n_rows);
            for (size_t number = 0; number < task.n_blocks(); number++) {
                const Block block(task, number);
                for (size_t lane = 0; lane < block.n_rows; lane++) {
                    const double *scales = log_scale + block.row + lane;
                    double largest = scales[0];
                    for (size_t r = 1; r < n_repetitions; r++)
                        largest =
                            scales[r * n_rows] > largest || std::isnan(scales[r * n_rows]) ? scales[r * n_rows] : largest;
                    shift[block.row + lane] = largest;
                    for (size_t r = 0; r < n_repetitions; r++)
                        offset[r][lane] = static_cast<float>(scales[r * n_rows] - largest);
                }
                for (size_t c = 0; c < n_classes; c++) {
                    const float *from = log_value + c * n_rows + block.row;
                    vec top = all(-INFINITY), sum = vec{};
                    for (size_t r = 0; r < n_repetitions; r++)
                        top = larger(load(from + r * n_classes * n_rows, block.n_rows, 0.0f) + offset[r], top);
                    top = top == -INFINITY ? vec{} : top;
                    for (size_t r = 0; r < n_repetitions; r++)
                        sum += exponential(load(from + r * n_classes * n_rows, block.n_rows, 0.0f) + offset[r] - top);
                    store(relative + c * n_rows + block.row, logarithm(sum) + top, block.n_rows);
                }
            }
        }
        return 0;
    });
}
