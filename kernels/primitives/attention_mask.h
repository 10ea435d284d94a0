/*!
 * Adds the mask of an attention to scores: (batch, heads, queries, keys), where the first three may be 1.
 *
 * TILING has hasMask, and maskBatch, maskHead and maskRow, the elements from one to the next, 0 where the mask
 * broadcasts.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ATTENTION_MASK_H
#define MS_ASCEND_OPS_PRIMITIVES_ATTENTION_MASK_H

#include "kernel_operator.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

template <typename M>
class AttentionMask {
public:
    // `elements`: of the largest block that a mask is added to.
    template <class TILING>
    __aicore__ inline void Init(GM_ADDR mask, const TILING& tiling, uint32_t elements, AscendC::TPipe& pipe)
    {
        given_ = tiling.hasMask != 0;
        if (!given_) {
            return;
        }
        batch_ = tiling.maskBatch;
        head_ = tiling.maskHead;
        row_ = tiling.maskRow;
        maskGm_.SetGlobalBuffer(reinterpret_cast<__gm__ M*>(mask));
        pipe.InitBuffer(queue_, 2, elements * sizeof(M));
        if constexpr (!IS_FLOAT<M>) {
            pipe.InitBuffer(floatBuf_, elements * sizeof(float));
            float_ = floatBuf_.template Get<float>();
        }
    }

    // z += mask: rows of `block` from row `row` of a head group on, whose heads, `length` queries each, begin at
    // `head`; columns from key `key` on.
    __aicore__ inline void Add(const AscendC::LocalTensor<float>& z, const RowBlock& block, uint64_t batch,
                               uint64_t head, uint64_t row, uint64_t length, uint64_t key)
    {
        if (!given_) {
            return;
        }
        AscendC::LocalTensor<M> mask = queue_.template AllocTensor<M>();
        const uint64_t first = row / length;
        if (row_ != 0 && first == (row + block.rows - 1) / length) {
            Load(mask, batch, head + first, row - first * length, key, block.rows, block);
        } else {
            for (uint32_t r = 0; r < block.rows; ++r) {
                const uint64_t of = (row + r) / length;
                Load(mask[r * block.stride], batch, head + of, row + r - of * length, key, 1, block);
            }
        }
        queue_.EnQue(mask);
        mask = queue_.template DeQue<M>();
        const uint32_t elements = block.rows * block.stride;
        AscendC::Add(z, z, ToFloat(mask, float_, elements), static_cast<int32_t>(elements));
        queue_.FreeTensor(mask);
    }

private:
    __aicore__ inline void Load(const AscendC::LocalTensor<M>& dst, uint64_t batch, uint64_t head, uint64_t position,
                                uint64_t key, uint32_t rows, const RowBlock& block)
    {
        LoadRows(dst, maskGm_[batch * batch_ + head * head_ + position * row_ + key],
                 {rows, block.cols, block.stride, row_}, true);
    }

    bool given_ = false;
    uint64_t batch_ = 0;
    uint64_t head_ = 0;
    uint64_t row_ = 0;
    AscendC::GlobalTensor<M> maskGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> queue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::LocalTensor<float> float_;  // for 16-bit M
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ATTENTION_MASK_H
