/*!
 * Multiplies a sparse matrix with a dense one. Sums are in float, in the order of the values of a row.
 *
 * Plan: a task is a piece of the merge path of ends of rows and values, as long as every other. Of each value the row
 * of the dense factor that its column names is loaded, scaled and added to the sum of its row (Axpy). Sums of rows that
 * lie in one task go to the output; the parts of rows that tasks share go to the workspace, two a task at most, and
 * after a barrier the task in which such a row ends adds them up, first to last. So results depend on neither the
 * number of cores nor their order. With a column or an end of a row out of range the kernel stops before it reads
 * anything by it. Bound: memory, a row of the dense factor for each value.
 */
#ifndef MS_ASCEND_OPS_SPARSE_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_SPARSE_MATMUL_KERNEL_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/csr_rows.h"
#include "primitives/tile.h"
#include "sparse_matmul_tiling.h"

namespace ms_ascend_ops {

template <typename T>
class SparseMatmul {
public:
    __aicore__ inline void Init(GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR values, GM_ADDR dense, GM_ADDR y,
                                GM_ADDR workspace, const SparseMatmulTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pattern_.Init(rowEnds, indices, tiling.rows, tiling.entries, tiling.inner);
        path_.Init(tiling.perTask);
        values_.Init(values, tiling.entries);
        denseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dense), tiling.inner * tiling.cols);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * tiling.cols);
        partGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace), 2 * tiling.tasks * tiling.partialStride);
        pipe.InitBuffer(inQueueRow_, static_cast<uint8_t>(tiling.rowBuffers), tiling.tileCols * sizeof(T));
        pipe.InitBuffer(partQueue_, 1, tiling.tileCols * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, tiling.tileCols * sizeof(float));
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(sumBuf_, tiling.tileCols * sizeof(float));
            pipe.InitBuffer(rowBuf_, tiling.tileCols * sizeof(float));
            sum_ = sumBuf_.template Get<float>();
            row_ = rowBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process(AscendC::TPipe& pipe)
    {
        const CoreShare tasks = ShareOf(tiling_.tasks, tiling_.tasksPerCore);
        for (uint64_t col = 0; col < tiling_.cols; col += tiling_.tileCols) {
            col_ = col;
            cols_ =
                static_cast<uint32_t>(tiling_.cols - col < tiling_.tileCols ? tiling_.cols - col : tiling_.tileCols);
            uint64_t row = path_.FirstRow(pattern_, tasks.begin);
            for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
                row = path_.AddUp(pattern_, task, row, *this);
            }
        }
        if (tiling_.tasks <= 1) {
            return;
        }
        if (AscendC::GetBlockNum() > 1) {
            AscendC::SyncAll();
        } else {
            WaitForStores(pipe);
        }
        for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
            path_.Combine(pattern_, task, *this);
        }
    }

    __aicore__ inline void StorePart(uint64_t part, uint64_t entry, uint64_t end)
    {
        AscendC::LocalTensor<float> sum = outQueue_.template AllocTensor<float>();
        AddRows(sum, entry, end);
        StoreQueued(outQueue_, PartAt(part), sum, {1, cols_, cols_, cols_});
    }

    __aicore__ inline void StoreRow(uint64_t row, uint64_t entry, uint64_t end)
    {
        AscendC::LocalTensor<T> out = outQueue_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> sum = FloatTarget(out, sum_);
        AddRows(sum, entry, end);
        FromFloat(out, sum, cols_);
        StoreQueued(outQueue_, yGm_[row * tiling_.cols + col_], out, {1, cols_, cols_, cols_});
    }

    __aicore__ inline void Combine(uint64_t row, uint64_t first, uint64_t task)
    {
        for (col_ = 0; col_ < tiling_.cols; col_ += tiling_.tileCols) {
            cols_ =
                static_cast<uint32_t>(tiling_.cols - col_ < tiling_.tileCols ? tiling_.cols - col_ : tiling_.tileCols);
            AscendC::LocalTensor<T> out = outQueue_.template AllocTensor<T>();
            const AscendC::LocalTensor<float> sum = FloatTarget(out, sum_);
            AscendC::Duplicate(sum, 0.0f, static_cast<int32_t>(cols_));
            for (uint64_t part = first; part <= task; ++part) {
                AscendC::LocalTensor<float> local = partQueue_.template AllocTensor<float>();
                LoadRows(local, PartAt(part < task ? 2 * part + 1 : 2 * part), {1, cols_, cols_, cols_});
                partQueue_.EnQue(local);
                local = partQueue_.template DeQue<float>();
                AscendC::Add(sum, sum, local, static_cast<int32_t>(cols_));
                partQueue_.FreeTensor(local);
            }
            FromFloat(out, sum, cols_);
            StoreQueued(outQueue_, yGm_[row * tiling_.cols + col_], out, {1, cols_, cols_, cols_});
        }
    }

private:
    // Each task has two: the row that ends in it, and the one that goes on.
    __aicore__ inline AscendC::GlobalTensor<float> PartAt(uint64_t part)
    {
        return partGm_[part * tiling_.partialStride + col_];
    }

    __aicore__ inline void AddRows(const AscendC::LocalTensor<float>& sum, uint64_t entry, uint64_t end)
    {
        AscendC::Duplicate(sum, 0.0f, static_cast<int32_t>(cols_));
        for (; entry < end; ++entry) {
            const uint64_t column = pattern_.ColumnOf(entry);
            const float value = values_.At(entry);
            AscendC::LocalTensor<T> row = inQueueRow_.template AllocTensor<T>();
            LoadRows(row, denseGm_[column * tiling_.cols + col_], {1, cols_, cols_, cols_});
            inQueueRow_.EnQue(row);
            row = inQueueRow_.template DeQue<T>();
            AscendC::Axpy(sum, ToFloat(row, row_, cols_), value, static_cast<int32_t>(cols_));
            inQueueRow_.FreeTensor(row);
        }
    }

    SparseMatmulTilingData tiling_;
    uint64_t col_ = 0;
    uint32_t cols_ = 0;
    CsrRows pattern_;
    MergePath path_;
    ScalarValues<T> values_;
    AscendC::GlobalTensor<T> denseGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> partGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueRow_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> partQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuf_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> row_;
};

template <typename T>
__aicore__ inline void SparseMatmulKernel(GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR values, GM_ADDR dense, GM_ADDR y,
                                          GM_ADDR workspace, const SparseMatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    SparseMatmul<T> kernel;
    kernel.Init(rowEnds, indices, values, dense, y, workspace, tiling, pipe);
    kernel.Process(pipe);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SPARSE_MATMUL_KERNEL_H
