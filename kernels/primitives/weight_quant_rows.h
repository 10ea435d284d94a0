/*!
 * Multiplies few rows of x with a weight in 8 or 4 bits, on the vector unit.
 *
 * A sum over a group g is linear in its scale and offset, so that numbers are multiplied as they are:
 *
 *     y = bias + sum over g of (sum of weight x + offset[g] (sum of x)) scale[g]
 *
 * With quantize_x, x is first rounded to integers of 8 bits, group by group: x = integers * xScale[g]. A sum of their
 * products is exact, and comes before both scales. Loops of a host answer in its place (weight_quant_library.h).
 *
 * Plan: every core takes some rows of the weight, block by block. For each row of x and of the weight a product and its
 * sums by groups; then offsets and scales for all groups of the block at once, and the activation. Of a gated pair the
 * gate's rows come first, block by block.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_ROWS_H
#define MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_ROWS_H

#include "kernel_operator.h"
#include "primitives/activations.h"
#include "primitives/group_rounding.h"
#include "primitives/ones.h"
#include "primitives/rounding.h"
#include "primitives/row_values.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "primitives/weight_quant_tiling.h"

namespace ms_ascend_ops {

template <typename T, typename S>
class WeightQuantRows {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR weight, GM_ADDR scale, GM_ADDR offset, GM_ADDR bias, GM_ADDR y,
                                const WeightQuantTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        weightGm_.SetGlobalBuffer(reinterpret_cast<__gm__ int8_t*>(weight));
        scaleGm_.SetGlobalBuffer(reinterpret_cast<__gm__ S*>(scale));
        offsetGm_.SetGlobalBuffer(reinterpret_cast<__gm__ S*>(offset));
        biasGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(bias));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        const uint32_t elements = tiling.blockRows * tiling.k;
        const uint32_t groups = tiling.blockRows * tiling.groupStride;
        pipe.InitBuffer(xQueue_, 1, tiling.m * tiling.k * sizeof(T));
        pipe.InitBuffer(xBuf_, tiling.m * tiling.k * sizeof(float));
        pipe.InitBuffer(xSumBuf_, tiling.m * tiling.groupStride * sizeof(float));
        if (tiling.quantizeX != 0) {
            pipe.InitBuffer(xScaleBuf_, tiling.m * tiling.groupStride * sizeof(float));
            pipe.InitBuffer(integerBuf_, tiling.m * tiling.k * sizeof(int8_t));
            pipe.InitBuffer(xHalfBuf_, tiling.k * sizeof(half));
            xScales_ = xScaleBuf_.template Get<float>();
            integers_ = integerBuf_.template Get<int8_t>();
            xHalf_ = xHalfBuf_.template Get<half>();
        }
        pipe.InitBuffer(weightQueue_, 2, elements / tiling.perByte);
        pipe.InitBuffer(scaleQueue_, 2, groups * sizeof(S));
        pipe.InitBuffer(offsetQueue_, 2, groups * sizeof(S));
        pipe.InitBuffer(biasQueue_, 1, tiling.blockRows * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, tiling.blockRows * sizeof(T));
        pipe.InitBuffer(halfBuf_, elements * sizeof(half));
        pipe.InitBuffer(floatBuf_, elements * sizeof(float));
        pipe.InitBuffer(productBuf_, tiling.k * sizeof(float));
        pipe.InitBuffer(groupBuf_, 5 * groups * sizeof(float));
        if (tiling.finished != 0) {
            pipe.InitBuffer(activationBuf_, (1 + tiling.scratch) * tiling.blockRows * sizeof(float));
            activated_ = activationBuf_.template Get<float>();
            ones_ = BlockOfOnes(onesBuf_, pipe);
        }
        if (tiling.parts > 1) {
            pipe.InitBuffer(gateBuf_, tiling.m * tiling.blockRows * sizeof(float));
            gate_ = gateBuf_.template Get<float>();
        }
        x_ = xBuf_.template Get<float>();
        xSums_ = xSumBuf_.template Get<float>();
        half_ = halfBuf_.template Get<half>();
        float_ = floatBuf_.template Get<float>();
        product_ = productBuf_.template Get<float>();
        sums_ = groupBuf_.template Get<float>();
        pieceSums_ = sums_[groups];
        scale_ = sums_[2 * groups];
        offset_ = sums_[3 * groups];
        shifts_ = sums_[4 * groups];
        rows_.Init(tiling.blockRows, pipe);
        // Zeros fill the gap between a row's last group and the next row: instructions go over it.
        AscendC::Duplicate(sums_, 0.0f, static_cast<int32_t>(5 * groups));
        AscendC::Duplicate(xSums_, 0.0f, static_cast<int32_t>(tiling.m * tiling.groupStride));
    }

    __aicore__ inline void Process()
    {
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        if (core >= tiling_.tasks) {
            return;
        }
        TakeX();
        const uint32_t first = static_cast<uint32_t>(core) * tiling_.tileRows;
        const uint32_t left = tiling_.n - first;
        const uint32_t last = first + (left < tiling_.tileRows ? left : tiling_.tileRows);
        for (uint32_t row = first; row < last; row += tiling_.blockRows) {
            const uint32_t rows = last - row < tiling_.blockRows ? last - row : tiling_.blockRows;
            for (uint32_t i = 0; i < tiling_.m; i += tiling_.rowsAtOnce) {
                for (uint32_t part = 0; part < tiling_.parts; ++part) {
                    Block(part, row, rows, i);
                }
            }
        }
    }

private:
    __aicore__ inline void TakeX()
    {
        const uint32_t count = tiling_.m * tiling_.k;
        AscendC::LocalTensor<T> x = xQueue_.template AllocTensor<T>();
        LoadRows(x, xGm_, {1, count, count, count});
        xQueue_.EnQue(x);
        x = xQueue_.template DeQue<T>();
        if constexpr (IS_FLOAT<T>) {
            AscendC::Muls(x_, x, 1.0f, static_cast<int32_t>(count));  // a copy
        } else {
            AscendC::Cast(x_, x, AscendC::RoundMode::CAST_NONE, count);
        }
        xQueue_.FreeTensor(x);
        for (uint32_t i = 0; i < tiling_.m; ++i) {
            if (tiling_.quantizeX != 0) {
                RoundX(i);
            }
            if (tiling_.hasOffset != 0) {
                const AscendC::LocalTensor<float> sums = xSums_[i * tiling_.groupStride];
                SumGroups(sums, pieceSums_, x_[i * tiling_.k], GroupsOfRow());
                if (tiling_.quantizeX != 0) {
                    AscendC::Mul(sums, sums, xScales_[i * tiling_.groupStride], static_cast<int32_t>(tiling_.groups));
                }
            }
        }
    }

    // These hold a row of x as integers and their scales.
    __aicore__ inline void RoundX(uint32_t i)
    {
        const AscendC::LocalTensor<float> x = x_[i * tiling_.k];
        DivideByScale(x, xScales_[i * tiling_.groupStride], {product_, sums_, pieceSums_, float_}, GroupsOfRow());
        RoundToBytes(integers_[i * tiling_.k], x, half_, tiling_.k);
    }

    __aicore__ inline Groups GroupsOfRow() const { return {tiling_.groups, tiling_.pieces, tiling_.pieceCols}; }

    // Loads scales or offsets of a block.
    __aicore__ inline void LoadFactors(AscendC::TQue<AscendC::TPosition::VECIN, 1>& queue,
                                       const AscendC::GlobalTensor<S>& from, uint32_t row, uint32_t rows)
    {
        AscendC::LocalTensor<S> factors = queue.template AllocTensor<S>();
        LoadRows(factors, from[static_cast<uint64_t>(row) * tiling_.groups],
                 {rows, tiling_.groups, tiling_.groupStride, tiling_.groups}, true);
        queue.EnQue(factors);
    }

    // Takes factors as floats. They stay in the queue.
    __aicore__ inline AscendC::LocalTensor<S> TakeFactors(AscendC::TQue<AscendC::TPosition::VECIN, 1>& queue,
                                                          const AscendC::LocalTensor<float>& to, uint32_t rows)
    {
        AscendC::LocalTensor<S> factors = queue.template DeQue<S>();
        const uint8_t toStride = static_cast<uint8_t>(tiling_.groupStride / FLOATS_PER_BLOCK);
        const uint8_t fromStride = static_cast<uint8_t>(tiling_.groupStride * sizeof(S) / AscendC::ONE_BLK_SIZE);
        const AscendC::UnaryRepeatParams strides(1, 1, toStride, fromStride);
        for (uint32_t group = 0; group < tiling_.groups; group += FLOAT_LANES) {
            const uint32_t lanes = LanesAt(group, tiling_.groups);
            if constexpr (IS_FLOAT<S>) {  // a copy
                AscendC::Muls(to[group], factors[group], 1.0f, static_cast<uint64_t>(lanes), static_cast<uint8_t>(rows),
                              strides);
            } else {
                AscendC::Cast(to[group], factors[group], AscendC::RoundMode::CAST_NONE, static_cast<uint64_t>(lanes),
                              static_cast<uint8_t>(rows), strides);
            }
        }
        return factors;
    }

    // `column`: of the output, which the rows give. `first`: of the rows of x that are multiplied with it.
    __aicore__ inline void Block(uint32_t part, uint32_t column, uint32_t rows, uint32_t first)
    {
        const uint32_t left = tiling_.m - first;
        const uint32_t last = first + (left < tiling_.rowsAtOnce ? left : tiling_.rowsAtOnce);
        const uint32_t row = part * tiling_.n + column;
        const uint32_t elements = rows * tiling_.k;
        const uint32_t bytes = elements / tiling_.perByte;
        AscendC::LocalTensor<int8_t> weight = weightQueue_.template AllocTensor<int8_t>();
        LoadRows(weight, weightGm_[static_cast<uint64_t>(row) * tiling_.k / tiling_.perByte], {1, bytes, bytes, bytes});
        weightQueue_.EnQue(weight);
        LoadFactors(scaleQueue_, scaleGm_, row, rows);
        if (tiling_.hasOffset != 0) {
            LoadFactors(offsetQueue_, offsetGm_, row, rows);
        }
        weight = weightQueue_.template DeQue<int8_t>();
        if (tiling_.perByte == 2) {
            AscendC::Cast(half_, weight.template ReinterpretCast<AscendC::int4b_t>(), AscendC::RoundMode::CAST_NONE,
                          elements);
        } else {
            AscendC::Cast(half_, weight, AscendC::RoundMode::CAST_NONE, elements);
        }
        AscendC::Cast(float_, half_, AscendC::RoundMode::CAST_NONE, elements);
        AscendC::LocalTensor<S> scale;
        AscendC::LocalTensor<S> offset;
        for (uint32_t i = first; i < last; ++i) {
            const AscendC::LocalTensor<float> x = x_[(i - first) * tiling_.k];
            if (tiling_.quantizeX != 0) {
                AscendC::Cast(xHalf_, integers_[i * tiling_.k], AscendC::RoundMode::CAST_NONE, tiling_.k);
                AscendC::Cast(x, xHalf_, AscendC::RoundMode::CAST_NONE, tiling_.k);
            }
            for (uint32_t r = 0; r < rows; ++r) {
                AscendC::Mul(product_, float_[r * tiling_.k], x, static_cast<int32_t>(tiling_.k));
                SumGroups(sums_[r * tiling_.groupStride], pieceSums_, product_, GroupsOfRow());
            }
            if (i == first) {
                scale = TakeFactors(scaleQueue_, scale_, rows);
                if (tiling_.hasOffset != 0) {
                    offset = TakeFactors(offsetQueue_, offset_, rows);
                }
            }
            Finish(i, part, column, rows);
        }
        weightQueue_.FreeTensor(weight);
        scaleQueue_.FreeTensor(scale);
        if (tiling_.hasOffset != 0) {
            offsetQueue_.FreeTensor(offset);
        }
    }

    __aicore__ inline void Finish(uint32_t i, uint32_t part, uint32_t column, uint32_t rows)
    {
        const RowBlock block{rows, tiling_.groups, tiling_.groupStride};
        if (tiling_.quantizeX != 0) {
            MultiplyColumns(sums_, sums_, xScales_[i * tiling_.groupStride], block);
        }
        if (tiling_.hasOffset != 0) {
            MultiplyColumns(shifts_, offset_, xSums_[i * tiling_.groupStride], block);
            InRows<AddOf>(sums_, sums_, shifts_, block);
        }
        InRows<MulOf>(sums_, sums_, scale_, block);
        // Floats have the zeros behind a row's groups, so that rows are whole vectors.
        const uint32_t cols = tiling_.quantizeX != 0 ? tiling_.groups : tiling_.groupStride;
        rows_.template Start<AddOf>(rows, cols);
        rows_.template Fold<AddOf>(sums_, 0, {rows, cols, tiling_.groupStride}, cols);
        rows_.Sums(rows, cols);
        if (tiling_.hasBias != 0) {
            AscendC::LocalTensor<float> bias = biasQueue_.template AllocTensor<float>();
            LoadRows(bias, biasGm_[part * tiling_.n + column], {1, rows, rows, rows});
            biasQueue_.EnQue(bias);
            bias = biasQueue_.template DeQue<float>();
            AscendC::Add(rows_.values, rows_.values, bias, static_cast<int32_t>(rows));
            biasQueue_.FreeTensor(bias);
        }
        if (part + 1 < tiling_.parts) {  // the gate's
            AscendC::Muls(gate_[i * tiling_.blockRows], rows_.values, 1.0f, static_cast<int32_t>(rows));
            return;
        }
        const AscendC::LocalTensor<float> values = Activated(i, rows);
        AscendC::LocalTensor<T> y = outQueue_.template AllocTensor<T>();
        if constexpr (IS_FLOAT<T>) {
            AscendC::Muls(y, values, 1.0f, static_cast<int32_t>(rows));  // a copy
        } else {
            FromFloat(y, values, rows);
        }
        StoreQueued(outQueue_, yGm_[static_cast<uint64_t>(i) * tiling_.n + column], y, {1, rows, rows, rows});
    }

    __aicore__ inline AscendC::LocalTensor<float> Activated(uint32_t i, uint32_t rows)
    {
        if (tiling_.finished == 0) {
            return rows_.values;
        }
        const int32_t count = static_cast<int32_t>(rows);
        const AscendC::LocalTensor<float> from = tiling_.parts > 1 ? gate_[i * tiling_.blockRows] : rows_.values;
        Activate<T>(tiling_.activation, activated_, ScratchBehind(activated_, tiling_.blockRows, tiling_.scratch),
                    tiling_.blockRows, from, ones_, count);
        if (tiling_.parts > 1) {
            AscendC::Mul(activated_, activated_, rows_.values, count);
        }
        return activated_;
    }

    WeightQuantTilingData tiling_;
    RowValues rows_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<int8_t> weightGm_;
    AscendC::GlobalTensor<S> scaleGm_;
    AscendC::GlobalTensor<S> offsetGm_;
    AscendC::GlobalTensor<float> biasGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> xQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> weightQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> scaleQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> offsetQueue_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> biasQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xSumBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xScaleBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> integerBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> xHalfBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> halfBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> productBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> groupBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> activationBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gateBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<float> x_;  // or its integers
    AscendC::LocalTensor<float> xSums_;
    AscendC::LocalTensor<float> xScales_;
    AscendC::LocalTensor<int8_t> integers_;
    AscendC::LocalTensor<half> xHalf_;
    AscendC::LocalTensor<half> half_;
    AscendC::LocalTensor<float> float_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> sums_;       // of each group
    AscendC::LocalTensor<float> pieceSums_;  // of a row's groups
    AscendC::LocalTensor<float> scale_;
    AscendC::LocalTensor<float> offset_;
    AscendC::LocalTensor<float> shifts_;
    AscendC::LocalTensor<float> activated_;  // of a block, and the activation's scratch
    AscendC::LocalTensor<float> gate_;       // of a block, for each row of x
    AscendC::LocalTensor<float> ones_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_WEIGHT_QUANT_ROWS_H
