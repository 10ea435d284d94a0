/*!
 * y[r, c] = x[r, c] * scale[r], right and fast: tiles of many rows, two buffers in every queue, and factors that never
 * leave the vector unit (a block of 8 equal ones for each row, by Brcb).
 */
#ifndef MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_FAST_H
#define MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_FAST_H

#include "kernel_operator.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "row_scale_tiling.h"

class RowScaleFast {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR scale, GM_ADDR y, const RowScaleTilingData& tiling)
    {
        using ms_ascend_ops::FLOATS_PER_BLOCK;
        AscendC::TPipe pipe;
        AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX;
        AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueScale;
        AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY;
        AscendC::TBuf<AscendC::TPosition::VECCALC> factorBuf;
        AscendC::GlobalTensor<float> xGm;
        AscendC::GlobalTensor<float> scaleGm;
        AscendC::GlobalTensor<float> yGm;
        const uint32_t cols = tiling.cols;
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), tiling.rows * cols);
        scaleGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(scale), tiling.rows);
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), tiling.rows * cols);
        const uint32_t rows8 = (tiling.tileRows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
        pipe.InitBuffer(inQueueX, 2, tiling.tileRows * tiling.stride * sizeof(float));
        pipe.InitBuffer(outQueueY, 2, tiling.tileRows * tiling.stride * sizeof(float));
        pipe.InitBuffer(inQueueScale, 2, rows8 * sizeof(float));
        pipe.InitBuffer(factorBuf, rows8 * AscendC::ONE_BLK_SIZE);
        AscendC::LocalTensor<float> factors = factorBuf.Get<float>();

        const uint64_t first = tiling.rowsPerCore * AscendC::GetBlockIdx();
        const uint64_t last = first + tiling.rowsPerCore < tiling.rows ? first + tiling.rowsPerCore : tiling.rows;
        for (uint64_t row = first; row < last; row += tiling.tileRows) {
            const uint32_t rows = last - row < tiling.tileRows ? static_cast<uint32_t>(last - row) : tiling.tileRows;
            const ms_ascend_ops::Rows shape{rows, cols, tiling.stride, cols};
            AscendC::LocalTensor<float> scaleLocal = inQueueScale.AllocTensor<float>();
            ms_ascend_ops::LoadRows(scaleLocal, scaleGm[row], {1, rows, rows8, rows}, true);
            inQueueScale.EnQue(scaleLocal);
            AscendC::LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
            ms_ascend_ops::LoadRows(xLocal, xGm[row * cols], shape, rows > 1);
            inQueueX.EnQue(xLocal);

            scaleLocal = inQueueScale.DeQue<float>();
            ms_ascend_ops::BroadcastRows(factors, scaleLocal, rows);
            inQueueScale.FreeTensor(scaleLocal);
            xLocal = inQueueX.DeQue<float>();
            AscendC::LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
            ms_ascend_ops::MultiplyRows(yLocal, xLocal, factors, {rows, cols, tiling.stride});
            inQueueX.FreeTensor(xLocal);
            outQueueY.EnQue(yLocal);
            yLocal = outQueueY.DeQue<float>();
            ms_ascend_ops::StoreRows(yGm[row * cols], yLocal, shape);
            outQueueY.FreeTensor(yLocal);
        }
    }
};

#endif  // MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_FAST_H
