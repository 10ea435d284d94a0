/*!
 * The part of the table that a tile needs, in float: cos (1 for what is not turned) and sin with the sign of the
 * rotation, so that y = x * cos + partner(x) * sin.
 *
 * Prepared once for all sequences and heads of a tile's positions.
 */
#ifndef MS_ASCEND_OPS_ROTARY_EMBEDDING_ROTARY_TABLE_H
#define MS_ASCEND_OPS_ROTARY_EMBEDDING_ROTARY_TABLE_H

#include "kernel_operator.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "rotary_embedding_tiling.h"

namespace ms_ascend_ops {

constexpr uint32_t MAX_REPEATS = 255;     // of one instruction
constexpr uint32_t MAX_STRIDE = 255 * 8;  // floats from a repeat to the next

// Rows that one instruction can take with these strides in floats.
__aicore__ inline uint32_t RowsAtOnce(uint32_t stride)
{
    return stride <= MAX_STRIDE ? MAX_REPEATS : 1;
}

template <typename C>
class RotaryTable {
public:
    // `direction` is 1, or -1 to turn back.
    __aicore__ inline void Init(GM_ADDR cos, GM_ADDR sin, const RotaryEmbeddingTilingData& tiling, float direction,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        direction_ = direction;
        cosGm_.SetGlobalBuffer(reinterpret_cast<__gm__ C*>(cos));
        sinGm_.SetGlobalBuffer(reinterpret_cast<__gm__ C*>(sin));
        doubled_ = tiling.interleave != 0 && tiling.tableWidth != tiling.half;
        const uint32_t narrow = tiling.tilePositions * tiling.tableStride;
        const uint32_t elements = tiling.tilePositions * tiling.stride;
        pipe.InitBuffer(inQueue_, 1, (doubled_ ? 2 : 1) * narrow * sizeof(C));
        pipe.InitBuffer(cosBuf_, elements * sizeof(float));
        pipe.InitBuffer(sinBuf_, elements * sizeof(float));
        cos_ = cosBuf_.template Get<float>();
        sin_ = sinBuf_.template Get<float>();
        AscendC::Duplicate(cos_, 1.0f, static_cast<int32_t>(elements));
        AscendC::Duplicate(sin_, 0.0f, static_cast<int32_t>(elements));
        if (doubled_) {
            pipe.InitBuffer(pickBuf_, narrow * sizeof(C));
        }
        if constexpr (!IS_FLOAT<C>) {
            pipe.InitBuffer(floatBuf_, narrow * sizeof(float));
        }
        if (tiling.interleave != 0) {
            pipe.InitBuffer(offsetBuf_, tiling.tilePositions * tiling.turned * sizeof(uint32_t));
            pipe.InitBuffer(signBuf_, AscendC::ONE_BLK_SIZE);
            FillConstants(pipe);
        }
    }

    // Rows [first, first + count) of the tables; `scratch` has room for as many heads in float.
    __aicore__ inline void Prepare(uint64_t first, uint32_t count, const AscendC::LocalTensor<float>& scratch)
    {
        if (first == first_ && count <= count_) {
            return;
        }
        first_ = first;
        count_ = count;
        Load(cosGm_, count);
        Place(cos_, 1.0f, 1.0f, scratch, false);
        inQueue_.FreeTensor(loaded_);
        Load(sinGm_, count);
        Place(sin_, -direction_, direction_, scratch, true);
        inQueue_.FreeTensor(loaded_);
    }

    __aicore__ inline const AscendC::LocalTensor<float>& Cos() const { return cos_; }
    __aicore__ inline const AscendC::LocalTensor<float>& Sin() const { return sin_; }

private:
    // narrow_ = one value a pair, in float.
    __aicore__ inline void Load(const AscendC::GlobalTensor<C>& gm, uint32_t count)
    {
        const uint32_t cols = doubled_ ? 2 * tiling_.half : tiling_.half;
        const uint32_t stride = doubled_ ? 2 * tiling_.tableStride : tiling_.tableStride;
        loaded_ = inQueue_.template AllocTensor<C>();
        for (uint32_t done = 0; done < count;) {
            const uint64_t at =
                (first_ + done) % tiling_.tablePeriod + (first_ / tiling_.tablePeriod) * tiling_.tablePeriod;
            const uint64_t left = tiling_.tablePeriod - at % tiling_.tablePeriod;
            const uint32_t rows = count - done < left ? count - done : static_cast<uint32_t>(left);
            LoadRows(loaded_[done * stride], gm[at * tiling_.tableWidth], {rows, cols, stride, tiling_.tableWidth},
                     true);
            done += rows;
        }
        inQueue_.EnQue(loaded_);
        loaded_ = inQueue_.template DeQue<C>();
        AscendC::LocalTensor<C> single = loaded_;
        if (doubled_) {
            uint64_t kept = 0;
            single = pickBuf_.template Get<C>();
            AscendC::GatherMask(single, loaded_, 1, true, count * stride, {1, 1, 8, 0}, kept);
        }
        if constexpr (IS_FLOAT<C>) {
            narrow_ = single;
        } else {
            narrow_ = ToFloat(single, floatBuf_.template Get<float>(), count * tiling_.tableStride);
        }
    }

