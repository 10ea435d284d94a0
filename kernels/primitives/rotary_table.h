/*!
 * Prepares the part of the table that a tile needs, in float: cos (1 for what is not rotated) and sin with the sign of
 * the rotation, so that y = x * cos + partner(x) * sin. Where the elements of a pair have values of their own, the
 * gradient multiplies the partner by the partner's sin.
 *
 * It is prepared once for all sequences and heads of a tile's positions.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROTARY_TABLE_H
#define MS_ASCEND_OPS_PRIMITIVES_ROTARY_TABLE_H

#include "kernel_operator.h"
#include "primitives/interleave.h"
#include "primitives/rotary_tiling.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

constexpr uint32_t MAX_REPEATS = 255;     // of one instruction
constexpr uint32_t MAX_STRIDE = 255 * 8;  // floats from a repeat to the next

// Returns how many rows one instruction takes whose distance is `stride` floats.
__aicore__ inline uint32_t RowsAtOnce(uint32_t stride)
{
    return stride <= MAX_STRIDE ? MAX_REPEATS : 1;
}

template <typename C>
class RotaryTable {
public:
    // `direction` is 1, or -1 to rotate back.
    __aicore__ inline void Init(GM_ADDR cos, GM_ADDR sin, const RotaryTilingData& tiling, float direction,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        direction_ = direction;
        cosGm_.SetGlobalBuffer(reinterpret_cast<__gm__ C*>(cos));
        sinGm_.SetGlobalBuffer(reinterpret_cast<__gm__ C*>(sin));
        doubled_ = tiling.interleave != 0 && tiling.tableWidth != tiling.half;
        const uint32_t narrow = tiling.tilePositions * tiling.tableStride;
        const uint32_t elements = tiling.tilePositions * tiling.stride;
        const uint32_t single = tiling.separateHalves != 0 ? 2 * Behind(tiling.tilePositions) : narrow;
        pipe.InitBuffer(inQueue_, 1, (doubled_ ? 2 * narrow : single) * sizeof(C));
        pipe.InitBuffer(cosBuf_, elements * sizeof(float));
        pipe.InitBuffer(sinBuf_, elements * sizeof(float));
        cos_ = cosBuf_.template Get<float>();
        sin_ = sinBuf_.template Get<float>();
        AscendC::Duplicate(cos_, 1.0f, static_cast<int32_t>(elements));
        AscendC::Duplicate(sin_, 0.0f, static_cast<int32_t>(elements));
        if (doubled_) {
            pipe.InitBuffer(pickBuf_, single * sizeof(C));
        }
        if constexpr (!IS_FLOAT<C>) {
            pipe.InitBuffer(floatBuf_, single * sizeof(float));
        }
        if (tiling.interleave != 0) {
            const uint32_t runs = 2 * ((narrow + RUN - 1) / RUN * RUN);
            pipe.InitBuffer(runsBuf_, runs * sizeof(float));
            pipe.InitBuffer(transposedBuf_, runs * sizeof(float));
            runs_ = runsBuf_.template Get<float>();
            // Whole runs are transposed, also where the last one is not full.
            AscendC::Duplicate(runs_, 0.0f, static_cast<int32_t>(runs));
        }
    }

    // Loads rows [first, first + count) of the tables.
    __aicore__ inline void Prepare(uint64_t first, uint32_t count)
    {
        if (first == row_ && count <= count_) {
            return;
        }
        row_ = first;
        count_ = count;
        Load(cosGm_, count);
        Place(cos_, {first_, 1.0f}, {second_, 1.0f});
        inQueue_.FreeTensor(loaded_);
        Load(sinGm_, count);
        if (direction_ > 0.0f) {
            Place(sin_, {first_, -1.0f}, {second_, 1.0f});
        } else {
            Place(sin_, {second_, 1.0f}, {first_, -1.0f});
        }
        inQueue_.FreeTensor(loaded_);
    }

    __aicore__ inline const AscendC::LocalTensor<float>& Cos() const { return cos_; }
    __aicore__ inline const AscendC::LocalTensor<float>& Sin() const { return sin_; }

private:
    // Sets first_ and second_ to the value of each element of a pair, in float; it is the same one, unless they have
    // their own.
    __aicore__ inline void Load(const AscendC::GlobalTensor<C>& gm, uint32_t count)
    {
        const bool own = tiling_.separateHalves != 0;
        const uint32_t cols = doubled_ ? 2 * tiling_.half : tiling_.half;
        const uint32_t stride = doubled_ ? 2 * tiling_.tableStride : tiling_.tableStride;
        const uint32_t behind = Behind(count);
        loaded_ = inQueue_.template AllocTensor<C>();
        for (uint32_t done = 0; done < count;) {
            const uint64_t at =
                (row_ + done) % tiling_.tablePeriod + (row_ / tiling_.tablePeriod) * tiling_.tablePeriod;
            const uint64_t left = tiling_.tablePeriod - at % tiling_.tablePeriod;
            const uint32_t rows = count - done < left ? count - done : static_cast<uint32_t>(left);
            const Rows shape = {rows, cols, stride, tiling_.tableWidth};
            LoadRows(loaded_[done * stride], gm[at * tiling_.tableWidth], shape, true);
            if (own && !doubled_) {
                LoadRows(loaded_[behind + done * stride], gm[at * tiling_.tableWidth + tiling_.half], shape, true);
            }
            done += rows;
        }
        inQueue_.EnQue(loaded_);
        loaded_ = inQueue_.template DeQue<C>();
        AscendC::LocalTensor<C> values = loaded_;
        if (doubled_) {
            uint64_t kept = 0;
            values = pickBuf_.template Get<C>();
            AscendC::GatherMask(values, loaded_, 1, true, count * stride, {1, 1, 8, 0}, kept);
            if (own) {
                AscendC::GatherMask(values[behind], loaded_, 2, true, count * stride, {1, 1, 8, 0}, kept);
            }
        }
        if constexpr (IS_FLOAT<C>) {
            first_ = values;
            second_ = own ? values[behind] : values;
        } else {
            const AscendC::LocalTensor<float> floats = floatBuf_.template Get<float>();
            first_ = ToFloat(values, floats, count * tiling_.tableStride);
            second_ = own ? ToFloat(values[behind], floats[behind], count * tiling_.tableStride) : first_;
        }
    }

    // Returns where the values of the second elements begin, behind those of the first ones: at a block.
    __aicore__ inline uint32_t Behind(uint32_t positions) const
    {
        constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(uint16_t);
        return (positions * tiling_.tableStride + PER_BLOCK - 1) / PER_BLOCK * PER_BLOCK;
    }

    // Holds one value of each pair, and the factor that it is multiplied by.
    struct Values {
        AscendC::LocalTensor<float> tensor;
        float factor;
    };

    // Moves values to the first and to the second elements of the pairs.
    __aicore__ inline void Place(const AscendC::LocalTensor<float>& table, const Values& first, const Values& second)
    {
        if (tiling_.interleave == 0) {
            Scale(table, first.tensor, tiling_.tableStride, tiling_.half, first.factor);
            Scale(table[tiling_.halfStride], second.tensor, tiling_.tableStride, tiling_.half, second.factor);
            return;
        }
        const uint32_t count = count_ * tiling_.tableStride;
        const AscendC::UnaryRepeatParams toRuns(1, 1, BLOCKS_OF_PAIR, 8);
        BeginCounterMode(count);
        AscendC::Muls<float, false>(runs_, first.tensor, first.factor, AscendC::MASK_PLACEHOLDER, 1, toRuns);
        AscendC::Muls<float, false>(runs_[RUN], second.tensor, second.factor, AscendC::MASK_PLACEHOLDER, 1, toRuns);
        EndCounterMode();
        Interleave(runs_, runs_, transposedBuf_.template Get<float>(), count);
        Scale(table, runs_, 2 * tiling_.tableStride, 2 * tiling_.half, 1.0f);
    }

    // Sets the first `cols` elements of each row of the table to those of the row of src, times `factor`.
    __aicore__ inline void Scale(const AscendC::LocalTensor<float>& table, const AscendC::LocalTensor<float>& src,
                                 uint32_t srcStride, uint32_t cols, float factor)
    {
        const uint32_t step = RowsAtOnce(tiling_.stride > srcStride ? tiling_.stride : srcStride);
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

    RotaryTilingData tiling_;
    float direction_ = 1.0f;
    bool doubled_ = false;         // values lie twice in the table, side by side
    uint64_t row_ = ~uint64_t{0};  // of the tables, that was prepared last
    uint32_t count_ = 0;
    AscendC::GlobalTensor<C> cosGm_;
    AscendC::GlobalTensor<C> sinGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> cosBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> sinBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> pickBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> runsBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> transposedBuf_;
    AscendC::LocalTensor<float> cos_;
    AscendC::LocalTensor<float> sin_;
    AscendC::LocalTensor<float> first_;
    AscendC::LocalTensor<float> second_;
    AscendC::LocalTensor<float> runs_;  // interleave: the values of first and of second elements alternately, 64 each
    AscendC::LocalTensor<C> loaded_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROTARY_TABLE_H
