/*!
 * Computes the softmax of attention scores over the last axis in float, y = softmax(scale * x + mask); a row that is
 * -inf everywhere becomes zeros.
 *
 * Plan: the rows of primitives/softmax_rows.h; the mask is loaded beside x, one row for the whole tile where it is
 * broadcast over the rows of a tile.
 * Bound: memory (x and the mask once, y once; a broadcast mask comes out of L2).
 */
#ifndef MS_ASCEND_OPS_SCALED_MASKED_SOFTMAX_KERNEL_H
#define MS_ASCEND_OPS_SCALED_MASKED_SOFTMAX_KERNEL_H

#include "kernel_operator.h"
#include "primitives/softmax_grad_rows.h"
#include "primitives/softmax_rows.h"
#include "scaled_masked_softmax_tiling.h"

namespace ms_ascend_ops {

// Computes z = scale * x + mask.
template <typename M>
class MaskedLogits {
public:
    static constexpr bool CHANGES = true;

    __aicore__ inline void Init(GM_ADDR mask, const ScaledMaskedSoftmaxTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        maskGm_.SetGlobalBuffer(reinterpret_cast<__gm__ M*>(mask));
        const uint32_t elements = tiling.tileRows * tiling.stride;
        pipe.InitBuffer(inQueueMask_, 2, elements * sizeof(M));
        if constexpr (!IS_FLOAT<M>) {
            pipe.InitBuffer(maskBuf_, elements * sizeof(float));
            maskFloat_ = maskBuf_.template Get<float>();
        }
    }

    // Returns how many rows a tile that begins with `row` may have.
    __aicore__ inline uint64_t RowsFrom(uint64_t row) const { return tiling_.dim0 - row % tiling_.dim0; }

    __aicore__ inline void CopyIn(uint64_t row, uint32_t column, const Rows& shape)
    {
        const uint32_t rows = tiling_.stride0 == 0 ? 1 : shape.rows;
        maskLocal_ = inQueueMask_.template AllocTensor<M>();
        LoadRows(maskLocal_, maskGm_[MaskRow(row) * tiling_.cols + column],
                 {rows, shape.cols, shape.ubStride, tiling_.cols}, rows > 1);
        inQueueMask_.EnQue(maskLocal_);
        count_ = (rows - 1) * shape.ubStride + shape.cols;
    }

    __aicore__ inline void Take()
    {
        maskLocal_ = inQueueMask_.template DeQue<M>();
        mask_ = ToFloat(maskLocal_, maskFloat_, count_);
    }

    __aicore__ inline void Apply(const AscendC::LocalTensor<float>& z, const AscendC::LocalTensor<float>& x, uint32_t r,
                                 const RowBlock& block)
    {
        AscendC::Muls(z, x, tiling_.scale, static_cast<int32_t>(block.Elements()));
        if (tiling_.stride0 == 0) {
            WithColumns<AddOf>(z, z, mask_, block);
        } else {
            AscendC::Add(z, z, mask_[r * block.stride], static_cast<int32_t>(block.Elements()));
        }
    }

    __aicore__ inline void Free() { inQueueMask_.FreeTensor(maskLocal_); }

private:
    __aicore__ inline uint64_t MaskRow(uint64_t row) const
    {
        uint64_t index = 0;
        Step(row, index, tiling_.dim0, tiling_.stride0);
        Step(row, index, tiling_.dim1, tiling_.stride1);
        Step(row, index, tiling_.dim2, tiling_.stride2);
        Step(row, index, tiling_.dim3, tiling_.stride3);
        Step(row, index, tiling_.dim4, tiling_.stride4);
        Step(row, index, tiling_.dim5, tiling_.stride5);
        Step(row, index, tiling_.dim6, tiling_.stride6);
        return index;
    }

    static __aicore__ inline void Step(uint64_t& quotient, uint64_t& index, uint64_t dim, uint64_t stride)
    {
        index += quotient % dim * stride;
        quotient /= dim;
    }

    ScaledMaskedSoftmaxTilingData tiling_;
    uint32_t count_ = 0;
    AscendC::GlobalTensor<M> maskGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueMask_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> maskBuf_;
    AscendC::LocalTensor<float> maskFloat_;  // for 16-bit M
    AscendC::LocalTensor<M> maskLocal_;      // of the tile at hand
    AscendC::LocalTensor<float> mask_;
};

template <typename T, typename M>
__aicore__ inline void ScaledMaskedSoftmaxKernel(GM_ADDR x, GM_ADDR mask, GM_ADDR y, GM_ADDR workspace,
                                                 const ScaledMaskedSoftmaxTilingData& tiling)
{
    constexpr float SMALLEST_SUM = 1.0e-30f;  // other sums are at least 1
    AscendC::TPipe pipe;
    SoftmaxRows<T, MaskedLogits<M>, ScaledMaskedSoftmaxTilingData> kernel;
    MaskedLogits<M> logits;
    kernel.Init(x, y, workspace, tiling, SMALLEST_SUM, pipe);
    logits.Init(mask, tiling, pipe);
    kernel.Process(logits);
}

template <typename T>
__aicore__ inline void ScaledMaskedSoftmaxGradKernel(GM_ADDR dy, GM_ADDR y, GM_ADDR dx, GM_ADDR workspace,
                                                     const ScaledMaskedSoftmaxGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    SoftmaxGradRows<T, ScaledMaskedSoftmaxGradTilingData> kernel;
    kernel.Init(dy, y, dx, workspace, tiling, tiling.scale, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SCALED_MASKED_SOFTMAX_KERNEL_H
