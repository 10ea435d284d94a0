/*!
 * Rotary position embedding: y = x * cos + partner(x) * sin, where a pair's first element has -sin; the gradient turns
 * dy back. All in float.
 *
 * Plan: a tile is some positions with all their heads, x and y double-buffered; its part of cos and sin is prepared
 * once and used for every sequence. half: the partner is the other half of the head, read in place. interleave: it is
 * the neighbour, taken from two copies of x loaded one element further and one element back, by masks on the bits (And,
 * Or): no element is gathered. Instructions go over the whole tile, or over all heads of a position where cos differs.
 * Bound: memory (x once, y once; the shifted copies of interleave come out of L2).
 */
#ifndef MS_ASCEND_OPS_ROTARY_EMBEDDING_KERNEL_H
#define MS_ASCEND_OPS_ROTARY_EMBEDDING_KERNEL_H

#include "kernel_operator.h"
#include "rotary_embedding_tiling.h"
#include "rotary_table.h"

namespace ms_ascend_ops {

template <typename T, typename C>
class RotaryEmbedding {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR cos, GM_ADDR sin, GM_ADDR y, const RotaryEmbeddingTilingData& tiling,
                                float direction, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        rest_ = tiling.dim - 2 * tiling.half;
        packed_ = tiling.stride == tiling.dim && (tiling.interleave != 0 || tiling.halfStride == tiling.half);
        elements_ = tiling.positions * tiling.heads * tiling.dim;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x), elements_);
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y), elements_);
        const uint32_t room = tiling.tilePositions * tiling.tileHeads * tiling.stride;
        pipe.InitBuffer(inQueueX_, 2, room * sizeof(T));
        pipe.InitBuffer(outQueueY_, 2, room * sizeof(T));
        pipe.InitBuffer(turnedBuf_, room * sizeof(float));
        turned_ = turnedBuf_.template Get<float>();
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

    __aicore__ inline void Process()
    {
        const uint64_t first = tiling_.unitsPerCore * AscendC::GetBlockIdx();
        const uint64_t last =
            first + tiling_.unitsPerCore < tiling_.units ? first + tiling_.unitsPerCore : tiling_.units;
        for (uint64_t unit = first; unit < last; ++unit) {
            const Tile tile = TileAt(unit);
            table_.Prepare(tile.table, tile.positions);
            CopyIn(tile);
            AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
            Compute(yLocal, tile);
            outQueueY_.EnQue(yLocal);
            yLocal = outQueueY_.template DeQue<T>();
            Store(yLocal, tile);
            outQueueY_.FreeTensor(yLocal);
        }
    }

