// Products of matrices: of vectors, one matrix for each row of a block; and of numbers, over rows.
#pragma once

#include "lanes.h"

namespace {

template <int n_lines, int n_columns>
INLINE void multiply_tile(vec *out, const vec *x, const vec *y, size_t n_inner, size_t width)
{
    vec total[n_lines][n_columns];
    UNROLL for (int i = 0; i < n_lines; i++)
        UNROLL for (int j = 0; j < n_columns; j++) total[i][j] = out[i * width + j];
    for (size_t k = 0; k < n_inner; k++)
        UNROLL for (int i = 0; i < n_lines; i++)
            UNROLL for (int j = 0; j < n_columns; j++) total[i][j] += x[i * n_inner + k] * y[k * width + j];
    UNROLL for (int i = 0; i < n_lines; i++)
        UNROLL for (int j = 0; j < n_columns; j++) out[i * width + j] = total[i][j];
}

// out[i][j] += sum_k x[i][k] y[k][j], of matrices (lines, inner) and (inner, width), for the first columns
inline void multiply(vec *out, const vec *x, const vec *y, size_t n_lines, size_t n_inner, size_t n_columns, size_t width)
{
    for (size_t line = 0; line < n_lines; line += TILE_LINES)
        with_size<TILE_LINES>(smaller(TILE_LINES, n_lines - line), [&](auto lines) {
            for (size_t column = 0; column < n_columns; column += TILE_COLUMNS)
                with_size<TILE_COLUMNS>(smaller(TILE_COLUMNS, n_columns - column), [&](auto columns) {
                    multiply_tile<lines, columns>(
                        out + line * width + column, x + line * n_inner, y + column, n_inner, width);
                });
        });
}

template <int n_columns>
INLINE void weigh_lines(vec *out, const vec *x, const float *weights, size_t n_lines, size_t n_inner, size_t width)
{
    for (size_t line = 0; line < n_lines; line++, x += n_inner, out += width) {
        const float *from = weights;
        vec total[n_columns];
        UNROLL for (int j = 0; j < n_columns; j++) total[j] = vec{};
        for (size_t k = 0; k < n_inner; k++, from += width)
            UNROLL for (int j = 0; j < n_columns; j++) total[j] += from[j] * x[k];
        UNROLL for (int j = 0; j < n_columns; j++) out[j] = total[j];
    }
}

// out[i][j] = sum_k x[i][k] weights[k * width + j], of a matrix (lines, inner)
inline void multiply_weights(vec *out, const vec *x, const float *weights, size_t n_lines, size_t n_inner, size_t width)
{
    const size_t tile = tile_size(width);
    for (size_t column = 0; column < width; column += tile)
        with_size<MOST_SUMS>(smaller(tile, width - column), [&](auto columns) {
            weigh_lines<columns>(out + column, x, weights + column, n_lines, n_inner, width);
        });
}

template <int n_lines> INLINE void sum_some_lines(vec *marginal, const float *weights, const vec *values, size_t n)
{
    vec total[n_lines];
    UNROLL for (int i = 0; i < n_lines; i++) total[i] = vec{};
    for (size_t k = 0; k < n; k++)
        UNROLL for (int i = 0; i < n_lines; i++) total[i] += weights[i * n + k] * values[k];
    UNROLL for (int i = 0; i < n_lines; i++) marginal[i] = total[i];
}

// marginal[l] = sum_r weights[l * n + r] values[r]
inline void sum_lines(vec *marginal, const float *weights, const vec *values, size_t n_lines, size_t n)
{
    for (size_t line = 0; line < n_lines; line += TILE_LINES)
        with_size<TILE_LINES>(smaller(TILE_LINES, n_lines - line), [&](auto lines) {
            sum_some_lines<lines>(marginal + line, weights + line * n, values, n);
        });
}

// out[j][i] = x[i][j], of a matrix (lines, columns)
inline void turn(vec *out, const vec *x, size_t n_lines, size_t n_columns)
{
    for (size_t i = 0; i < n_lines; i++)
        for (size_t j = 0; j < n_columns; j++)
            out[j * n_lines + i] = x[i * n_columns + j];
}

// out[i][j] += sum_k x[i][k] y[k][j] for j <= i and some beyond, of matrices (lines, inner) and (inner, lines)
inline void multiply_below(vec *out, const vec *x, const vec *y, size_t n_lines, size_t n_inner)
{
    for (size_t i = 0; i < n_lines; i += TILE_LINES) {
        const size_t some = smaller(TILE_LINES, n_lines - i);
        multiply(out + i * n_lines, x + i * n_inner, y, some, n_inner, i + some, n_lines);
    }
}

// sums[t][s] += sum_ij m_t[i] C_ij m_s[j] for s <= t, where C is a matrix, or the diagonal of one. The matrix m is given
// turned as well; m C is left in passed.
inline void add_quadratic(
    vec *sums, const vec *m, const vec *turned, const vec *C, bool as_matrix, size_t n_sums, size_t n, vec *passed)
{
    if (as_matrix) {
        clear(passed, n_sums * n);
        multiply(passed, m, C, n_sums, n, n, n);
    } else
        for (size_t t = 0; t < n_sums; t++)
            for (size_t i = 0; i < n; i++)
                passed[t * n + i] = m[t * n + i] * C[i];
    multiply_below(sums, passed, turned, n_sums, n);
}

constexpr size_t CHUNK_ROWS = 64;  // that are added up together
constexpr int TILE_SUMS = MOST_SUMS > 12 ? 5 : 3, TILE_VECTORS = MOST_SUMS > 12 ? 4 : 3;

INLINE vec load_whole(const float *from)
{
    vec x;
    memcpy(&x, from, sizeof x);
    return x;
}

INLINE void store_whole(float *to, vec x) { memcpy(to, &x, sizeof x); }

template <int n_sums, int n_vectors>
INLINE void add_outer(
    float *out, size_t out_step, const float *factors, size_t factor_step, const float *values, size_t value_step,
    size_t n_rows)
{
    vec total[n_sums][n_vectors];
    UNROLL for (int t = 0; t < n_sums; t++)
        UNROLL for (int k = 0; k < n_vectors; k++) total[t][k] = load_whole(out + t * out_step + k * LANES);
    for (size_t row = 0; row < n_rows; row++)
        UNROLL for (int t = 0; t < n_sums; t++)
            UNROLL for (int k = 0; k < n_vectors; k++)
                total[t][k] += factors[t * factor_step + row] * load_whole(values + row * value_step + k * LANES);
    UNROLL for (int t = 0; t < n_sums; t++)
        UNROLL for (int k = 0; k < n_vectors; k++) store_whole(out + t * out_step + k * LANES, total[t][k]);
}

// Room for so many numbers and for a vector that begins at the last of them.
inline size_t padded(size_t n) { return (n + 2 * LANES - 1) / LANES * LANES; }

// sums[t][k] += sum over rows of factors[t][row] values[row][k], for the columns k of lines of a padded width
inline void add_rows(
    float *sums, size_t width, size_t n_sums, const float *factors, size_t factor_step, const float *values,
    size_t n_columns, size_t n_rows)
{
    const size_t n_vectors = (n_columns + LANES - 1) / LANES;
    for (size_t k = 0; k < n_vectors; k += TILE_VECTORS)
        with_size<TILE_VECTORS>(smaller(TILE_VECTORS, n_vectors - k), [&](auto vectors) {
            for (size_t t = 0; t < n_sums; t += TILE_SUMS)
                with_size<TILE_SUMS>(smaller(TILE_SUMS, n_sums - t), [&](auto n) {
                    add_outer<n, vectors>(
                        sums + t * width + k * LANES, width, factors + t * factor_step, factor_step, values + k * LANES,
                        width, n_rows);
                });
        });
}

}  // namespace
