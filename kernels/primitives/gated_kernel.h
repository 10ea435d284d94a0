/*!
 * Computes gated linear units, y = act(gate) * up, and their gradient, for any activation of the form of
 * primitives/silu.h and primitives/gelu.h: Forward and Backward on float tensors, with as much scratch as
 * activation_scratch.h says.
 *
 * Plan: every core takes consecutive tiles; inputs and output have double-buffered queues, everything between is in
 * float. gate and up are rows of one or of two tensors; when they alternate element by element, a tile is loaded as it
 * is and taken apart by GatherMask, and the gradient is put together by two transpositions (primitives/interleave.h).
 * Bound: memory (each input once, the output once).
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GATED_KERNEL_H
#define MS_ASCEND_OPS_PRIMITIVES_GATED_KERNEL_H

#include "kernel_operator.h"
#include "primitives/gated_tiling.h"
#include "primitives/interleave.h"
#include "primitives/ones.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// A tile lies here.
struct GatedTile {
    uint32_t rows;
    uint32_t length;
    uint64_t row;
    uint64_t column;
};

__aicore__ inline GatedTile GatedTileAt(const GatedTilingData& tiling, uint64_t index)
{
    const uint64_t group = index / tiling.tilesPerRow;
    const uint64_t row = group * tiling.tileRows;
    const uint64_t column = (index - group * tiling.tilesPerRow) * tiling.tileLength;
    const uint64_t rowsLeft = tiling.rows - row;
    const uint64_t lengthLeft = tiling.length - column;
    return {rowsLeft < tiling.tileRows ? static_cast<uint32_t>(rowsLeft) : tiling.tileRows,
            lengthLeft < tiling.tileLength ? static_cast<uint32_t>(lengthLeft) : tiling.tileLength, row, column};
}

// Calls kernel.Tile for every tile of this core.
template <class KERNEL>
__aicore__ inline void ForGatedTiles(const GatedTilingData& tiling, KERNEL& kernel)
{
    const uint64_t first = tiling.tilesPerCore * AscendC::GetBlockIdx();
    const uint64_t last = first + tiling.tilesPerCore < tiling.tiles ? first + tiling.tilesPerCore : tiling.tiles;
    for (uint64_t index = first; index < last; ++index) {
        kernel.Tile(GatedTileAt(tiling, index));
    }
}

// Loads gate and up of a tile, which lie in one tensor or in two.
template <typename T>
class GatedInput {
public:
    __aicore__ inline void Init(GM_ADDR gate, GM_ADDR up, const GatedTilingData& tiling, AscendC::TPipe& pipe)
    {
        pairs_ = tiling.pairs != 0;
        upFirst_ = tiling.pairs == 2;
        inputStride_ = tiling.inputStride;
        gateGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(gate));
        upGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(up));
        const uint32_t elements = tiling.tileRows * tiling.stride;
        if (pairs_) {
            pipe.InitBuffer(inQueuePairs_, 2, 2 * elements * sizeof(T));
            pipe.InitBuffer(gateBuf_, elements * sizeof(T));
            pipe.InitBuffer(upBuf_, elements * sizeof(T));
        } else {
            pipe.InitBuffer(inQueueGate_, 2, elements * sizeof(T));
            pipe.InitBuffer(inQueueUp_, 2, elements * sizeof(T));
        }
    }

    __aicore__ inline void CopyIn(const GatedTile& tile, uint32_t stride)
    {
        const uint64_t offset = tile.row * inputStride_ + tile.column * (pairs_ ? 2 : 1);
        if (pairs_) {  // always one row
            AscendC::LocalTensor<T> pairs = inQueuePairs_.template AllocTensor<T>();
            LoadRows(pairs, gateGm_[offset], {1, 2 * tile.length, 2 * stride, 2 * tile.length});
            inQueuePairs_.EnQue(pairs);
            return;
        }
        const Rows shape{tile.rows, tile.length, stride, inputStride_};
        AscendC::LocalTensor<T> gate = inQueueGate_.template AllocTensor<T>();
        LoadRows(gate, gateGm_[offset], shape, tile.rows > 1);
        inQueueGate_.EnQue(gate);
        AscendC::LocalTensor<T> up = inQueueUp_.template AllocTensor<T>();
        LoadRows(up, upGm_[offset], shape, tile.rows > 1);
        inQueueUp_.EnQue(up);
    }

    __aicore__ inline void Take(AscendC::LocalTensor<T>& gate, AscendC::LocalTensor<T>& up, uint32_t count)
    {
        if (!pairs_) {
            gate = inQueueGate_.template DeQue<T>();
            up = inQueueUp_.template DeQue<T>();
            return;
        }
        gate = gateBuf_.template Get<T>();
        up = upBuf_.template Get<T>();
        AscendC::LocalTensor<T> pairs = inQueuePairs_.template DeQue<T>();
        uint64_t kept = 0;
        AscendC::GatherMask(upFirst_ ? up : gate, pairs, 1, true, 2 * count, {1, 1, 8, 0}, kept);
        AscendC::GatherMask(upFirst_ ? gate : up, pairs, 2, true, 2 * count, {1, 1, 8, 0}, kept);
        inQueuePairs_.FreeTensor(pairs);
    }

    __aicore__ inline void Free(AscendC::LocalTensor<T>& gate, AscendC::LocalTensor<T>& up)
    {
        if (!pairs_) {
            inQueueGate_.FreeTensor(gate);
            inQueueUp_.FreeTensor(up);
        }
    }

private:
    bool pairs_ = false;
    bool upFirst_ = false;
    uint64_t inputStride_ = 0;
    AscendC::GlobalTensor<T> gateGm_;
    AscendC::GlobalTensor<T> upGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueGate_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueUp_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueuePairs_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gateBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> upBuf_;
};

template <typename T, class ACTIVATION>
class GatedForward {
public:
    __aicore__ inline void Init(GM_ADDR gate, GM_ADDR up, GM_ADDR y, const GatedTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        input_.Init(gate, up, tiling, pipe);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), tiling.rows * tiling.length);
        const uint32_t elements = tiling.tileRows * tiling.stride;
        pipe.InitBuffer(outQueueY_, 2, elements * sizeof(T));
        pipe.InitBuffer(activatedBuf_, elements * sizeof(float));
        activated_ = activatedBuf_.template Get<float>();
        ones_ = BlockOfOnes(onesBuf_, pipe);
        if (tiling.scratch != 0) {
            pipe.InitBuffer(scratchBuf_, tiling.scratch * elements * sizeof(float));
            scratch_ = scratchBuf_.template Get<float>();
        }
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(gateFloatBuf_, elements * sizeof(float));
            pipe.InitBuffer(upFloatBuf_, elements * sizeof(float));
            gateFloat_ = gateFloatBuf_.template Get<float>();
            upFloat_ = upFloatBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process() { ForGatedTiles(tiling_, *this); }

    __aicore__ inline void Tile(const GatedTile& tile)
    {
        input_.CopyIn(tile, tiling_.stride);
        Compute((tile.rows - 1) * tiling_.stride + tile.length);
        AscendC::LocalTensor<T> yLocal = outQueueY_.template DeQue<T>();
        StoreRows(yGm_[tile.row * tiling_.length + tile.column], yLocal,
                  {tile.rows, tile.length, tiling_.stride, tiling_.length});
        outQueueY_.FreeTensor(yLocal);
    }

private:
    __aicore__ inline void Compute(uint32_t count)
    {
        AscendC::LocalTensor<T> gate;
        AscendC::LocalTensor<T> up;
        input_.Take(gate, up, count);
        const AscendC::LocalTensor<float> gateFloat = ToFloat(gate, gateFloat_, count);
        const AscendC::LocalTensor<float> upFloat = ToFloat(up, upFloat_, count);
        ACTIVATION::Forward(activated_, scratch_, tiling_.tileRows * tiling_.stride, gateFloat, ones_,
                            static_cast<int32_t>(count));
        AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
        if constexpr (IS_FLOAT<T>) {
            AscendC::Mul(yLocal, activated_, upFloat, static_cast<int32_t>(count));
        } else {
            AscendC::Mul(activated_, activated_, upFloat, static_cast<int32_t>(count));
            FromFloat(yLocal, activated_, count);
        }
        input_.Free(gate, up);
        outQueueY_.EnQue(yLocal);
    }

    GatedTilingData tiling_;
    GatedInput<T> input_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> activatedBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scratchBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gateFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> upFloatBuf_;
    AscendC::LocalTensor<float> activated_;
    AscendC::LocalTensor<float> scratch_;
    AscendC::LocalTensor<float> ones_;       // one block
    AscendC::LocalTensor<float> gateFloat_;  // for 16-bit T
    AscendC::LocalTensor<float> upFloat_;
};

template <typename T, class ACTIVATION>
class GatedBackward {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR gate, GM_ADDR up, GM_ADDR dgate, GM_ADDR dup,
                                const GatedTilingData& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        input_.Init(gate, up, tiling, pipe);
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy), tiling.rows * tiling.length);
        dgateGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dgate));
        dupGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dup));
        const uint32_t elements = tiling.tileRows * tiling.stride;
        pipe.InitBuffer(inQueueDy_, 2, elements * sizeof(T));
        if (tiling.pairs != 0) {
            pipe.InitBuffer(runsBuf_, 2 * elements * sizeof(float));
            pipe.InitBuffer(transposedBuf_, 2 * elements * sizeof(float));
            pipe.InitBuffer(outQueuePairs_, 2, 2 * elements * sizeof(T));
            runs_ = runsBuf_.template Get<float>();
            // Whole runs are transposed, also where the last one is not full.
            AscendC::Duplicate(runs_, 0.0f, static_cast<int32_t>(2 * elements));
        } else {
            pipe.InitBuffer(outQueueDgate_, 2, elements * sizeof(T));
            pipe.InitBuffer(outQueueDup_, 2, elements * sizeof(T));
        }
        pipe.InitBuffer(valueBuf_, elements * sizeof(float));
        pipe.InitBuffer(slopeBuf_, elements * sizeof(float));
        pipe.InitBuffer(scratchBuf_, tiling.scratch * elements * sizeof(float));
        value_ = valueBuf_.template Get<float>();
        slope_ = slopeBuf_.template Get<float>();
        scratch_ = scratchBuf_.template Get<float>();
        ones_ = BlockOfOnes(onesBuf_, pipe);
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(dyFloatBuf_, elements * sizeof(float));
            pipe.InitBuffer(gateFloatBuf_, elements * sizeof(float));
            pipe.InitBuffer(upFloatBuf_, elements * sizeof(float));
            dyFloat_ = dyFloatBuf_.template Get<float>();
            gateFloat_ = gateFloatBuf_.template Get<float>();
            upFloat_ = upFloatBuf_.template Get<float>();
        }
    }

    __aicore__ inline void Process() { ForGatedTiles(tiling_, *this); }

    __aicore__ inline void Tile(const GatedTile& tile)
    {
        AscendC::LocalTensor<T> dyLocal = inQueueDy_.template AllocTensor<T>();
        LoadRows(dyLocal, dyGm_[tile.row * tiling_.length + tile.column],
                 {tile.rows, tile.length, tiling_.stride, tiling_.length}, tile.rows > 1);
        inQueueDy_.EnQue(dyLocal);
        input_.CopyIn(tile, tiling_.stride);
        const uint32_t count = (tile.rows - 1) * tiling_.stride + tile.length;
        if (tiling_.pairs != 0) {
            ComputePairs(count);
            AscendC::LocalTensor<T> pairs = outQueuePairs_.template DeQue<T>();
            StoreRows(dgateGm_[tile.row * tiling_.inputStride + 2 * tile.column], pairs,
                      {1, 2 * tile.length, 2 * tiling_.stride, 2 * tile.length});
            outQueuePairs_.FreeTensor(pairs);
            return;
        }
        AscendC::LocalTensor<T> dgate = outQueueDgate_.template AllocTensor<T>();
        AscendC::LocalTensor<T> dup = outQueueDup_.template AllocTensor<T>();
        Compute(dgate, dup, count);
        outQueueDgate_.EnQue(dgate);
        outQueueDup_.EnQue(dup);
        CopyOut(tile);
    }

private:
    // Holds a tile as it was loaded.
    struct Operands {
        AscendC::LocalTensor<T> dy;
        AscendC::LocalTensor<T> gate;
        AscendC::LocalTensor<T> up;
        AscendC::LocalTensor<float> dyFloat;
    };

    // Makes what dy is multiplied with: slope_ = up * slope for dgate, value_ for dup.
    __aicore__ inline Operands Factors(uint32_t count)
    {
        Operands tile;
        tile.dy = inQueueDy_.template DeQue<T>();
        input_.Take(tile.gate, tile.up, count);
        tile.dyFloat = ToFloat(tile.dy, dyFloat_, count);
        const AscendC::LocalTensor<float> gateFloat = ToFloat(tile.gate, gateFloat_, count);
        const AscendC::LocalTensor<float> upFloat = ToFloat(tile.up, upFloat_, count);
        ACTIVATION::template Backward<true>(value_, slope_, scratch_, tiling_.tileRows * tiling_.stride, gateFloat,
                                            ones_, static_cast<int32_t>(count));
        AscendC::Mul(slope_, slope_, upFloat, static_cast<int32_t>(count));
        return tile;
    }

    __aicore__ inline void Free(Operands& tile)
    {
        inQueueDy_.FreeTensor(tile.dy);
        input_.Free(tile.gate, tile.up);
    }

    __aicore__ inline void Compute(const AscendC::LocalTensor<T>& dgate, const AscendC::LocalTensor<T>& dup,
                                   uint32_t count)
    {
        Operands tile = Factors(count);
        const AscendC::LocalTensor<float> dgateFloat = FloatTarget(dgate, slope_);
        const AscendC::LocalTensor<float> dupFloat = FloatTarget(dup, value_);
        AscendC::Mul(dgateFloat, slope_, tile.dyFloat, static_cast<int32_t>(count));
        FromFloat(dgate, dgateFloat, count);
        AscendC::Mul(dupFloat, value_, tile.dyFloat, static_cast<int32_t>(count));
        FromFloat(dup, dupFloat, count);
        Free(tile);
    }

    __aicore__ inline void ComputePairs(uint32_t count)
    {
        const uint32_t gateAt = tiling_.pairs == 2 ? RUN : 0;
        constexpr uint8_t APART = 2 * RUN / FLOATS_PER_BLOCK;
        Operands tile = Factors(count);
        MulOf::Counter(runs_[gateAt], slope_, tile.dyFloat, count, {1, 1, 1, APART, 8, 8});
        MulOf::Counter(runs_[RUN - gateAt], value_, tile.dyFloat, count, {1, 1, 1, APART, 8, 8});
        Free(tile);
        AscendC::LocalTensor<T> pairs = outQueuePairs_.template AllocTensor<T>();
        const AscendC::LocalTensor<float> pairsFloat = FloatTarget(pairs, runs_);
        Interleave(pairsFloat, runs_, transposedBuf_.template Get<float>(), count);
        FromFloat(pairs, pairsFloat, 2 * count);
        outQueuePairs_.EnQue(pairs);
    }

    __aicore__ inline void CopyOut(const GatedTile& tile)
    {
        const uint64_t offset = tile.row * tiling_.inputStride + tile.column;
        const Rows shape{tile.rows, tile.length, tiling_.stride, tiling_.inputStride};
        AscendC::LocalTensor<T> dgate = outQueueDgate_.template DeQue<T>();
        StoreRows(dgateGm_[offset], dgate, shape);
        outQueueDgate_.FreeTensor(dgate);
        AscendC::LocalTensor<T> dup = outQueueDup_.template DeQue<T>();
        StoreRows(dupGm_[offset], dup, shape);
        outQueueDup_.FreeTensor(dup);
    }

    GatedTilingData tiling_;
    GatedInput<T> input_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> dgateGm_;
    AscendC::GlobalTensor<T> dupGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDgate_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDup_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueuePairs_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> runsBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> transposedBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> valueBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> slopeBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scratchBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> dyFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gateFloatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> upFloatBuf_;
    AscendC::LocalTensor<float> value_;
    AscendC::LocalTensor<float> slope_;
    AscendC::LocalTensor<float> scratch_;
    AscendC::LocalTensor<float> ones_;     // one block
    AscendC::LocalTensor<float> runs_;     // pairs: 64 of dgate, 64 of dup ...
    AscendC::LocalTensor<float> dyFloat_;  // for 16-bit T
    AscendC::LocalTensor<float> gateFloat_;
    AscendC::LocalTensor<float> upFloat_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GATED_KERNEL_H
