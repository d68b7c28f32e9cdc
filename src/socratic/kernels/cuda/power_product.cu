// Log-densities of leaves whose statistics are the powers 1, z, ... of deviations z, and 0 for missing values.
//
// A thread has all leaves of a region and some rows in its registers. A block takes some variables of its region after
// the other, and shares their natural parameters.
//
// The size of a layer is given when this is compiled: N_NODES leaves and N_STATISTICS powers, ROWS of a thread, and
// DEPTH, the variables that are taken at a time.

constexpr int THREADS = 128;
constexpr int PART = 4;  // numbers that are read at once
constexpr int NODES = (N_NODES + PART - 1) / PART * PART;

extern "C" __global__ void __launch_bounds__(THREADS) power_product(
    const float *natural,     // (F, I, D * T)
    const float *values,      // (U, N)
    const float *centre,      // (U,)
    const long long *picked,  // (F, D)
    float *out,               // (F, I, N)
    int n_rows, int n_picked, float limit)
{
    extern __shared__ float4 shared_memory[];
    float *shared = reinterpret_cast<float *>(shared_memory);  // [variable][power][leaf]

    const int thread = threadIdx.x;
    const long long fold = blockIdx.y;
    natural += fold * N_NODES * n_picked * N_STATISTICS;
    picked += fold * n_picked;
    int row[ROWS];
#pragma unroll
    for (int j = 0; j < ROWS; j++)
        row[j] = min((int(blockIdx.x) * ROWS + j) * THREADS + thread, n_rows - 1);

    float total[ROWS][NODES] = {};
    for (int start = 0; start < n_picked; start += DEPTH) {
        const int n_terms = min(DEPTH, n_picked - start) * N_STATISTICS;
        __syncthreads();
#pragma unroll 4
        for (int place = thread; place < n_terms * NODES; place += THREADS) {
            const int node = place / n_terms, term = place % n_terms;
            shared[term * NODES + node] =
                node < N_NODES ? natural[(node * n_picked + start) * N_STATISTICS + term] : 0.0f;
        }
        __syncthreads();
#pragma unroll 2
        for (int variable = 0; variable < n_terms / N_STATISTICS; variable++) {
            const long long entry = picked[start + variable];
            float z[ROWS], power[ROWS];
#pragma unroll
            for (int j = 0; j < ROWS; j++) {
                const float value = values[entry * n_rows + row[j]];
                power[j] = value == value ? 1.0f : 0.0f;
                z[j] = value == value ? min(max(value - centre[entry], -limit), limit) : 0.0f;
            }
#pragma unroll
            for (int number = 0; number < N_STATISTICS; number++) {
                const float *factors = shared + (variable * N_STATISTICS + number) * NODES;
#pragma unroll
                for (int node = 0; node < NODES; node += PART) {
                    const float4 factor = *reinterpret_cast<const float4 *>(factors + node);
#pragma unroll
                    for (int j = 0; j < ROWS; j++) {
                        total[j][node] += power[j] * factor.x;
                        total[j][node + 1] += power[j] * factor.y;
                        total[j][node + 2] += power[j] * factor.z;
                        total[j][node + 3] += power[j] * factor.w;
                    }
                }
#pragma unroll
                for (int j = 0; j < ROWS; j++)
                    power[j] *= z[j];
            }
        }
    }
#pragma unroll
    for (int j = 0; j < ROWS; j++)
        if ((int(blockIdx.x) * ROWS + j) * THREADS + thread < n_rows)
#pragma unroll
            for (int node = 0; node < N_NODES; node++)
                out[(fold * N_NODES + node) * n_rows + row[j]] = total[j][node];
}
