/*!
 * Computes the gradient of sparse blocks in float: that of a block is the product of 16 rows of dy and 16 rows of the
 * dense factor.
 *
 * Plan: blocks are shared out evenly; the cube writes each. Where K is 0, the vector unit writes zeros.
 * Bound: memory, 16 rows of the dense factor for each block.
 */
#ifndef MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_GRAD_KERNEL_H
#define MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_GRAD_KERNEL_H

#include "block_sparse_matmul_tiling.h"
#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/csr_rows.h"
#include "primitives/products.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class BlockSparseMatmulGrad {
public:
    using Left = GmMatrix<T>;
    using Right = GmMatrix<T, true>;
    MatmulObject<Left, Right, Left> product;

    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR dense, GM_ADDR dblocks,
                                const BlockSparseMatmulGradTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pattern_.Init(rowEnds, indices, tiling.rows, tiling.entries, tiling.inner);
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy));
        denseGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dense));
        dblockGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dblocks));
        pipe.InitBuffer(zeroQueue_, 1, BLOCK_SIZE * sizeof(T));
    }

    __aicore__ inline void Process()
    {
        const CoreShare blocks = ShareOf(tiling_.entries, tiling_.perTask * tiling_.tasksPerCore);
        if (blocks.begin < blocks.end) {
            uint64_t row = pattern_.RowOf(blocks.begin);
            uint64_t end = pattern_.EndOf(row, 0);
            for (uint64_t block = blocks.begin; block < blocks.end; ++block) {
                while (end <= block) {
                    ++row;
                    end = pattern_.EndOf(row, end);
                }
                Multiply(row, pattern_.ColumnOf(block), dblockGm_[block * BLOCK_SIZE]);
            }
        }
        product.End();
    }

private:
    static constexpr uint32_t BLOCK_SIZE = BLOCK_SIDE * BLOCK_SIDE;

    __aicore__ inline void Multiply(uint64_t row, uint64_t column, const AscendC::GlobalTensor<T>& dst)
    {
        if (tiling_.cols == 0) {
            AscendC::LocalTensor<T> zeros = zeroQueue_.template AllocTensor<T>();
            const AscendC::LocalTensor<int32_t> bits = zeros.template ReinterpretCast<int32_t>();
            AscendC::Duplicate(bits, 0, static_cast<int32_t>(BLOCK_SIZE * sizeof(T) / sizeof(int32_t)));
            StoreQueued(zeroQueue_, dst, zeros, {1, BLOCK_SIZE, BLOCK_SIZE, BLOCK_SIZE});
            return;
        }
        const int side = static_cast<int>(BLOCK_SIDE);
        product.SetOrgShape(side, side, static_cast<int>(tiling_.cols));
        product.SetSingleShape(side, side, static_cast<int>(tiling_.cols));
        product.SetTensorA(dyGm_[row * BLOCK_SIDE * tiling_.cols]);
        product.SetTensorB(denseGm_[column * BLOCK_SIDE * tiling_.cols], true);
        product.template IterateAll<false>(dst, 0, false, true);
        product.WaitIterateAll();
    }

    BlockSparseMatmulGradTilingData tiling_;
    CsrRows pattern_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> denseGm_;
    AscendC::GlobalTensor<T> dblockGm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> zeroQueue_;
};

template <typename T>
__aicore__ inline void BlockSparseMatmulGradKernel(GM_ADDR dy, GM_ADDR rowEnds, GM_ADDR indices, GM_ADDR dense,
                                                   GM_ADDR dblocks, [[maybe_unused]] GM_ADDR workspace,
                                                   const BlockSparseMatmulGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    BlockSparseMatmulGrad<T> kernel;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), kernel.product, &tiling.product);
    kernel.Init(dy, rowEnds, indices, dense, dblocks, tiling, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_BLOCK_SPARSE_MATMUL_GRAD_KERNEL_H
