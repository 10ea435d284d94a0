/*!
 * Computes the gradient of the values of a sparse matrix in float, a sampled product of dense matrices: that of a value
 * is the product of a row of dy with a row of the dense factor.
 *
 * Plan: values are shared out evenly. Of some at a time the columns are read, and each has 64 lanes of sums; a row of
 * dy is loaded once for those of its values. With a column or an end of a row out of range the kernel stops before it
 * reads anything by it. Bound: memory, a row of the dense factor for each value.
 */
#ifndef MS_ASCEND_OPS_SPARSE_MATMUL_GRAD_KERNEL_H
#define MS_ASCEND_OPS_SPARSE_MATMUL_GRAD_KERNEL_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/csr_rows.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "sparse_matmul_tiling.h"

namespace ms_ascend_ops {

template <typename T>
class SparseMatmulGrad {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR dense, GM_ADDR dvalues,
                                const SparseMatmulGradTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pattern_.Init(rowEnds, indices, tiling.rows, tiling.entries, tiling.inner);
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy), tiling.rows * tiling.cols);
        denseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dense), tiling.inner * tiling.cols);
        dvalueGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dvalues), tiling.entries);
        pipe.InitBuffer(inQueueDy_, 2, tiling.tileCols * sizeof(T));
        pipe.InitBuffer(inQueueRow_, static_cast<uint8_t>(tiling.rowBuffers), tiling.tileCols * sizeof(T));
        pipe.InitBuffer(outQueue_, 2, CHUNK * sizeof(float));
        pipe.InitBuffer(laneBuf_, CHUNK * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(sumBuf_, CHUNK * sizeof(float));
        pipe.InitBuffer(productBuf_, tiling.tileCols * sizeof(float));
        lanes_ = laneBuf_.template Get<float>();
        sums_ = sumBuf_.template Get<float>();
        product_ = productBuf_.template Get<float>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(floatBuf_, 2 * tiling.tileCols * sizeof(float));
            dy_ = floatBuf_.template Get<float>();
            row_ = dy_[tiling.tileCols];
        }
    }

    __aicore__ inline void Process()
    {
        const CoreShare tasks = ShareOf(tiling_.tasks, tiling_.tasksPerCore);
        const uint64_t last = tasks.end * tiling_.perTask;
        const uint64_t end = last < tiling_.entries ? last : tiling_.entries;
        uint64_t entry = tasks.begin * tiling_.perTask;
        if (entry >= end) {
            return;
        }
        uint64_t row = pattern_.RowOf(entry);
        for (; entry < end; entry += CHUNK) {
            count_ = static_cast<uint32_t>(end - entry < CHUNK ? end - entry : CHUNK);
            row = ReadPlaces(entry, row);
            AscendC::Duplicate(lanes_, 0.0f, static_cast<int32_t>(count_ * FLOAT_LANES));
            for (uint64_t col = 0; col < tiling_.cols; col += tiling_.tileCols) {
                Multiply(col);
            }
            AscendC::LocalTensor<T> out = outQueue_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> sums = FloatTarget(out, sums_);
            ReduceRepeats<AddOf>(sums, lanes_, FLOAT_LANES, count_, FLOAT_LANES);
            FromFloat(out, sums, count_);
            StoreQueued(outQueue_, dvalueGm_[entry], out, {1, count_, count_, count_});
        }
    }

private:
    static constexpr uint32_t CHUNK = 128;  // values whose sums stay in the Unified Buffer

    // Reads rows and columns of the values of a chunk, whose first is in `row` or a later one. Returns the last row.
    __aicore__ inline uint64_t ReadPlaces(uint64_t entry, uint64_t row)
    {
        uint64_t end = pattern_.EndOf(row, pattern_.BeginOf(row));
        for (uint32_t i = 0; i < count_; ++i) {
            while (end <= entry + i) {
                ++row;
                end = pattern_.EndOf(row, end);
            }
            rows_[i] = static_cast<uint32_t>(row);
            columns_[i] = static_cast<uint32_t>(pattern_.ColumnOf(entry + i));
        }
        return row;
    }

    __aicore__ inline void Multiply(uint64_t col)
    {
        const uint32_t cols =
            static_cast<uint32_t>(tiling_.cols - col < tiling_.tileCols ? tiling_.cols - col : tiling_.tileCols);
        for (uint32_t i = 0; i < count_;) {
            const uint32_t row = rows_[i];
            AscendC::LocalTensor<T> dy = Load(inQueueDy_, dyGm_[row * tiling_.cols + col], cols);
            const AscendC::LocalTensor<float> dyFloat = ToFloat(dy, dy_, cols);
            for (; i < count_ && rows_[i] == row; ++i) {
                AscendC::LocalTensor<T> other = Load(inQueueRow_, denseGm_[columns_[i] * tiling_.cols + col], cols);
                AscendC::Mul(product_, dyFloat, ToFloat(other, row_, cols), static_cast<int32_t>(cols));
                inQueueRow_.FreeTensor(other);
                FoldLanes<AddOf>(lanes_[i * FLOAT_LANES], product_, {1, cols, tiling_.tileCols});
            }
            inQueueDy_.FreeTensor(dy);
        }
    }

    template <class QUEUE>
    __aicore__ inline AscendC::LocalTensor<T> Load(QUEUE& queue, const AscendC::GlobalTensor<T>& src, uint32_t cols)
    {
        AscendC::LocalTensor<T> local = queue.template AllocTensor<T>();
        LoadRows(local, src, {1, cols, cols, cols});
        queue.EnQue(local);
        return queue.template DeQue<T>();
    }

    SparseMatmulGradTilingData tiling_;
    uint32_t count_ = 0;
    uint32_t rows_[CHUNK];
    uint32_t columns_[CHUNK];
    CsrRows pattern_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> denseGm_;
    AscendC::GlobalTensor<T> dvalueGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueRow_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::LocalTensor<float> lanes_;
    AscendC::LocalTensor<float> sums_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> dy_;
    AscendC::LocalTensor<float> row_;
};

template <typename T>
__aicore__ inline void SparseMatmulGradKernel(GM_ADDR dy, GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR dense,
                                              GM_ADDR dvalues, [[maybe_unused]] GM_ADDR workspace,
                                              const SparseMatmulGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    SparseMatmulGrad<T> kernel;
    kernel.Init(dy, rowEnds, indices, dense, dvalues, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SPARSE_MATMUL_GRAD_KERNEL_H
