// Rows of a batch in the lanes of a vector: what all kernels for processors share.
//
// Values lie with their rows last, so that a vector holds one node of LANES rows. All of its rows meet the same weight:
// a product of matrices is a loop of "one weight times one vector", added to as many vectors as registers hold. The
// vectors are those of GCC and Clang, as wide as the target has them.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>
#if defined(__AVX512F__)
#include <immintrin.h>
#endif

#define INLINE inline __attribute__((always_inline))
#define EXPORT extern "C" __attribute__((visibility("default")))
#define UNROLL _Pragma("GCC unroll 32")

namespace {

#if defined(__AVX512F__)
constexpr size_t LANES = 16;
constexpr int MOST_SUMS = 24;  // of the 32 registers
constexpr int TILE_LINES = 5, TILE_COLUMNS = 5;
#elif defined(__AVX2__)
constexpr size_t LANES = 8;
constexpr int MOST_SUMS = 12;  // of the 16 registers
constexpr int TILE_LINES = 3, TILE_COLUMNS = 3;
#else
constexpr size_t LANES = 4;
constexpr int MOST_SUMS = 24;  // of the 32 registers of ARM
constexpr int TILE_LINES = 4, TILE_COLUMNS = 5;
#endif
constexpr size_t TASK_ROWS = 256;  // so many share the reading of weights; a multiple of LANES
constexpr size_t MOST_TERMS = 512;  // added up in a row: sums of sums lose fewer digits

typedef float vec __attribute__((vector_size(LANES * 4)));
typedef int32_t ivec __attribute__((vector_size(LANES * 4)));
typedef uint32_t uvec __attribute__((vector_size(LANES * 4)));

// Rows of a fold that are computed together, by one thread.
struct Task {
    size_t fold, row, n_rows;

    Task(size_t number, size_t all_rows)
    {
        const size_t n_groups = (all_rows + TASK_ROWS - 1) / TASK_ROWS;
        fold = number / n_groups;
        row = number % n_groups * TASK_ROWS;
        n_rows = all_rows - row < TASK_ROWS ? all_rows - row : TASK_ROWS;
    }

    size_t n_blocks() const { return (n_rows + LANES - 1) / LANES; }
};

// Rows of a task that fill a vector, or what is left of them: where they are among all rows, and how many.
struct Block {
    size_t row, n_rows;

    Block(size_t row, size_t n_rows) : row(row), n_rows(n_rows) {}

    Block(const Task &task, size_t number)
        : row(task.row + number * LANES), n_rows(task.n_rows - number * LANES < LANES ? task.n_rows - number * LANES : LANES)
    {
    }
};

// Memory for vectors.
class Vectors {
  public:
    explicit Vectors(size_t n) : memory(aligned_alloc(64, (n * sizeof(vec) + 63) / 64 * 64)) {}
    ~Vectors() { free(memory); }
    Vectors(const Vectors &) = delete;
    bool missing() const { return memory == nullptr; }
    vec *start() const { return static_cast<vec *>(memory); }

  private:
    void *memory;
};

INLINE size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

INLINE vec all(float x) { return x - vec{}; }

INLINE void clear(vec *values, size_t n) { memset(values, 0, n * sizeof(vec)); }

// Lanes beyond the last row are given a value that does no harm.
INLINE vec load(const float *from, size_t n_rows, float beyond)
{
    if (__builtin_expect(n_rows == LANES, true)) {
        vec x;
        memcpy(&x, from, sizeof x);
        return x;
    }
#if defined(__AVX512F__)
    return (vec)_mm512_mask_loadu_ps((__m512)all(beyond), (__mmask16)((1u << n_rows) - 1), from);
#else
    vec x = all(beyond);
    memcpy(&x, from, n_rows * sizeof *from);
    return x;
#endif
}

INLINE void store(float *to, vec x, size_t n_rows)
{
    if (__builtin_expect(n_rows == LANES, true)) {
        memcpy(to, &x, sizeof x);
        return;
    }
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << n_rows) - 1), (__m512)x);
#else
    memcpy(to, &x, n_rows * sizeof *to);
#endif
}

INLINE vec larger(vec x, vec y) { return x > y ? x : y; }
INLINE vec at_most(vec x, float limit) { return x > limit ? all(limit) : x; }  // what is not a number stays so
INLINE vec at_least(vec x, float limit) { return x < limit ? all(limit) : x; }

// Whether any lane of the result of a comparison is true.
INLINE bool any_lane(ivec mask)
{
#if defined(__AVX512F__)
    return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#else
    int32_t lanes[LANES], found = 0;
    memcpy(lanes, &mask, sizeof lanes);
    for (size_t lane = 0; lane < LANES; lane++)
        found |= lanes[lane];
    return found != 0;
#endif
}

// e^x of numbers up to 0, to float32's digits: 2^n e^r with |r| at most log(2) / 2. Below the smallest normal number it
// is 0; what is not a number stays so.
INLINE vec exponential(vec x)
{
    const float magic = 12582912.0f;  // 1.5 * 2^23: adding it rounds to a whole number, in the last bits
    const vec shifted = x * 1.44269504f + magic;
    const vec n = shifted - magic;
    const vec r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
    vec p = r * 0.00138131448f + 0.00836941879f;
    p = p * r + 0.041668456f;
    p = p * r + 0.166665152f;
    p = p * r + 0.49999994f;
    p = p * (r * r) + r + 1.0f;
    const vec power = p * (vec)(((uvec)shifted << 23) + 0x3f800000u);
    return x < -87.33654f ? vec{} : power;
}

