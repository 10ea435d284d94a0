/*!
 * Multiplies a matrix of sparse blocks with a dense one. Sums are in float, in the order of the blocks of a row.
 *
 * Plan: a task is a piece of the merge path of ends of rows of blocks and blocks, as in sparse_matmul. The cube
 * multiplies a block with the rows of the dense factor that its column names, and adds to the row of blocks of the
 * result: in place where that is float, else in the workspace, from which the vector unit rounds it. Parts of rows that
 * tasks share go to the workspace, and after a barrier the task in which such a row ends adds them up, first to last.
 * Bound: the cube, 512 operations a block and column.
 */
#ifndef MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_KERNEL_H

#include "block_sparse_matmul_tiling.h"
#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/csr_rows.h"
#include "primitives/products.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class BlockSparseMatmul {
public:
    using Operand = GmMatrix<T>;
    using Result = GmMatrix<float>;
    MatmulObject<Operand, Operand, Result> product;

    __aicore__ inline void Init(GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR blocks, GM_ADDR dense, GM_ADDR y,
                                GM_ADDR workspace, const BlockSparseMatmulTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pattern_.Init(rowEnds, indices, tiling.rows, tiling.entries, tiling.inner);
        path_.Init(tiling.perTask);
        blockGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(blocks));
        denseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dense));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        resultGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y));
        partGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace));
        pipe.InitBuffer(inQueue_, 2, tiling.tileCols * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, tiling.tileCols * sizeof(T));
        pipe.InitBuffer(sumBuf_, tiling.tileCols * sizeof(float));
        sum_ = sumBuf_.template Get<float>();
    }

    __aicore__ inline void Process()
    {
        const CoreShare tasks = ShareOf(tiling_.tasks, tiling_.tasksPerCore);
        if (tasks.begin < tasks.end) {
            uint64_t row = path_.FirstRow(pattern_, tasks.begin);
            for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
                row = path_.AddUp(pattern_, task, row, *this);
            }
        }
        product.End();
        if (tiling_.tasks <= 1) {
            return;
        }
        AscendC::SyncAll();
        for (uint64_t task = tasks.begin; task < tasks.end; ++task) {
            path_.Combine(pattern_, task, *this);
        }
    }

    __aicore__ inline void StorePart(uint64_t part, uint64_t entry, uint64_t end)
    {
        Multiply(partGm_[part * tiling_.partialStride], entry, end);
    }

    __aicore__ inline void StoreRow(uint64_t row, uint64_t entry, uint64_t end)
    {
        const AscendC::GlobalTensor<T> dst = yGm_[row * BLOCK_SIDE * tiling_.cols];
        if (entry == end) {
            Zero(dst);
            return;
        }
        if constexpr (IS_FLOAT<T>) {
            Multiply(resultGm_[row * BLOCK_SIDE * tiling_.cols], entry, end);
        } else {
            const uint64_t own = 2 * tiling_.tasks + static_cast<uint64_t>(AscendC::GetBlockIdx());
            Multiply(partGm_[own * tiling_.partialStride], entry, end);
            AddParts(dst, own, own, 1);
        }
    }

    __aicore__ inline void Combine(uint64_t row, uint64_t first, uint64_t task)
    {
        // The row may end with the last block of the task before: then the last task has no part of it.
        const bool hasLast = pattern_.EndOf(row, 0) > task * tiling_.perTask - row;
        AddParts(yGm_[row * BLOCK_SIDE * tiling_.cols], 2 * first + 1, hasLast ? 2 * task : 2 * task - 1, 2);
    }

