/*!
 * Takes a tile of heads through the Unified Buffer and rotates it by the rotary embedding: y = x * cos + partner(x) *
 * sin.
 *
 * half: the partner is the other half of the head, read in place. interleave: it is the neighbour, taken from two
 * copies of x loaded one element further and one element back, by masks on the bits (And, Or): no element is gathered.
 * Instructions go over the whole tile, or over all heads of a position where cos differs. Tiles are double-buffered,
 * and rotated in float. Kernels say where the heads come from and where they go.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROTARY_TILE_H
#define MS_ASCEND_OPS_PRIMITIVES_ROTARY_TILE_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/rotary_table.h"

namespace ms_ascend_ops {

struct HeadTile {
    uint32_t positions;
    uint32_t heads;  // of each position

    __aicore__ inline uint32_t Heads() const { return positions * heads; }
};

// The heads of a tile are in global memory: head j of position i begins at offset + i * positionStride + j *
// headStride.
struct HeadPlace {
    uint64_t offset;
    uint64_t positionStride;
    uint64_t headStride;
};

// Moves the heads of a tile: `count` copies of rows, from each copy to the next `gmStep` elements in global memory and
// `ubStep` in the Unified Buffer.
struct HeadCopies {
    uint32_t count;
    uint64_t gmStep;
    uint32_t ubStep;
    Rows rows;
};

// Returns copies of whole heads, which follow each other in the Unified Buffer; from a position to the next are
// `ubStride` elements.
__aicore__ inline HeadCopies WholeHeads(const HeadPlace& place, const HeadTile& tile, uint32_t dim, uint32_t ubStride)
{
    const uint32_t cols = tile.heads * dim;
    const bool together = tile.heads == 1 || place.headStride == dim;
    if (together && (tile.positions == 1 || (place.positionStride == cols && ubStride == cols))) {
        const uint32_t all = tile.positions * cols;
        return {1, 0, 0, {1, all, all, all}};
    }
    if (together) {
        return {1, 0, 0, {tile.positions, cols, ubStride, place.positionStride}};
    }
    return {tile.heads, place.headStride, dim, {tile.positions, dim, ubStride, place.positionStride}};
}

// Returns pieces of `cols` elements of every head, `stride` elements from head to head in the Unified Buffer. In global
// memory heads have one distance, to which a tiling has to keep: those of one head, of one position, or of whole
// positions.
__aicore__ inline Rows PiecesOfHeads(const HeadPlace& place, const HeadTile& tile, uint32_t cols, uint32_t stride)
{
    return {tile.Heads(), cols, stride, tile.heads == 1 ? place.positionStride : place.headStride};
}

template <typename T>
__aicore__ inline void LoadCopies(const AscendC::LocalTensor<T>& dst, const AscendC::GlobalTensor<T>& src,
                                  const HeadCopies& copies)
{
    for (uint32_t i = 0; i < copies.count; ++i) {
        LoadRows(dst[i * copies.ubStep], src[i * copies.gmStep], copies.rows);
    }
}

template <typename T>
__aicore__ inline void StoreCopies(const AscendC::GlobalTensor<T>& dst, const AscendC::LocalTensor<T>& src,
                                   const HeadCopies& copies)
{
    for (uint32_t i = 0; i < copies.count; ++i) {
        StoreRows(dst[i * copies.gmStep], src[i * copies.ubStep], copies.rows);
    }
}

template <typename T, typename C>
class RotaryTile {
public:
    // `direction` is 1, or -1 to rotate back.
    __aicore__ inline void Init(GM_ADDR cos, GM_ADDR sin, const RotaryTilingData& tiling, float direction,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        tail_ = tiling.dim - 2 * tiling.half;
        packed_ = tiling.stride == tiling.dim && (tiling.interleave != 0 || tiling.halfStride == tiling.half);
        const uint32_t room = tiling.tilePositions * tiling.tileHeads * tiling.stride;
        pipe.InitBuffer(inQueueX_, 2, room * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, room * sizeof(T));
        pipe.InitBuffer(rotatedBuf_, room * sizeof(float));
        rotated_ = rotatedBuf_.template Get<float>();
        if constexpr (!IS_FLOAT<T>) {
            pipe.InitBuffer(floatBuf_, room * sizeof(float));
            float_ = floatBuf_.template Get<float>();
        }
        table_.Init(cos, sin, tiling, direction, pipe);
        if (tiling.interleave != 0) {
            pipe.InitBuffer(inQueueNext_, 2, room * sizeof(T));
            pipe.InitBuffer(inQueueBefore_, 2, room * sizeof(T));
            pipe.InitBuffer(maskBuf_, 2 * AscendC::ONE_BLK_SIZE);
            if constexpr (!IS_FLOAT<T>) {
                pipe.InitBuffer(partnerBuf_, room * sizeof(T));
            }
            FillMasks(pipe);
        }
    }

    // Rotates the heads of a tile from `source` in x, which has so many elements, to `target` in y. `row` is the row of
    // the tables for its first position.
    __aicore__ inline void Rotate(const AscendC::GlobalTensor<T>& xGm, uint64_t elements, const HeadPlace& source,
                                  const AscendC::GlobalTensor<T>& yGm, const HeadPlace& target, const HeadTile& tile,
                                  uint64_t row)
    {
        table_.Prepare(row, tile.positions);
        CopyIn(xGm, elements, source, tile);
        AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
        Compute(yLocal, tile);
        outQueueY_.EnQue(yLocal);
        yLocal = outQueueY_.template DeQue<T>();
        Store(yGm, target, yLocal, tile);
        outQueueY_.FreeTensor(yLocal);
    }

private:
    __aicore__ inline void CopyIn(const AscendC::GlobalTensor<T>& xGm, uint64_t elements, const HeadPlace& source,
                                  const HeadTile& tile)
    {
        AscendC::LocalTensor<T> xLocal = inQueueX_.template AllocTensor<T>();
        Load(xLocal, xGm, source, tile);
        inQueueX_.EnQue(xLocal);
        if (tiling_.interleave != 0) {
            AscendC::LocalTensor<T> next = inQueueNext_.template AllocTensor<T>();
            LoadNext(next, xGm, elements, source, tile);
            inQueueNext_.EnQue(next);
            AscendC::LocalTensor<T> before = inQueueBefore_.template AllocTensor<T>();
            LoadBefore(before, xGm, source, tile);
            inQueueBefore_.EnQue(before);
        }
    }

    // Loads heads as they lie in the Unified Buffer: the halves (or the pairs) and the elements that are not rotated,
    // each from a block on.
    __aicore__ inline void Load(const AscendC::LocalTensor<T>& xLocal, const AscendC::GlobalTensor<T>& xGm,
                                const HeadPlace& source, const HeadTile& tile)
    {
        if (packed_) {
            LoadCopies(xLocal, xGm[source.offset], Packed(source, tile));
            return;
        }
        const uint32_t pieces = tiling_.interleave != 0 ? 1 : 2;
        const uint32_t cols = 2 * tiling_.half / pieces;
        for (uint32_t i = 0; i < pieces && cols > 0; ++i) {
            LoadRows(xLocal[i * tiling_.halfStride], xGm[source.offset + i * tiling_.half],
                     PiecesOfHeads(source, tile, cols, tiling_.stride), true);
        }
        if (tail_ > 0) {
            LoadRows(xLocal[tiling_.rotated], xGm[source.offset + 2 * tiling_.half],
                     PiecesOfHeads(source, tile, tail_, tiling_.stride), true);
        }
    }

    __aicore__ inline void Store(const AscendC::GlobalTensor<T>& yGm, const HeadPlace& target,
                                 const AscendC::LocalTensor<T>& yLocal, const HeadTile& tile)
    {
        if (packed_) {
            StoreCopies(yGm[target.offset], yLocal, Packed(target, tile));
            return;
        }
        const uint32_t pieces = tiling_.interleave != 0 ? 1 : 2;
        const uint32_t cols = 2 * tiling_.half / pieces;
        for (uint32_t i = 0; i < pieces && cols > 0; ++i) {
            StoreRows(yGm[target.offset + i * tiling_.half], yLocal[i * tiling_.halfStride],
                      PiecesOfHeads(target, tile, cols, tiling_.stride));
        }
        if (tail_ > 0) {
            StoreRows(yGm[target.offset + 2 * tiling_.half], yLocal[tiling_.rotated],
                      PiecesOfHeads(target, tile, tail_, tiling_.stride));
        }
    }

    // Loads x one element further on. At the end of x there is none: the last one is left out and its place filled.
    __aicore__ inline void LoadNext(const AscendC::LocalTensor<T>& next, const AscendC::GlobalTensor<T>& xGm,
                                    uint64_t elements, const HeadPlace& source, const HeadTile& tile)
    {
        if (!packed_) {
            LoadRows(next, xGm[source.offset + 1], PiecesOfHeads(source, tile, 2 * tiling_.half - 1, tiling_.stride),
                     true);
            return;
        }
        const HeadCopies copies = Packed(source, tile);
        for (uint32_t i = 0; i < copies.count; ++i) {
            const uint64_t at = source.offset + i * copies.gmStep;
            Rows shape = copies.rows;
            const bool atEnd = at + (shape.rows - 1) * shape.gmStride + shape.cols == elements;
            shape.cols -= atEnd ? 1 : 0;
            LoadRows(next[i * copies.ubStep], xGm[at + 1], shape, atEnd);
        }
    }

    // x one element back; before the first one a place is filled.
    __aicore__ inline void LoadBefore(const AscendC::LocalTensor<T>& before, const AscendC::GlobalTensor<T>& xGm,
                                      const HeadPlace& source, const HeadTile& tile)
    {
        const HeadCopies copies =
            packed_ ? Packed(source, tile)
                    : HeadCopies{1, 0, 0, PiecesOfHeads(source, tile, 2 * tiling_.half, tiling_.stride)};
        const Rows& shape = copies.rows;
        constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(T);
        const uint32_t ragged = shape.cols % PER_BLOCK;
        for (uint32_t i = 0; i < copies.count; ++i) {
            const uint64_t at = source.offset + i * copies.gmStep;
            if (packed_ && at > 0) {
                LoadRows(before[i * copies.ubStep], xGm[at - 1], shape);
                continue;
            }
            AscendC::DataCopyPad(
                before[i * copies.ubStep], xGm[at],
                {static_cast<uint16_t>(shape.rows), static_cast<uint32_t>((shape.cols - 1) * sizeof(T)),
                 static_cast<uint32_t>((shape.gmStride - shape.cols + 1) * sizeof(T)), GapBlocks<T>(shape), 0},
                AscendC::DataCopyPadExtParams<T>{true, 1, static_cast<uint8_t>(ragged == 0 ? 0 : PER_BLOCK - ragged),
                                                 T{}});
        }
    }

    __aicore__ inline HeadCopies Packed(const HeadPlace& place, const HeadTile& tile) const
    {
        return WholeHeads(place, tile, tiling_.dim, tile.heads * tiling_.dim);
    }

    __aicore__ inline void Compute(const AscendC::LocalTensor<T>& yLocal, const HeadTile& tile)
    {
        const uint32_t count = tile.Heads() * tiling_.stride;
        const uint32_t rotated = tail_ == 0 ? tiling_.stride : tiling_.rotated;
        AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
        AscendC::LocalTensor<float> partner;
        if (tiling_.interleave != 0) {  // first, so that x comes to be float where it is multiplied
            partner = Partners(count);
        }
        const AscendC::LocalTensor<float> x = ToFloat(xLocal, float_, count);
        if (tiling_.interleave != 0) {
            WithTable<MulOf>(rotated_, partner, table_.Sin(), tile, tiling_.rotated);
        } else {
            const uint32_t h = tiling_.halfStride;
            WithTable<MulOf>(rotated_, x[h], table_.Sin(), tile, h);
            WithTable<MulOf>(rotated_[h], x, table_.Sin()[h], tile, h);
        }
        const AscendC::LocalTensor<float> y = Target(yLocal);
        WithTable<MulOf>(y, x, table_.Cos(), tile, tiling_.stride);
        if (rotated == tiling_.stride) {
            AscendC::Add(y, y, rotated_, static_cast<int32_t>(count));
        } else {
            AddRotated(y, tile.Heads());
        }
        FromFloat(yLocal, y, count);
        inQueueX_.FreeTensor(xLocal);
    }

    __aicore__ inline AscendC::LocalTensor<float> Target(const AscendC::LocalTensor<T>& yLocal)
    {
        if constexpr (IS_FLOAT<T>) {
            return yLocal;
        } else {
            return float_;
        }
    }

    // Returns the neighbour of every element: the next one at even places, the one before at odd places. Both copies
    // are masked where they are.
    __aicore__ inline AscendC::LocalTensor<float> Partners(uint32_t count)
    {
        AscendC::LocalTensor<T> next = inQueueNext_.template DeQue<T>();
        AscendC::LocalTensor<T> before = inQueueBefore_.template DeQue<T>();
        const uint32_t bits = count * static_cast<uint32_t>(sizeof(T) / sizeof(uint16_t));
        const AscendC::LocalTensor<uint16_t> masks = maskBuf_.template Get<uint16_t>();
        const AscendC::LocalTensor<T> partner = Partner();
        const AscendC::LocalTensor<uint16_t> even = next.template ReinterpretCast<uint16_t>();
        const AscendC::LocalTensor<uint16_t> odd = before.template ReinterpretCast<uint16_t>();
        const AscendC::BinaryRepeatParams block(1, 1, 0, 8, 8, 0);
        AscendC::SetMaskCount();
        AscendC::SetVectorMask<uint16_t, AscendC::MaskMode::COUNTER>(0, bits);
        AscendC::And<uint16_t, false>(even, even, masks, AscendC::MASK_PLACEHOLDER, 1, block);
        AscendC::And<uint16_t, false>(odd, odd, masks[AscendC::ONE_BLK_SIZE / sizeof(uint16_t)],
                                      AscendC::MASK_PLACEHOLDER, 1, block);
        EndCounterMode();
        AscendC::Or(partner.template ReinterpretCast<uint16_t>(), even, odd, static_cast<int32_t>(bits));
        inQueueNext_.FreeTensor(next);
        inQueueBefore_.FreeTensor(before);
        return ToFloat(partner, rotated_, count);
    }

    __aicore__ inline AscendC::LocalTensor<T> Partner()
    {
        if constexpr (IS_FLOAT<T>) {
            return rotated_;
        } else {
            return partnerBuf_.template Get<T>();
        }
    }

    // Computes dst = src OP table on the first `cols` elements of every head of a tile.
    template <class OP>
    __aicore__ inline void WithTable(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                     const AscendC::LocalTensor<float>& table, const HeadTile& tile, uint32_t cols)
    {
        if (tile.heads == 1 && cols == tiling_.stride) {
            OP::Apply(dst, src, table, tile.positions * tiling_.stride);
            return;
        }
        const uint32_t outer = tile.heads == 1 ? 1 : tile.positions;
        const uint32_t inner = tile.heads == 1 ? tile.positions : tile.heads;
        const uint32_t step = RowsAtOnce(tiling_.stride);
        const uint8_t row = static_cast<uint8_t>(tiling_.stride / FLOATS_PER_BLOCK);
        const uint8_t tableRow = tile.heads == 1 ? row : 0;
        for (uint32_t i = 0; i < outer; ++i) {
            for (uint32_t j = 0; j < inner; j += step) {
                const uint32_t rows = inner - j < step ? inner - j : step;
                const uint32_t at = (i * inner + j) * tiling_.stride;
                const uint32_t tableAt = (tile.heads == 1 ? j : i) * tiling_.stride;
                for (uint32_t column = 0; column < cols; column += FLOAT_LANES) {
                    OP::Repeat(dst[at + column], src[at + column], table[tableAt + column], LanesAt(column, cols), rows,
                               {1, 1, 1, row, row, tableRow});
                }
            }
        }
    }

    // y += rotated_ on what is rotated of every head.
    __aicore__ inline void AddRotated(const AscendC::LocalTensor<float>& y, uint32_t heads)
    {
        const uint32_t step = RowsAtOnce(tiling_.stride);
        const uint8_t row = static_cast<uint8_t>(tiling_.stride / FLOATS_PER_BLOCK);
        for (uint32_t head = 0; head < heads; head += step) {
            const uint32_t rows = heads - head < step ? heads - head : step;
            for (uint32_t column = 0; column < tiling_.rotated; column += FLOAT_LANES) {
                const uint32_t at = head * tiling_.stride + column;
                AddOf::Repeat(y[at], y[at], rotated_[at], LanesAt(column, tiling_.rotated), rows,
                              {1, 1, 1, row, row, row});
            }
        }
    }

    // Makes a block of bits that keeps even elements, and one that keeps odd ones.
    __aicore__ inline void FillMasks(AscendC::TPipe& pipe)
    {
        constexpr uint32_t WORDS = AscendC::ONE_BLK_SIZE / sizeof(uint16_t);
        constexpr uint32_t PER_ELEMENT = sizeof(T) / sizeof(uint16_t);
        const AscendC::LocalTensor<uint16_t> masks = maskBuf_.template Get<uint16_t>();
        for (uint32_t i = 0; i < WORDS; ++i) {
            const bool even = i / PER_ELEMENT % 2 == 0;
            masks.SetValue(i, static_cast<uint16_t>(even ? 0xffff : 0));
            masks.SetValue(WORDS + i, static_cast<uint16_t>(even ? 0 : 0xffff));
        }
        WaitForPipe<AscendC::HardEvent::S_V>(pipe);
    }

    RotaryTilingData tiling_;
    uint32_t tail_ = 0;    // elements of a head that are not rotated
    bool packed_ = false;  // heads lie in the Unified Buffer as in global memory
    RotaryTable<C> table_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueNext_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueBefore_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rotatedBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> partnerBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> maskBuf_;
    AscendC::LocalTensor<float> rotated_;  // partner(x) * sin
    AscendC::LocalTensor<float> float_;    // x in float, for 16-bit T
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROTARY_TILE_H
