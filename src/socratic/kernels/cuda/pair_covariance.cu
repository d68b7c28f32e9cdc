// Relative covariances of sums over all pairs of left and right nodes.
//
// With L and R the covariances of both sides, times the values a and b, and the weights W_s of a sum as a matrix, the
// covariance of the sums s and t is, over the product of both,
//
//     sum_lr (L W_s)_lr (W_t R)_lr + (a W_s) R (a W_t)' + (W_s b)' L (W_t b)
//
// All terms are positive: nothing cancels. The second one is the first with a a' for L. The third one is that of one
// more right node, whose weights are W_s b and which is certain to pass W_t b on.
//
// A block takes rows of a fold one after the other. Its threads have PART sums each, of a left node while the weights
// are multiplied with R, and of a right node while they are multiplied with L and both products with each other; what
// each right node adds is summed up at the end. Products stay in registers and in the memory that a block shares, where
// what is known of the next row arrives while one is computed.
//
// The size of a layer is given when this is compiled: N_SUMS, N_LEFT and N_RIGHT nodes, CERTAIN, which says that no node
// has any variance (1), so that all there is to do is to divide by the sums, and ROOM, the numbers that a block shares.

constexpr int PART = 4;  // sums of a thread, and numbers that are read at once

constexpr int padded(int n) { return (n + PART - 1) / PART * PART; }
constexpr int larger(int x, int y) { return x > y ? x : y; }

constexpr int SUMS = padded(N_SUMS), LEFT = padded(N_LEFT), RIGHT = padded(N_RIGHT);
constexpr int GROUPS = SUMS / PART;
constexpr int THREADS = (GROUPS * larger(N_LEFT, N_RIGHT + 1) + 31) / 32 * 32;
constexpr int WIDTH = larger(N_LEFT, SUMS) * SUMS;
constexpr int STEP = WIDTH + (WIDTH / PART % 2 ? 0 : PART);  // odd in parts: right nodes lie in different banks
constexpr int KNOWN = N_SUMS * (N_SUMS + 1) / 2;

constexpr int OF_LEFT = CERTAIN ? 0 : N_LEFT * LEFT, OF_RIGHT = CERTAIN ? 0 : N_RIGHT * RIGHT;
constexpr int WEIGHTS = CERTAIN ? 0 : SUMS * N_LEFT * RIGHT, PASSED = CERTAIN ? 0 : (N_RIGHT + 1) * STEP;
constexpr int STAGE = OF_LEFT + LEFT + OF_RIGHT + RIGHT + 2 * SUMS + padded(KNOWN);
static_assert(ROOM == WEIGHTS + PASSED + 2 * STAGE, "as it is asked for");

struct Values {  // (F, nodes, N)
    const float *start;
    long long fold, node;  // steps; those of rows are 1
};

// Begin to copy numbers; what was begun has arrived after finish_copies().
template <int N> __device__ void begin_copy(float *to, const float *from)
{
#ifdef __CUDACC__
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(4 * N));
#else
    copy_later<N>(to, from);
#endif
}

__device__ void finish_copies()
{
#ifdef __CUDACC__
    asm volatile("cp.async.wait_all;" ::: "memory");
#else
    copy_now();
#endif
}

__device__ float4 four(const float *from) { return *reinterpret_cast<const float4 *>(from); }
__device__ void put(float *to, float4 values) { *reinterpret_cast<float4 *>(to) = values; }

// Add x times four numbers.
__device__ void add_four(float *total, float x, float4 y)
{
    total[0] += x * y.x;
    total[1] += x * y.y;
    total[2] += x * y.z;
    total[3] += x * y.w;
}

__device__ void add_product(float &total, const float *x, float4 y)
{
    total += x[0] * y.x;
    total += x[1] * y.y;
    total += x[2] * y.z;
    total += x[3] * y.w;
}

template <int N> __device__ void begin_values(float *to, const Values &values, long long fold, int row)
{
#pragma unroll 1
    for (int node = threadIdx.x; node < N; node += THREADS)
        begin_copy<1>(to + node, values.start + fold * values.fold + node * values.node + row);
}