// log(x) of finite numbers from 0 on, to float32's digits: e log(2) + log(1 + f), with 1 + f between the roots of 1/2
// and of 2. What is not a number stays so.
INLINE vec logarithm(vec x)
{
    const ivec small = x < 1.17549435e-38f;
    const vec normal = small ? x * 8388608.0f : x;  // 2^23
    const ivec bits = (ivec)normal;
    const ivec above = bits - 0x3f3504f3;  // the root of 1/2
    const vec e = __builtin_convertvector((above >> 23) - (small & 23), vec);
    const vec f = (vec)(bits - (above & (int32_t)0xff800000)) - 1.0f;
    vec p = f * -0.0763449967f + 0.127615824f;
    p = p * f + -0.13160184f;
    p = p * f + 0.142017573f;
    p = p * f + -0.166233569f;
    p = p * f + 0.200012267f;
    p = p * f + -0.250008196f;
    p = p * f + 0.333333313f;
    const vec square = f * f;
    vec found = p * (f * square) + e * -2.12194440e-4f;
    found = found - 0.5f * square + f + e * 0.693359375f;
    found = x == 0.0f ? all(-INFINITY) : found;
    return x >= 0.0f ? found : all(NAN);
}

// Call with a size, from 1 to the most, that is known when the code is compiled: vectors then stay in registers.
template <typename Call, int... below>
INLINE void of_size(size_t n, const Call &call, std::integer_sequence<int, below...>)
{
    using Of = void (*)(const Call &);
    static constexpr Of of[] = {[](const Call &call) { call(std::integral_constant<int, below + 1>()); }...};
    of[n - 1](call);
}

template <int most, typename Call> INLINE void with_size(size_t n, const Call &call)
{
    of_size(n, call, std::make_integer_sequence<int, most>());
}

// Tiles of sums: of about the same size, and at most MOST_SUMS.
INLINE size_t tile_size(size_t n_sums)
{
    const size_t n_tiles = (n_sums + MOST_SUMS - 1) / MOST_SUMS;
    return (n_sums + n_tiles - 1) / n_tiles;
}

template <int n_sums>
INLINE void add_products(vec *sums, const float *weights, size_t step, const vec *values, size_t n_values)
{
    vec total[n_sums];
    UNROLL for (int t = 0; t < n_sums; t++) total[t] = vec{};
    for (size_t k = 0; k < n_values; k++, weights += step)
        UNROLL for (int t = 0; t < n_sums; t++) total[t] += weights[t] * values[k];
    UNROLL for (int t = 0; t < n_sums; t++) sums[t] += total[t];
}

// sums[t] += sum_k weights[k * step + t] * values[k]
inline void add_products(
    size_t n_sums, vec *sums, const float *weights, size_t step, const vec *values, size_t n_values)
{
    const size_t tile = tile_size(n_sums);
    for (size_t k = 0; k < n_values; k += MOST_TERMS)
        for (size_t t = 0; t < n_sums; t += tile)
            with_size<MOST_SUMS>(smaller(tile, n_sums - t), [&](auto size) {
                add_products<size>(
                    sums + t, weights + k * step + t, step, values + k, smaller(MOST_TERMS, n_values - k));
            });
}

typedef float four __attribute__((vector_size(16)));
#ifdef __clang__
#define SHUFFLE(a, b, i, j, k, l) __builtin_shufflevector(a, b, i, j, k, l)
#else
typedef int32_t four_places __attribute__((vector_size(16)));
#define SHUFFLE(a, b, i, j, k, l) __builtin_shuffle(a, b, four_places{i, j, k, l})
#endif

// Four lines of four numbers become four columns.
INLINE void transpose_four(const float *from, size_t step, float *to, size_t to_step)
{
    four line[4];
    for (size_t i = 0; i < 4; i++)
        memcpy(&line[i], from + i * step, sizeof(four));
    const four low = SHUFFLE(line[0], line[1], 0, 4, 1, 5), high = SHUFFLE(line[0], line[1], 2, 6, 3, 7);
    const four next_low = SHUFFLE(line[2], line[3], 0, 4, 1, 5), next_high = SHUFFLE(line[2], line[3], 2, 6, 3, 7);
    line[0] = SHUFFLE(low, next_low, 0, 1, 4, 5);
    line[1] = SHUFFLE(low, next_low, 2, 3, 6, 7);
    line[2] = SHUFFLE(high, next_high, 0, 1, 4, 5);
    line[3] = SHUFFLE(high, next_high, 2, 3, 6, 7);
    for (size_t i = 0; i < 4; i++)
        memcpy(to + i * to_step, &line[i], sizeof(four));
}

// to[k * to_step + t] = from[t * step + k]
inline void transpose(const float *from, size_t step, size_t n_lines, size_t n_columns, float *to, size_t to_step)
{
    const size_t lines = n_lines / 4 * 4, columns = n_columns / 4 * 4;
    for (size_t t = 0; t < lines; t += 4)
        for (size_t k = 0; k < columns; k += 4)
            transpose_four(from + t * step + k, step, to + k * to_step + t, to_step);
    for (size_t t = 0; t < n_lines; t++)
        for (size_t k = t < lines ? columns : 0; k < n_columns; k++)
            to[k * to_step + t] = from[t * step + k];
}

// Values with their rows last: where those of a fold and of a node begin.
struct Values {
    const float *start;
    size_t fold_step, node_step, n_nodes;

    // Those of a task as [block][node], exponentiated if they are logarithms.
    void gather(const Task &task, vec *to, bool logarithms) const
    {
        for (size_t number = 0; number < task.n_blocks(); number++) {
            const Block block(task, number);
            const float *from = start + task.fold * fold_step + block.row;
            for (size_t node = 0; node < n_nodes; node++) {
                const vec value = load(from + node * node_step, block.n_rows, 0.0f);
                *to++ = logarithms ? exponential(value) : value;
            }
        }
    }
};

}  // namespace
