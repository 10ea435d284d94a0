/*!
 * Finds which rows of a batch count and where the label of each stands in its row, without scalars.
 */
#ifndef MS_ASCEND_OPS_CROSS_ENTROPY_LABEL_ROWS_H
#define MS_ASCEND_OPS_CROSS_ENTROPY_LABEL_ROWS_H

#include "cross_entropy_tiling.h"
#include "kernel_operator.h"
#include "primitives/ramp.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

class LabelRows {
public:
    static constexpr uint32_t PLACES = 16;  // labels that are compared at a time

    __aicore__ inline void Init(GM_ADDR labels, const CrossEntropyTilingData& tiling, AscendC::TPipe& pipe)
    {
        cols_ = tiling.cols;
        stride_ = tiling.stride;
        ignoreIndex_ = tiling.ignoreIndex;
        const uint32_t rows8 = RoundUp8(tiling.batchRows);
        labelsGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(labels), tiling.rows);
        pipe.InitBuffer(inQueue_, 1, rows8 * sizeof(int32_t));
        pipe.InitBuffer(keepBuf_, rows8 * sizeof(int32_t));
        pipe.InitBuffer(intBuf_, rows8 * sizeof(int32_t));
        keep_ = keepBuf_.Get<int32_t>();
        ints_ = intBuf_.Get<int32_t>();
    }

    // Choose needs it; rows are so many bytes apart.
    __aicore__ inline void InitChoice(uint32_t rows, uint32_t rowBytes, AscendC::TPipe& pipe)
    {
        const uint32_t rows8 = RoundUp8(rows);
        pipe.InitBuffer(rowBuf_, rows8 * sizeof(int32_t));
        rowStarts_ = rowBuf_.Get<int32_t>();
        FillRamp(rowStarts_, static_cast<int32_t>(rowBytes), rows8, pipe);
    }

    // Elsewhere needs it.
    __aicore__ inline void InitColumns(const CrossEntropyTilingData& tiling, AscendC::TPipe& pipe)
    {
        const uint32_t rows8 = RoundUp8(tiling.batchRows);
        const uint32_t stride8 = RoundUp8(tiling.stride);
        pipe.InitBuffer(floatBuf_, rows8 * sizeof(float));
        pipe.InitBuffer(blockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
        pipe.InitBuffer(columnBuf_, stride8 * sizeof(float));
        blocks_ = blockBuf_.Get<float>();
        columns_ = columnBuf_.Get<float>();
        labelFloat_ = floatBuf_.Get<float>();
        AscendC::Duplicate(labelFloat_, 0.0f, static_cast<int32_t>(rows8));  // Brcb reads whole blocks
        FillRamp(columns_, 1.0f, stride8, pipe);
    }

    __aicore__ inline void Load(uint64_t row, uint32_t rows)
    {
        labels_ = inQueue_.AllocTensor<int32_t>();
        LoadRows(labels_, labelsGm_[row], {1, rows, RoundUp8(rows), rows});
        inQueue_.EnQue(labels_);
        labels_ = inQueue_.DeQue<int32_t>();
        const int32_t count = static_cast<int32_t>(rows);
        // This is all ones where label - ignoreIndex is not 0, else zeros.
        AscendC::Adds(keep_, labels_, -ignoreIndex_, count);
        NotZero(keep_, count);
        AscendC::Muls(keep_, keep_, -1, count);
    }

    __aicore__ inline void Free() { inQueue_.FreeTensor(labels_); }

    // values = values where the row counts, else 0, whatever they are.
    __aicore__ inline void Keep(const AscendC::LocalTensor<float>& values, uint32_t rows)
    {
        const AscendC::LocalTensor<uint16_t> bits = values.ReinterpretCast<uint16_t>();
        AscendC::And(bits, bits, keep_.ReinterpretCast<uint16_t>(), static_cast<int32_t>(2 * rows));
    }

    // values += inf where the label is no column.
    __aicore__ inline void Refuse(const AscendC::LocalTensor<float>& values, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows);
        Outside(count);
        AscendC::Muls(ints_, ints_, INFINITY_BITS, count);
        AscendC::Add(values, values, ints_.ReinterpretCast<float>(), count);
    }

    // dst = 1 where the row counts and its label is a column, else 0.
    __aicore__ inline void Mark(const AscendC::LocalTensor<float>& dst, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows);
        const AscendC::LocalTensor<int32_t> bits = dst.ReinterpretCast<int32_t>();
        Outside(count);
        AscendC::Muls(bits, ints_, -ONE_BITS, count);
        AscendC::Adds(bits, bits, ONE_BITS, count);
        Keep(dst, rows);
    }

    // dst = the label's element of each row of a tile, or some element of the row where the label is no column. An
    // element a row is what Gather is fast enough for.
    template <typename V>
    __aicore__ inline void Choose(const AscendC::LocalTensor<V>& dst, const AscendC::LocalTensor<V>& src, uint32_t rows)
    {
        const int32_t count = static_cast<int32_t>(rows);
        Columns(count);
        AscendC::Muls(ints_, ints_, static_cast<int32_t>(sizeof(V)), count);
        AscendC::Add(ints_, ints_, rowStarts_, count);
        AscendC::Gather(dst, src, ints_.ReinterpretCast<uint32_t>(), 0, rows);
    }

    // dst = 0 in the column of each row's label, else 1, for rows of a tile.
    __aicore__ inline void Elsewhere(const AscendC::LocalTensor<float>& dst, uint32_t rows)
    {
        AscendC::Cast(labelFloat_, labels_, AscendC::RoundMode::CAST_RINT, rows);
        BroadcastRows(blocks_, labelFloat_, rows);
        const uint8_t row = static_cast<uint8_t>(stride_ / FLOATS_PER_BLOCK);
        for (uint32_t column = 0; column < stride_; column += FLOAT_LANES) {
            SubOf::Repeat(dst[column], columns_[column], blocks_, LanesAt(column, stride_), rows, {1, 1, 0, row, 0, 1});
        }
        const int32_t count = static_cast<int32_t>(rows * stride_);
        AscendC::Abs(dst, dst, count);
        AscendC::Mins(dst, dst, 1.0f, count);
    }

    static __aicore__ inline uint32_t RoundUp8(uint32_t count)
    {
        return (count + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
    }

    // Finds where in the logits the labels' elements of up to PLACES rows are, or a row's first element where the label
    // is no column.
    __aicore__ inline void Places(uint64_t* places, uint64_t row, uint32_t rows) const
    {
        for (uint32_t r = 0; r < rows; ++r) {
            const int32_t label = labelsGm_.GetValue(row + r);
            const bool isColumn = label >= 0 && static_cast<uint32_t>(label) < cols_;
            places[r] = (row + r) * cols_ + (isColumn ? static_cast<uint32_t>(label) : 0);
        }
    }

private:
    static constexpr int32_t ONE_BITS = 0x3f800000;  // of 1.0f
    static constexpr int32_t INFINITY_BITS = 0x7f800000;

    // ints_ = the column nearest to the label.
    __aicore__ inline void Columns(int32_t count)
    {
        AscendC::Maxs(ints_, labels_, 0, count);
        AscendC::Mins(ints_, ints_, static_cast<int32_t>(cols_) - 1, count);
    }

    // ints_ = 1 where the label is no column, else 0.
    __aicore__ inline void Outside(int32_t count)
    {
        Columns(count);
        AscendC::Sub(ints_, labels_, ints_, count);
        NotZero(ints_, count);
    }

    // 1 where there is not 0.
    static __aicore__ inline void NotZero(const AscendC::LocalTensor<int32_t>& ints, int32_t count)
    {
        AscendC::Maxs(ints, ints, -1, count);
        AscendC::Mins(ints, ints, 1, count);
        AscendC::Mul(ints, ints, ints, count);
    }

    uint32_t cols_ = 0;
    uint32_t stride_ = 0;
    int32_t ignoreIndex_ = 0;
    AscendC::GlobalTensor<int32_t> labelsGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> keepBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> intBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> columnBuf_;
    AscendC::LocalTensor<int32_t> labels_;
    AscendC::LocalTensor<float> labelFloat_;   // scratch
    AscendC::LocalTensor<int32_t> keep_;       // bits
    AscendC::LocalTensor<int32_t> ints_;       // scratch
    AscendC::LocalTensor<int32_t> rowStarts_;  // of a tile's rows, in bytes
    AscendC::LocalTensor<float> blocks_;
    AscendC::LocalTensor<float> columns_;  // the numbers of the columns
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_CROSS_ENTROPY_LABEL_ROWS_H
