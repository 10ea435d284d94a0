/*!
 * Rounds x to integers of 8 bits, group by group: x = integers * scale.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GROUP_ROUNDING_H
#define MS_ASCEND_OPS_PRIMITIVES_GROUP_ROUNDING_H

#include "kernel_operator.h"
#include "primitives/rounding.h"
#include "primitives/rows.h"
#include "primitives/tile.h"
#include "primitives/weight_quant_tiling.h"

namespace ms_ascend_ops {

constexpr float LEAST_OF_GROUP = 1e-30f;  // a group of smaller numbers has the scale of this one; its inverse is finite

// Groups lie one behind the other, each of some pieces, as a sum takes 64 products at most.
struct Groups {
    uint32_t count;
    uint32_t pieces;
    uint32_t pieceCols;

    __aicore__ inline uint32_t Cols() const { return pieces * pieceCols; }
};

// Sums each group of a row of products, its pieces in their order. `other`: scratch, a float a group.
__aicore__ inline void SumGroups(const AscendC::LocalTensor<float>& sums, const AscendC::LocalTensor<float>& other,
                                 const AscendC::LocalTensor<float>& products, const Groups& groups)
{
    const int32_t count = static_cast<int32_t>(groups.count);
    const int32_t lanes = static_cast<int32_t>(groups.pieceCols);
    const int32_t stride = static_cast<int32_t>(groups.Cols() / FLOATS_PER_BLOCK);
    AscendC::WholeReduceSum(sums, products, lanes, count, 1, 1, stride);
    for (uint32_t piece = 1; piece < groups.pieces; ++piece) {
        AscendC::WholeReduceSum(other, products[piece * groups.pieceCols], lanes, count, 1, 1, stride);
        AscendC::Add(sums, sums, other, count);
    }
}

struct GroupScratch {
    AscendC::LocalTensor<float> product;  // as large as x
    AscendC::LocalTensor<float> largest;  // a float a group
    AscendC::LocalTensor<float> other;    // the same
    AscendC::LocalTensor<float> spread;   // a block a group
};

// x becomes x / scale, of magnitudes up to 127. A value that is not finite makes the scale of its group NaN.
__aicore__ inline void DivideByScale(const AscendC::LocalTensor<float>& x, const AscendC::LocalTensor<float>& scale,
                                     const GroupScratch& scratch, const Groups& groups)
{
    const AscendC::LocalTensor<float>& largest = scratch.largest;
    const AscendC::LocalTensor<float>& other = scratch.other;
    const uint32_t cols = groups.Cols();
    const int32_t elements = static_cast<int32_t>(groups.count * cols);
    const int32_t count = static_cast<int32_t>(groups.count);
    AscendC::Muls(scratch.product, x, 0.0f, elements);
    SumGroups(scale, other, scratch.product, groups);
    AscendC::Abs(scratch.product, x, elements);
    const int32_t lanes = static_cast<int32_t>(groups.pieceCols);
    const int32_t stride = static_cast<int32_t>(cols / FLOATS_PER_BLOCK);
    AscendC::WholeReduceMax(largest, scratch.product, lanes, count, 1, 1, stride,
                            AscendC::ReduceOrder::ORDER_ONLY_VALUE);
    for (uint32_t piece = 1; piece < groups.pieces; ++piece) {
        AscendC::WholeReduceMax(other, scratch.product[piece * groups.pieceCols], lanes, count, 1, 1, stride,
                                AscendC::ReduceOrder::ORDER_ONLY_VALUE);
        AscendC::Max(largest, largest, other, count);
    }
    AscendC::Maxs(largest, largest, LEAST_OF_GROUP, count);
    AscendC::Muls(other, largest, INVERSE_OF_127, count);
    AscendC::Add(scale, scale, other, count);
    AscendC::Duplicate(other, 127.0f, count);
    AscendC::Div(largest, other, largest, count);
    BroadcastRows(scratch.spread, largest, groups.count);
    MultiplyRows(x, x, scratch.spread, {groups.count, cols, cols});
}

// Writes many rows of x, which the cube then multiplies, as the floats that they are rounded to, to global memory.
template <typename T>
class GroupRounding {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR rounded, const WeightQuantTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        roundedGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(rounded));
        const uint32_t elements = tiling.roundedGroups * tiling.pieces * tiling.pieceCols;
        const uint32_t groups8 = (tiling.roundedGroups + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
        pipe.InitBuffer(inQueue_, 2, elements * sizeof(T));
        pipe.InitBuffer(outQueue_, 2, elements * sizeof(T));
        pipe.InitBuffer(floatBuf_, 2 * elements * sizeof(float));
        pipe.InitBuffer(groupBuf_, 3 * groups8 * sizeof(float));
        pipe.InitBuffer(spreadBuf_, groups8 * AscendC::ONE_BLK_SIZE);
        x_ = floatBuf_.template Get<float>();
        scale_ = groupBuf_.template Get<float>();
        scratch_ = {x_[elements], scale_[groups8], scale_[2 * groups8], spreadBuf_.template Get<float>()};
        AscendC::Duplicate(scale_, 1.0f, static_cast<int32_t>(3 * groups8));  // BroadcastRows reads whole blocks
    }

    __aicore__ inline void Process()
    {
        const uint64_t all = static_cast<uint64_t>(tiling_.m) * tiling_.groups;
        const uint64_t step = static_cast<uint64_t>(tiling_.cores) * tiling_.roundedGroups;
        const uint64_t core = AscendC::GetBlockIdx();  // groups of cores may be one more than there is work for
        for (uint64_t group = core < tiling_.cores ? core * tiling_.roundedGroups : all; group < all; group += step) {
            const uint64_t left = all - group;
            Round(group, left < tiling_.roundedGroups ? static_cast<uint32_t>(left) : tiling_.roundedGroups);
        }
    }

private:
    __aicore__ inline void Round(uint64_t group, uint32_t count)
    {
        const Groups groups{count, tiling_.pieces, tiling_.pieceCols};
        const uint32_t cols = groups.Cols();
        const uint32_t elements = count * cols;
        AscendC::LocalTensor<T> x = inQueue_.template AllocTensor<T>();
        LoadRows(x, xGm_[group * cols], {1, elements, elements, elements});
        inQueue_.EnQue(x);
        x = inQueue_.template DeQue<T>();
        if constexpr (IS_FLOAT<T>) {
            AscendC::Muls(x_, x, 1.0f, static_cast<int32_t>(elements));  // a copy
        } else {
            AscendC::Cast(x_, x, AscendC::RoundMode::CAST_NONE, elements);
        }
        inQueue_.FreeTensor(x);
        DivideByScale(x_, scale_, scratch_, groups);
        AscendC::Adds(x_, x_, ROUNDING, static_cast<int32_t>(elements));
        AscendC::Adds(x_, x_, -ROUNDING, static_cast<int32_t>(elements));
        BroadcastRows(scratch_.spread, scale_, count);
        AscendC::LocalTensor<T> out = outQueue_.template AllocTensor<T>();
        MultiplyRows(FloatTarget(out, x_), x_, scratch_.spread, {count, cols, cols});
        FromFloat(out, x_, elements);
        StoreQueued(outQueue_, roundedGm_[group * cols], out, {1, elements, elements, elements});
    }

    WeightQuantTilingData tiling_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> roundedGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> groupBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> spreadBuf_;
    AscendC::LocalTensor<float> x_;
    AscendC::LocalTensor<float> scale_;
    GroupScratch scratch_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GROUP_ROUNDING_H