    // Each value to both elements of its pair, times `first` and `second`.
    __aicore__ inline void Place(const AscendC::LocalTensor<float>& table, float first, float second,
                                 const AscendC::LocalTensor<float>& scratch, bool isSigned)
    {
        if (tiling_.interleave == 0) {
            Scale(table, narrow_, tiling_.tableStride, tiling_.half, first);
            Scale(table[tiling_.halfStride], narrow_, tiling_.tableStride, tiling_.half, second);
            return;
        }
        const uint32_t elements = count_ * tiling_.turned;
        AscendC::LocalTensor<float> source = narrow_;
        source.SetSize(count_ * tiling_.tableStride);
        AscendC::Gather(scratch, source, offsetBuf_.template Get<uint32_t>(), 0u, elements);
        if (isSigned) {
            MulOf::Counter(scratch, scratch, signBuf_.template Get<float>(), elements, {1, 1, 0, 8, 8, 0});
        }
        Scale(table, scratch, tiling_.turned, 2 * tiling_.half, 1.0f);
    }

    // The first `cols` of each row of the table = row of src * factor.
    __aicore__ inline void Scale(const AscendC::LocalTensor<float>& table, const AscendC::LocalTensor<float>& src,
                                 uint32_t srcStride, uint32_t cols, float factor)
    {
        const uint32_t step = RowsAtOnce(tiling_.stride);
        const uint8_t to = static_cast<uint8_t>(tiling_.stride / FLOATS_PER_BLOCK);
        const uint8_t from = static_cast<uint8_t>(srcStride / FLOATS_PER_BLOCK);
        for (uint32_t row = 0; row < count_; row += step) {
            const uint32_t rows = count_ - row < step ? count_ - row : step;
            for (uint32_t column = 0; column < cols; column += FLOAT_LANES) {
                AscendC::Muls(table[row * tiling_.stride + column], src[row * srcStride + column], factor,
                              static_cast<uint64_t>(LanesAt(column, cols)), static_cast<uint8_t>(rows),
                              {1, 1, to, from});
            }
        }
    }

    // Byte offsets that spread a row: 0 0 4 4 8 8 ..., row after row; and the signs -+-+ of sin.
    __aicore__ inline void FillConstants(AscendC::TPipe& pipe)
    {
        const AscendC::LocalTensor<int32_t> offsets = offsetBuf_.template Get<int32_t>();
        const AscendC::LocalTensor<float> signs = signBuf_.template Get<float>();
        for (uint32_t i = 0; i < FLOATS_PER_BLOCK; ++i) {
            offsets.SetValue(i, static_cast<int32_t>(i / 2 * sizeof(float)));
            signs.SetValue(i, i % 2 == 0 ? -direction_ : direction_);
        }
        const int32_t event = static_cast<int32_t>(pipe.FetchEventID(AscendC::HardEvent::S_V));
        AscendC::SetFlag<AscendC::HardEvent::S_V>(event);
        AscendC::WaitFlag<AscendC::HardEvent::S_V>(event);
        Repeat(offsets, FLOATS_PER_BLOCK, tiling_.turned, FLOATS_PER_BLOCK / 2 * sizeof(float));
        Repeat(offsets, tiling_.turned, tiling_.tilePositions * tiling_.turned, tiling_.tableStride * sizeof(float));
    }

    // Continues a pattern of `period` values, each time `step` larger, to `count` values.
    __aicore__ inline void Repeat(const AscendC::LocalTensor<int32_t>& values, uint32_t period, uint32_t count,
                                  uint32_t step)
    {
        for (uint32_t done = period; done < count; done *= 2) {
            const uint32_t now = count - done < done ? count - done : done;
            AscendC::Adds(values[done], values, static_cast<int32_t>(done / period * step), static_cast<int32_t>(now));
        }
    }

    RotaryEmbeddingTilingData tiling_;
    float direction_ = 1.0f;
    bool doubled_ = false;  // values lie twice in the table, side by side
    uint64_t first_ = ~uint64_t{0};
    uint32_t count_ = 0;
    AscendC::GlobalTensor<C> cosGm_;
    AscendC::GlobalTensor<C> sinGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> cosBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sinBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> pickBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> offsetBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> signBuf_;
    AscendC::LocalTensor<float> cos_;
    AscendC::LocalTensor<float> sin_;
    AscendC::LocalTensor<float> narrow_;
    AscendC::LocalTensor<C> loaded_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ROTARY_EMBEDDING_ROTARY_TABLE_H