// Relative covariances (F, N, nodes, nodes), in lines of padded(N) numbers.
template <int N> __device__ void begin_matrix(float *to, const float *from, long long place)
{
    from += place * (N * N);
    if (N % PART == 0)
#pragma unroll 1
        for (int entry = PART * threadIdx.x; entry < N * N; entry += PART * THREADS)
            begin_copy<PART>(to + entry, from + entry);
    else
#pragma unroll 1
        for (int entry = threadIdx.x; entry < N * N; entry += THREADS)
            begin_copy<1>(to + entry / N * padded(N) + entry % N, from + entry);
}

// What is known of a row.
struct Stage {
    float *left, *a, *right, *b, *sums, *own, *known;

    __device__ Stage(float *room)
        : left(room), a(left + OF_LEFT), right(a + LEFT), b(right + OF_RIGHT), sums(b + RIGHT), own(sums + SUMS),
          known(own + SUMS)
    {
    }
};

extern "C" __global__ void __launch_bounds__(THREADS) pair_covariance(
    const float *weights,  // (F, S, A, B)
    const Values a, const Values b,
    const float *left, const float *right,  // (F, N, A, A), (F, N, B, B)
    const Values sums,
    const Values own,    // is added to the variances; its start may be null
    const float *known,  // (F, N, S (S + 1) / 2), of s <= t, is added before it is divided by the sums; or null
    float *out,          // (F, N, S, S)
    int n_rows, int rows_of_block, float limit)
{
    extern __shared__ float4 shared_memory[];
    float *w = reinterpret_cast<float *>(shared_memory);  // [t][l][r]
    float *passed = w + WEIGHTS;                          // [r][l][t]: R W', and W b for one node more
    float *stages = passed + PASSED;

    const int thread = threadIdx.x;
    const long long fold = blockIdx.y;
    const int first = blockIdx.x * rows_of_block, last = min(first + rows_of_block, n_rows);
    const auto begin = [&](int row) {
        const Stage next(stages + (row - first) % 2 * STAGE);
        if (!CERTAIN) {
            begin_matrix<N_LEFT>(next.left, left, fold * n_rows + row);
            begin_matrix<N_RIGHT>(next.right, right, fold * n_rows + row);
            begin_values<N_LEFT>(next.a, a, fold, row);
            begin_values<N_RIGHT>(next.b, b, fold, row);
        }
        begin_values<N_SUMS>(next.sums, sums, fold, row);
        if (own.start)
            begin_values<N_SUMS>(next.own, own, fold, row);
        if (known)
#pragma unroll 1
            for (int pair = thread; pair < KNOWN; pair += THREADS)
                begin_copy<1>(next.known + pair, known + (fold * n_rows + row) * KNOWN + pair);
    };

    for (int place = WEIGHTS + thread; place < ROOM; place += THREADS)  // what is padded stays 0
        w[place] = 0.0f;
    __syncthreads();
    begin(first);
    weights += fold * (N_SUMS * N_LEFT * N_RIGHT);
    for (int place = thread; place < WEIGHTS; place += THREADS) {
        const int line = place / RIGHT, r = place % RIGHT;
        w[place] = line < N_SUMS * N_LEFT && r < N_RIGHT ? weights[line * N_RIGHT + r] : 0.0f;
    }

    for (int row = first; row < last; row++) {
        const Stage now(stages + (row - first) % 2 * STAGE);
        finish_copies();
        __syncthreads();
        if (row + 1 < last)
            begin(row + 1);

        if (!CERTAIN && thread < GROUPS * N_LEFT) {
            const int l = thread % N_LEFT, t = thread / N_LEFT * PART;
            float own_weights[PART][RIGHT], marginal[PART] = {};  // times the values, and their sums
#pragma unroll
            for (int r = 0; r < RIGHT; r += PART) {
                const float4 value = four(now.b + r);
#pragma unroll
                for (int j = 0; j < PART; j++) {
                    const float4 weight = four(w + ((t + j) * N_LEFT + l) * RIGHT + r);
                    marginal[j] += own_weights[j][r] = weight.x * value.x;
                    marginal[j] += own_weights[j][r + 1] = weight.y * value.y;
                    marginal[j] += own_weights[j][r + 2] = weight.z * value.z;
                    marginal[j] += own_weights[j][r + 3] = weight.w * value.w;
                }
            }
            float *to = passed + l * SUMS + t;
            put(to + N_RIGHT * STEP, make_float4(marginal[0], marginal[1], marginal[2], marginal[3]));
#pragma unroll 2
            for (int node = 0; node < N_RIGHT; node++) {
                float total[PART] = {};
#pragma unroll
                for (int r = 0; r < RIGHT; r += PART) {
                    const float4 line = four(now.right + node * RIGHT + r);
#pragma unroll
                    for (int j = 0; j < PART; j++)
                        add_product(total[j], own_weights[j] + r, line);
                }
                const float value = now.b[node];
                put(to + node * STEP,
                    make_float4(total[0] * value, total[1] * value, total[2] * value, total[3] * value));
            }
        }
        __syncthreads();

        const int r = thread % (N_RIGHT + 1), s = thread / (N_RIGHT + 1) * PART;
        const bool busy = !CERTAIN && thread < GROUPS * (N_RIGHT + 1), one_more = r == N_RIGHT;
        float found[PART][SUMS] = {};
        if (busy) {
            float own_weights[PART][LEFT] = {}, marginal[PART] = {};
            const float *from = one_more ? passed + r * STEP + s : w + s * N_LEFT * RIGHT + r;
            const int sum_step = one_more ? 1 : N_LEFT * RIGHT, node_step = one_more ? SUMS : RIGHT;
#pragma unroll
            for (int l = 0; l < N_LEFT; l++)
#pragma unroll
                for (int j = 0; j < PART; j++)
                    marginal[j] += own_weights[j][l] = from[j * sum_step + l * node_step] * now.a[l];
#pragma unroll
            for (int j = 0; j < PART; j++)
                marginal[j] = one_more ? 0.0f : marginal[j];
#pragma unroll 2
            for (int l = 0; l < N_LEFT; l++) {
                float value[PART];
#pragma unroll
                for (int j = 0; j < PART; j++)
                    value[j] = marginal[j];
#pragma unroll
                for (int k = 0; k < LEFT; k += PART) {
                    const float4 line = four(now.left + l * LEFT + k);
#pragma unroll
                    for (int j = 0; j < PART; j++)
                        add_product(value[j], own_weights[j] + k, line);
                }
#pragma unroll
                for (int t = 0; t < SUMS; t += PART) {
                    const float4 other = four(passed + r * STEP + l * SUMS + t);
#pragma unroll
                    for (int j = 0; j < PART; j++)
                        add_four(found[j] + t, value[j] * now.a[l], other);
                }
            }
        }
        __syncthreads();  // what was passed is no longer needed
        if (busy) {
#pragma unroll
            for (int j = 0; j < PART; j++)
#pragma unroll
                for (int t = 0; t < SUMS; t += PART)
                    put(passed + r * STEP + (s + j) * SUMS + t,
                        make_float4(found[j][t], found[j][t + 1], found[j][t + 2], found[j][t + 3]));
        }
        __syncthreads();
        for (int part = thread; part < N_SUMS * GROUPS; part += THREADS) {
            const int i = part / GROUPS, t = part % GROUPS * PART;
            float total[PART] = {};
            if (known)
#pragma unroll
                for (int j = 0; j < PART; j++) {
                    const int low = min(i, t + j), high = max(i, t + j);
                    total[j] = high < N_SUMS ? now.known[low * N_SUMS - low * (low - 1) / 2 + high - low] : 0.0f;
                }
#pragma unroll
            for (int node = 0; node <= (CERTAIN ? -1 : N_RIGHT); node++)
                add_four(total, 1.0f, four(passed + node * STEP + i * SUMS + t));
            float *to = out + ((fold * n_rows + row) * N_SUMS + i) * N_SUMS + t;
            const float scale = now.sums[i];
#pragma unroll
            for (int j = 0; j < PART; j++) {
                total[j] = t + j < N_SUMS ? total[j] / (scale * now.sums[t + j]) : 0.0f;
                if (own.start && t + j == i)
                    total[j] += now.own[i];
                total[j] = total[j] > limit ? limit : total[j];  // what is not a number stays so
            }
            if (N_SUMS % PART == 0)
                put(to, make_float4(total[0], total[1], total[2], total[3]));
            else
#pragma unroll
                for (int j = 0; j < PART; j++)
                    if (t + j < N_SUMS)
                        to[j] = total[j];
        }
    }
}
