/*!
 * Computes the gradient of a convolution's bias: the vector unit sums dy over samples and positions in float, while the
 * cube multiplies for the gradient of the weight. Blocks of channels are shared out.
 */
#ifndef MS_ASCEND_OPS_CONV2D_BIAS_GRAD_H
#define MS_ASCEND_OPS_CONV2D_BIAS_GRAD_H

#include "kernel_operator.h"
#include "primitives/convolution_tiling.h"
#include "primitives/core_share.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename T>
class ConvolutionBiasGradient {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR dbias, const ConvolutionTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy));
        dbiasGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(dbias), tiling.outChannels);
        pipe.InitBuffer(dyQueue_, 2, ROWS * COLS * sizeof(T));
        copies_.Init(ROWS * COLS, pipe);
        pipe.InitBuffer(laneBuf_, ROWS * FLOAT_LANES * sizeof(float));
        pipe.InitBuffer(sumQueue_, 1, FLOAT_LANES * sizeof(float));
    }

    __aicore__ inline void Process()
    {
        const uint32_t most = tiling_.channelsLast != 0 ? FLOAT_LANES : ROWS;
        const uint32_t cores = static_cast<uint32_t>(VectorCores());
        for (uint32_t first = static_cast<uint32_t>(AscendC::GetBlockIdx()) * most; first < tiling_.outChannels;
             first += cores * most) {
            const uint32_t left = tiling_.outChannels - first;
            Sum(first, left < most ? left : most);
        }
    }

private:
    static constexpr uint32_t ROWS = 16;
    static constexpr uint32_t COLS = 256;

    __aicore__ inline void Sum(uint32_t first, uint32_t channels)
    {
        const bool last = tiling_.channelsLast != 0;
        const uint32_t step = last ? ROWS * COLS / FLOAT_LANES : COLS;  // positions of a copy
        const uint64_t positions = static_cast<uint64_t>(tiling_.outHeight) * tiling_.outWidth;
        const AscendC::LocalTensor<float> lanes = laneBuf_.template Get<float>();
        AscendC::LocalTensor<float> sums = sumQueue_.template AllocTensor<float>();
        const AscendC::LocalTensor<float> total = last ? sums : lanes;
        AscendC::Duplicate(total, 0.0f, static_cast<int32_t>(last ? FLOAT_LANES : ROWS * FLOAT_LANES));
        for (uint64_t sample = 0; sample < tiling_.samples; ++sample) {
            for (uint64_t position = 0; position < positions; position += step) {
                const uint64_t left = positions - position;
                const uint32_t count = left < step ? static_cast<uint32_t>(left) : step;
                if (last) {
                    Add(total, (sample * positions + position) * tiling_.outChannels + first,
                        {count, channels, FLOAT_LANES, tiling_.outChannels});
                } else {
                    Add(total, (sample * tiling_.outChannels + first) * positions + position,
                        {channels, count, COLS, positions});
                }
            }
        }
        if (!last) {
            ReduceRepeats<AddOf>(sums, lanes, FLOAT_LANES, channels, FLOAT_LANES);
        }
        StoreQueued(sumQueue_, dbiasGm_[first], sums, {1, channels, FLOAT_LANES, channels});
    }

    // Adds rows of dy: to the sums of their columns with channels last, to lanes of each row otherwise.
    __aicore__ inline void Add(const AscendC::LocalTensor<float>& total, uint64_t at, const Rows& rows)
    {
        AscendC::LocalTensor<T> dy = dyQueue_.template AllocTensor<T>();
        LoadRows(dy, dyGm_[at], rows, true);
        dyQueue_.EnQue(dy);
        dy = dyQueue_.template DeQue<T>();
        const AscendC::LocalTensor<float> floats = copies_.Take(dy, 0, rows.rows * rows.ubStride);
        const RowBlock block{rows.rows, rows.cols, rows.ubStride};
        if (tiling_.channelsLast != 0) {
            // Every copy is summed by itself: a single running sum over all positions loses digits.
            const AscendC::LocalTensor<float> ofCopy = laneBuf_.template Get<float>();
            AscendC::Duplicate(ofCopy, 0.0f, static_cast<int32_t>(FLOAT_LANES));
            SumColumns(ofCopy, floats, block);
            AscendC::Add(total, total, ofCopy, static_cast<int32_t>(FLOAT_LANES));
        } else {
            SumLanes(total, floats, block);
        }
        dyQueue_.FreeTensor(dy);
    }

    ConvolutionTilingData tiling_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<float> dbiasGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> dyQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> sumQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    FloatCopies<T> copies_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CONV2D_BIAS_GRAD_H
