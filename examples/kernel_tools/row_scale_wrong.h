/*!
 * y[r, c] = x[r, c] * scale[r], as somebody might write it first. Wrong: docs/kernel_tools.md finds out where.
 */
#ifndef MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_WRONG_H
#define MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_WRONG_H

#include "kernel_operator.h"
#include "row_scale_tiling.h"

class RowScaleWrong {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR scale, GM_ADDR y, const RowScaleTilingData& tiling)
    {
        AscendC::TPipe pipe;
        AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX;
        AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY;
        AscendC::GlobalTensor<float> xGm;
        AscendC::GlobalTensor<float> scaleGm;
        AscendC::GlobalTensor<float> yGm;
        const uint32_t cols = tiling.cols;
        xGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(x), tiling.rows * cols);
        scaleGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(scale), tiling.rows);
        yGm.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(y), tiling.rows * cols);
        pipe.InitBuffer(inQueueX, 1, tiling.stride * sizeof(float));
        pipe.InitBuffer(outQueueY, 1, tiling.stride * sizeof(float));

        const uint64_t first = tiling.rowsPerCore * AscendC::GetBlockIdx();
        const uint64_t last = first + tiling.rowsPerCore < tiling.rows ? first + tiling.rowsPerCore : tiling.rows;
        for (uint64_t row = first; row < last; ++row) {
            AscendC::LocalTensor<float> xLocal = inQueueX.AllocTensor<float>();
            AscendC::DataCopy(xLocal, xGm[row * cols], cols);
            AscendC::LocalTensor<float> yLocal = outQueueY.AllocTensor<float>();
            AscendC::Muls(yLocal, xLocal, scaleGm.GetValue(row), static_cast<int32_t>(cols));
            inQueueX.FreeTensor(xLocal);
            outQueueY.EnQue(yLocal);
            yLocal = outQueueY.DeQue<float>();
            AscendC::DataCopy(yGm[row * cols], yLocal, cols);
            outQueueY.FreeTensor(yLocal);
        }
    }
};

#endif  // MS_ASCEND_OPS_EXAMPLES_ROW_SCALE_WRONG_H