private:
    struct Tile {
        uint64_t offset;  // of its first element
        uint64_t table;   // first row of the tables
        uint32_t positions;
        uint32_t heads;

        __aicore__ inline uint32_t Heads() const { return positions * heads; }
    };

    __aicore__ inline Tile TileAt(uint64_t unit) const
    {
        const uint64_t headTile = unit % tiling_.headTiles;
        const uint64_t rest = unit / tiling_.headTiles;
        const uint64_t sequence = rest % tiling_.sequences;
        const uint64_t start = rest / tiling_.sequences * tiling_.tilePositions;
        const uint64_t position = sequence * tiling_.seqLength + start;
        const uint64_t head = headTile * tiling_.tileHeads;
        const uint64_t headsLeft = tiling_.heads - head;
        uint64_t left = tiling_.seqLength - start;
        left = tiling_.positions - position < left ? tiling_.positions - position : left;
        return {(position * tiling_.heads + head) * tiling_.dim,
                sequence / tiling_.tableInner % tiling_.tables * tiling_.seqLength + start,
                left < tiling_.tilePositions ? static_cast<uint32_t>(left) : tiling_.tilePositions,
                headsLeft < tiling_.tileHeads ? static_cast<uint32_t>(headsLeft) : tiling_.tileHeads};
    }

    __aicore__ inline void CopyIn(const Tile& tile)
    {
        AscendC::LocalTensor<T> xLocal = inQueueX_.template AllocTensor<T>();
        Load(xLocal, tile);
        inQueueX_.EnQue(xLocal);
        if (tiling_.interleave != 0) {
            AscendC::LocalTensor<T> next = inQueueNext_.template AllocTensor<T>();
            LoadNext(next, tile);
            inQueueNext_.EnQue(next);
            AscendC::LocalTensor<T> before = inQueueBefore_.template AllocTensor<T>();
            LoadBefore(before, tile);
            inQueueBefore_.EnQue(before);
        }
    }

    // Heads as they lie in the Unified Buffer: the halves (or the pairs) and the rest, each from a block on.
    __aicore__ inline void Load(const AscendC::LocalTensor<T>& xLocal, const Tile& tile)
    {
        if (packed_) {
            LoadRows(xLocal, xGm_[tile.offset], Packed(tile));
            return;
        }
        const uint32_t pieces = tiling_.interleave != 0 ? 1 : 2;
        const uint32_t cols = 2 * tiling_.half / pieces;
        for (uint32_t i = 0; i < pieces && cols > 0; ++i) {
            LoadRows(xLocal[i * tiling_.halfStride], xGm_[tile.offset + i * tiling_.half], Piece(tile, cols), true);
        }
        if (rest_ > 0) {
            LoadRows(xLocal[tiling_.turned], xGm_[tile.offset + 2 * tiling_.half], Piece(tile, rest_), true);
        }
    }

    __aicore__ inline void Store(const AscendC::LocalTensor<T>& yLocal, const Tile& tile)
    {
        if (packed_) {
            StoreRows(yGm_[tile.offset], yLocal, Packed(tile));
            return;
        }
        const uint32_t pieces = tiling_.interleave != 0 ? 1 : 2;
        const uint32_t cols = 2 * tiling_.half / pieces;
        for (uint32_t i = 0; i < pieces && cols > 0; ++i) {
            StoreRows(yGm_[tile.offset + i * tiling_.half], yLocal[i * tiling_.halfStride], Piece(tile, cols));
        }
        if (rest_ > 0) {
            StoreRows(yGm_[tile.offset + 2 * tiling_.half], yLocal[tiling_.turned], Piece(tile, rest_));
        }
    }

    // x one element further on. At the end of x there is none: the last one is left out and its place filled.
    __aicore__ inline void LoadNext(const AscendC::LocalTensor<T>& next, const Tile& tile)
    {
        if (packed_) {
            Rows shape = Packed(tile);
            const bool atEnd = tile.offset + shape.cols == elements_;
            shape.cols -= atEnd ? 1 : 0;
            LoadRows(next, xGm_[tile.offset + 1], shape, atEnd);
            return;
        }
        LoadRows(next, xGm_[tile.offset + 1], Piece(tile, 2 * tiling_.half - 1), true);
    }

    // x one element back; before the first one a place is filled.
    __aicore__ inline void LoadBefore(const AscendC::LocalTensor<T>& before, const Tile& tile)
    {
        if (packed_ && tile.offset > 0) {
            LoadRows(before, xGm_[tile.offset - 1], Packed(tile));
            return;
        }
        constexpr uint32_t PER_BLOCK = AscendC::ONE_BLK_SIZE / sizeof(T);
        const Rows shape = packed_ ? Packed(tile) : Piece(tile, 2 * tiling_.half);
        const uint32_t ragged = shape.cols % PER_BLOCK;
        AscendC::DataCopyPad(
            before, xGm_[tile.offset],
            {static_cast<uint16_t>(shape.rows), static_cast<uint32_t>((shape.cols - 1) * sizeof(T)),
             static_cast<uint32_t>((shape.gmStride - shape.cols + 1) * sizeof(T)), GapBlocks<T>(shape), 0},
            AscendC::DataCopyPadExtParams<T>{true, 1, static_cast<uint8_t>(ragged == 0 ? 0 : PER_BLOCK - ragged), T{}});
    }

    __aicore__ inline Rows Packed(const Tile& tile) const
    {
        const uint32_t cols = tile.Heads() * tiling_.dim;
        return {1, cols, cols, cols};
    }

    __aicore__ inline Rows Piece(const Tile& tile, uint32_t cols) const
    {
        return {tile.Heads(), cols, tiling_.stride, tiling_.dim};
    }

    __aicore__ inline void Compute(const AscendC::LocalTensor<T>& yLocal, const Tile& tile)
    {
        const uint32_t count = tile.Heads() * tiling_.stride;
        const uint32_t turned = rest_ == 0 ? tiling_.stride : tiling_.turned;
        AscendC::LocalTensor<T> xLocal = inQueueX_.template DeQue<T>();
        const AscendC::LocalTensor<float> x = ToFloat(xLocal, float_, count);
        if (tiling_.interleave != 0) {
            const AscendC::LocalTensor<float> partner = Partners(yLocal, count);
            WithTable<MulOf>(turned_, partner, table_.Sin(), tile, tiling_.turned);
        } else {
            const uint32_t h = tiling_.halfStride;
            WithTable<MulOf>(turned_, x[h], table_.Sin(), tile, h);
            WithTable<MulOf>(turned_[h], x, table_.Sin()[h], tile, h);
        }
        const AscendC::LocalTensor<float> y = Target(yLocal);
        WithTable<MulOf>(y, x, table_.Cos(), tile, tiling_.stride);
        if (turned == tiling_.stride) {
            AscendC::Add(y, y, turned_, static_cast<int32_t>(count));
        } else {
            AddTurned(y, tile.Heads());
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

    // The neighbour of every element: the next one at even places, the one before at odd places. y is scratch.
    __aicore__ inline AscendC::LocalTensor<float> Partners(const AscendC::LocalTensor<T>& yLocal, uint32_t count)
    {
        AscendC::LocalTensor<T> next = inQueueNext_.template DeQue<T>();
        AscendC::LocalTensor<T> before = inQueueBefore_.template DeQue<T>();
        const uint32_t bits = count * static_cast<uint32_t>(sizeof(T) / sizeof(uint16_t));
        const AscendC::LocalTensor<uint16_t> masks = maskBuf_.template Get<uint16_t>();
        const AscendC::LocalTensor<T> partner = Partner();
        const AscendC::LocalTensor<uint16_t> even = partner.template ReinterpretCast<uint16_t>();
        const AscendC::LocalTensor<uint16_t> odd = yLocal.template ReinterpretCast<uint16_t>();
        const AscendC::BinaryRepeatParams block(1, 1, 0, 8, 8, 0);
        AscendC::SetMaskCount();
        AscendC::SetVectorMask<uint16_t, AscendC::MaskMode::COUNTER>(0, bits);
        AscendC::And<uint16_t, false>(even, next.template ReinterpretCast<uint16_t>(), masks, AscendC::MASK_PLACEHOLDER,
                                      1, block);
        AscendC::And<uint16_t, false>(odd, before.template ReinterpretCast<uint16_t>(),
                                      masks[AscendC::ONE_BLK_SIZE / sizeof(uint16_t)], AscendC::MASK_PLACEHOLDER, 1,
                                      block);
        EndCounterMode();
        AscendC::Or(even, even, odd, static_cast<int32_t>(bits));
        inQueueNext_.FreeTensor(next);
        inQueueBefore_.FreeTensor(before);
        return ToFloat(partner, turned_, count);
    }

    __aicore__ inline AscendC::LocalTensor<T> Partner()
    {
        if constexpr (IS_FLOAT<T>) {
            return turned_;
        } else {
            return partnerBuf_.template Get<T>();
        }
    }

    // dst = src OP table on the first `cols` elements of every head of a tile.
    template <class OP>
    __aicore__ inline void WithTable(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                     const AscendC::LocalTensor<float>& table, const Tile& tile, uint32_t cols)
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

    // y += turned_ on what is turned of every head.
    __aicore__ inline void AddTurned(const AscendC::LocalTensor<float>& y, uint32_t heads)
    {
        const uint32_t step = RowsAtOnce(tiling_.stride);
        const uint8_t row = static_cast<uint8_t>(tiling_.stride / FLOATS_PER_BLOCK);
        for (uint32_t head = 0; head < heads; head += step) {
            const uint32_t rows = heads - head < step ? heads - head : step;
            for (uint32_t column = 0; column < tiling_.turned; column += FLOAT_LANES) {
                const uint32_t at = head * tiling_.stride + column;
                AddOf::Repeat(y[at], y[at], turned_[at], LanesAt(column, tiling_.turned), rows,
                              {1, 1, 1, row, row, row});
            }
        }
    }

    // A block of bits that keeps even elements, and one that keeps odd ones.
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
        const int32_t event = static_cast<int32_t>(pipe.FetchEventID(AscendC::HardEvent::S_V));
        AscendC::SetFlag<AscendC::HardEvent::S_V>(event);
        AscendC::WaitFlag<AscendC::HardEvent::S_V>(event);
    }

    RotaryEmbeddingTilingData tiling_;
    uint32_t rest_ = 0;    // elements of a head that are not turned
    bool packed_ = false;  // heads lie in the Unified Buffer as in global memory
    uint64_t elements_ = 0;
    RotaryTable<C> table_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueNext_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueBefore_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> turnedBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> floatBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> partnerBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> maskBuf_;
    AscendC::LocalTensor<float> turned_;  // partner(x) * sin
    AscendC::LocalTensor<float> float_;   // x in float, for 16-bit T
};

template <typename T, typename C>
__aicore__ inline void RotaryEmbeddingKernel(GM_ADDR x, GM_ADDR cos, GM_ADDR sin, GM_ADDR y,
                                             [[maybe_unused]] GM_ADDR workspace,
                                             const RotaryEmbeddingTilingData& tiling)
{
    AscendC::TPipe pipe;
    RotaryEmbedding<T, C> kernel;
    kernel.Init(x, cos, sin, y, tiling, 1.0f, pipe);
    kernel.Process();
}

template <typename T, typename C>
__aicore__ inline void RotaryEmbeddingGradKernel(GM_ADDR dy, GM_ADDR cos, GM_ADDR sin, GM_ADDR dx,
                                                 [[maybe_unused]] GM_ADDR workspace,
                                                 const RotaryEmbeddingGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    RotaryEmbedding<T, C> kernel;
    kernel.Init(dy, cos, sin, dx, tiling, -1.0f, pipe);
    kernel.Process();
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ROTARY_EMBEDDING_KERNEL_H