private:
    __aicore__ inline void Multiply(const AscendC::GlobalTensor<float>& dst, uint64_t entry, uint64_t end)
    {
        const int cols = static_cast<int>(tiling_.cols);
        product.SetOrgShape(static_cast<int>(BLOCK_SIDE), cols, static_cast<int>(BLOCK_SIDE));
        for (uint64_t at = entry; at < end; ++at) {
            const uint64_t dense = pattern_.ColumnOf(at) * BLOCK_SIDE * tiling_.cols;
            for (uint64_t col = 0; col < tiling_.cols; col += tiling_.productCols) {
                const uint64_t left = tiling_.cols - col;
                product.SetSingleShape(static_cast<int>(BLOCK_SIDE),
                                       static_cast<int>(left < tiling_.productCols ? left : tiling_.productCols),
                                       static_cast<int>(BLOCK_SIDE));
                product.SetTensorA(blockGm_[at * BLOCK_SIDE * BLOCK_SIDE]);
                product.SetTensorB(denseGm_[dense + col]);
                product.template IterateAll<false>(dst[col], at == entry ? 0 : 1, false, true);
                product.WaitIterateAll();
            }
        }
    }

    __aicore__ inline uint32_t ColsAt(uint64_t col) const
    {
        return static_cast<uint32_t>(tiling_.cols - col < tiling_.tileCols ? tiling_.cols - col : tiling_.tileCols);
    }

    // Stores zeros to one row of blocks.
    __aicore__ inline void Zero(const AscendC::GlobalTensor<T>& dst)
    {
        for (uint64_t row = 0; row < BLOCK_SIDE; ++row) {
            for (uint64_t col = 0; col < tiling_.cols; col += tiling_.tileCols) {
                AscendC::LocalTensor<T> zeros = outQueue_.template AllocTensor<T>();
                const AscendC::LocalTensor<int32_t> bits = zeros.template ReinterpretCast<int32_t>();
                AscendC::Duplicate(bits, 0, static_cast<int32_t>(tiling_.tileCols * sizeof(T) / sizeof(int32_t)));
                const uint32_t cols = ColsAt(col);
                StoreQueued(outQueue_, dst[row * tiling_.cols + col], zeros, {1, cols, cols, cols});
            }
        }
    }

    // Sets dst to the sum of the parts `first`, first + step ... and `last`, and rounds it.
    __aicore__ inline void AddParts(const AscendC::GlobalTensor<T>& dst, uint64_t first, uint64_t last, uint64_t step)
    {
        for (uint64_t row = 0; row < BLOCK_SIDE; ++row) {
            for (uint64_t col = 0; col < tiling_.cols; col += tiling_.tileCols) {
                const uint32_t cols = ColsAt(col);
                const uint64_t at = row * tiling_.cols + col;
                AscendC::LocalTensor<T> out = outQueue_.template AllocTensor<T>();
                const AscendC::LocalTensor<float> sum = FloatTarget(out, sum_);
                AscendC::Duplicate(sum, 0.0f, static_cast<int32_t>(cols));
                for (uint64_t part = first; part < last; part += step) {
                    Add(sum, part, at, cols);
                }
                Add(sum, last, at, cols);
                FromFloat(out, sum, cols);
                StoreQueued(outQueue_, dst[at], out, {1, cols, cols, cols});
            }
        }
    }

    __aicore__ inline void Add(const AscendC::LocalTensor<float>& sum, uint64_t part, uint64_t at, uint32_t cols)
    {
        AscendC::LocalTensor<float> local = inQueue_.template AllocTensor<float>();
        LoadRows(local, partGm_[part * tiling_.partialStride + at], {1, cols, cols, cols});
        inQueue_.EnQue(local);
        local = inQueue_.template DeQue<float>();
        AscendC::Add(sum, sum, local, static_cast<int32_t>(cols));
        inQueue_.FreeTensor(local);
    }

    BlockSparseMatmulTilingData tiling_;
    CsrRows pattern_;
    MergePath path_;
    AscendC::GlobalTensor<T> blockGm_;
    AscendC::GlobalTensor<T> denseGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> resultGm_;  // the same, where T is float
    AscendC::GlobalTensor<float> partGm_;    // parts of rows, two of a task, then one of each core
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sumBuf_;
    AscendC::LocalTensor<float> sum_;
};

template <typename T>
__aicore__ inline void BlockSparseMatmulKernel(GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR blocks, GM_ADDR dense,
                                               GM_ADDR y, GM_ADDR workspace, const BlockSparseMatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    BlockSparseMatmul<T> kernel;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tiling.product);
    kernel.Init(rowEnds, indices, blocks, dense, y, workspace, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_KERNEL_H
