/*!
 * Multiplies groups of rows with a matrix each, and computes the gradient of those matrices, with sums in float.
 *
 * Plan: tiles belong to one group; every core walks through all groups and takes the tiles that are its own, so that
 * results do not depend on the number of cores. The cube writes the output itself. Where K is 0 (groups without rows in
 * the gradient, rows without columns) the vector unit writes zeros.
 * Bound: the cube, 2 * m * n * k operations; with few rows a group memory, the weights of groups that have rows once.
 */
#ifndef MS_ASCEND_OPS_GROUPED_MATMUL_KERNEL_H
#define MS_ASCEND_OPS_GROUPED_MATMUL_KERNEL_H

#include "grouped_matmul_tiling.h"
#include "kernel_operator.h"
#include "primitives/cumulative_lengths.h"
#include "primitives/products.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Stores zeros to tiles of the output.
template <typename T>
class ZeroTiles {
public:
    __aicore__ inline void Init(const GroupedMatmulTilingData& tiling, AscendC::TPipe& pipe)
    {
        rows_ = tiling.zeroRows;
        cols_ = tiling.zeroCols;
        pipe.InitBuffer(queue_, 1, rows_ * cols_ * sizeof(T));
    }

    __aicore__ inline void Store(const AscendC::GlobalTensor<T>& output, uint32_t rows, uint32_t cols, uint64_t stride)
    {
        AscendC::LocalTensor<T> zeros = queue_.template AllocTensor<T>();
        const AscendC::LocalTensor<int32_t> bits = zeros.template ReinterpretCast<int32_t>();
        AscendC::Duplicate(bits, 0, static_cast<int32_t>(rows_ * cols_ * sizeof(T) / sizeof(int32_t)));
        queue_.EnQue(zeros);
        zeros = queue_.template DeQue<T>();
        for (uint32_t row = 0; row < rows; row += rows_) {
            const uint32_t count = rows - row < rows_ ? rows - row : rows_;
            StoreRows(output[row * stride], zeros, {count, cols, cols_, stride});
        }
        queue_.FreeTensor(zeros);
    }

private:
    uint32_t rows_ = 0;
    uint32_t cols_ = 0;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> queue_;
};

template <typename T>
class GroupedProducts {
public:
    using Operand = GmMatrix<T, true>;
    using Result = GmMatrix<T>;
    MatmulObject<Operand, Operand, Result> product;

    __aicore__ inline void Init(GM_ADDR left, GM_ADDR right, GM_ADDR groupList, GM_ADDR output, uint64_t rows,
                                bool transposed, const GroupedMatmulTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        transposed_ = transposed;
        leftGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(left));
        rightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(right));
        outputGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(output));
        ends_.Init(groupList, tiling.groups, rows);
        zeros_.Init(tiling, pipe);
    }

    // Rows of the output belong to groups.
    __aicore__ inline void ByRows()
    {
        Walk([this](uint64_t group, uint64_t begin, uint64_t end, uint64_t& next) {
            const uint64_t lines = (end - begin + tiling_.tileRows - 1) / tiling_.tileRows;
            for (; next < lines * tiling_.tilesPerRow; next += tiling_.cores) {
                const uint64_t line = next / tiling_.tilesPerRow;
                const uint64_t row = begin + line * tiling_.tileRows;
                const uint64_t col = (next - line * tiling_.tilesPerRow) * tiling_.tileCols;
                const uint64_t weight =
                    group * tiling_.weightSize + (tiling_.transposeWeight != 0 ? col * tiling_.k : col);
                Multiply(row * tiling_.k, weight, row * tiling_.n + col, Part(end - row, tiling_.tileRows),
                         Part(tiling_.n - col, tiling_.tileCols), tiling_.k);
            }
            next -= lines * tiling_.tilesPerRow;
        });
    }

    // Every group has a matrix of the output, the sum over its rows.
    __aicore__ inline void ByMatrices()
    {
        Walk([this](uint64_t group, uint64_t begin, uint64_t end, uint64_t& next) {
            for (; next < tiling_.tilesPerMatrix; next += tiling_.cores) {
                const uint64_t line = next / tiling_.tilesPerRow;
                const uint64_t row = line * tiling_.tileRows;
                const uint64_t col = (next - line * tiling_.tilesPerRow) * tiling_.tileCols;
                Multiply(begin * tiling_.m + row, begin * tiling_.n + col, (group * tiling_.m + row) * tiling_.n + col,
                         Part(tiling_.m - row, tiling_.tileRows), Part(tiling_.n - col, tiling_.tileCols), end - begin);
            }
            next -= tiling_.tilesPerMatrix;
        });
    }

private:
    template <class TASKS>
    __aicore__ inline void Walk(const TASKS& tasks)
    {
        uint64_t next = AscendC::GetBlockIdx();   // of this core, counted from the first task of the group
        const bool idle = next >= tiling_.cores;  // groups of cores may be one more than there is work for
        uint64_t begin = 0;
        for (uint64_t group = 0; group < tiling_.groups && !idle; ++group) {
            const uint64_t end = ends_.EndOf(group, begin);
            tasks(group, begin, end, next);
            begin = end;
        }
        product.End();
    }

    static __aicore__ inline uint32_t Part(uint64_t left, uint32_t most)
    {
        return left < most ? static_cast<uint32_t>(left) : most;
    }

    // Computes a tile of M x N elements of the output; the first three arguments are where it and its operands begin.
    __aicore__ inline void Multiply(uint64_t left, uint64_t right, uint64_t output, uint32_t rows, uint32_t cols,
                                    uint64_t k)
    {
        if (k == 0) {
            zeros_.Store(outputGm_[output], rows, cols, tiling_.n);
            return;
        }
        product.SetOrgShape(static_cast<int>(tiling_.m), static_cast<int>(tiling_.n), static_cast<int>(tiling_.k));
        product.SetSingleShape(static_cast<int>(rows), static_cast<int>(cols), static_cast<int>(k));
        product.SetTensorA(leftGm_[left], transposed_);
        product.SetTensorB(rightGm_[right], tiling_.transposeWeight != 0);
        product.template IterateAll<false>(outputGm_[output], 0, false, true);
        product.WaitIterateAll();
    }

    GroupedMatmulTilingData tiling_;
    bool transposed_ = false;  // the left factor
    AscendC::GlobalTensor<T> leftGm_;
    AscendC::GlobalTensor<T> rightGm_;
    AscendC::GlobalTensor<T> outputGm_;
    CumulativeLengths ends_;
    ZeroTiles<T> zeros_;
};

template <typename T>
__aicore__ inline void GroupedMatmulKernel(GM_ADDR x, GM_ADDR weight, GM_ADDR groupList, GM_ADDR y,
                                           [[maybe_unused]] GM_ADDR workspace, const GroupedMatmulTilingData& tiling)
{
    AscendC::TPipe pipe;
    GroupedProducts<T> products;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products.product, &tiling.product);
    products.Init(x, weight, groupList, y, tiling.m, false, tiling, pipe);
    products.ByRows();
}

template <typename T>
__aicore__ inline void GroupedMatmulGradKernel(GM_ADDR dy, GM_ADDR x, GM_ADDR groupList, GM_ADDR dweight,
                                               [[maybe_unused]] GM_ADDR workspace,
                                               const GroupedMatmulGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    GroupedProducts<T> products;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), products.product, &tiling.product);
    const bool transposed = tiling.leftIsDy != 0;
    products.Init(transposed ? dy : x, transposed ? x : dy, groupList, dweight, tiling.k, true, tiling, pipe);
    products.ByMatrices();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUPED_MATMUL_KERNEL_H
