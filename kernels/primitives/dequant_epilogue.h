/*!
 * Makes floats of tiles of integer products: it applies scales of columns and rows, and a bias.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_DEQUANT_EPILOGUE_H
#define MS_ASCEND_OPS_PRIMITIVES_DEQUANT_EPILOGUE_H

#include "kernel_operator.h"
#include "primitives/product_tiles.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// `scale`: of the columns, of each group of rows others; `rowScale`: null where tiling.hasRowScale is 0, as is `bias`.
template <typename T>
class DequantEpilogue {
public:
    __aicore__ inline void Init(GM_ADDR scale, GM_ADDR rowScale, GM_ADDR bias, const ProductTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        n_ = tiling.n;
        hasBias_ = tiling.hasBias != 0;
        hasRowScale_ = tiling.hasRowScale != 0;
        const uint32_t stride = ProductStride(tiling.tileCols);
        scaleGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(scale));
        pipe.InitBuffer(scaleQueue_, 1, stride * sizeof(T));
        pipe.InitBuffer(scaleBuf_, stride * sizeof(float));
        scale_ = scaleBuf_.template Get<float>();
        if (hasRowScale_) {
            const uint32_t rows8 = (tiling.tileRows + FLOATS_PER_BLOCK - 1) / FLOATS_PER_BLOCK * FLOATS_PER_BLOCK;
            rowScaleGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rowScale));
            pipe.InitBuffer(rowScaleQueue_, 1, rows8 * sizeof(float));
            pipe.InitBuffer(rowScaleBuf_, rows8 * sizeof(float));
            pipe.InitBuffer(blockBuf_, rows8 * AscendC::ONE_BLK_SIZE);
            rowScale_ = rowScaleBuf_.template Get<float>();
            blocks_ = blockBuf_.template Get<float>();
            AscendC::Duplicate(rowScale_, 0.0f, static_cast<int32_t>(rows8));  // BroadcastRows reads whole blocks
        }
        if (hasBias_) {
            biasGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(bias));
            pipe.InitBuffer(biasQueue_, 1, stride * sizeof(float));
            pipe.InitBuffer(biasBuf_, stride * sizeof(float));
            bias_ = biasBuf_.template Get<float>();
        }
    }

    __aicore__ inline void BeginTile(const ProductTile& tile)
    {
        Take(scaleQueue_, scaleGm_[tile.batch * n_ + tile.col], scale_, tile.cols);
        if (hasRowScale_) {
            Take(rowScaleQueue_, rowScaleGm_[tile.row], rowScale_, tile.rows);
            BroadcastRows(blocks_, rowScale_, tile.rows);
        }
        if (hasBias_) {
            Take(biasQueue_, biasGm_[tile.col], bias_, tile.cols);
        }
    }

    __aicore__ inline void Compute(const ProductChunk<1, int32_t>& chunk)
    {
        const AscendC::LocalTensor<float>& y = chunk.result;
        AscendC::Cast(y, chunk.products[0], AscendC::RoundMode::CAST_RINT, static_cast<uint32_t>(chunk.elements));
        MultiplyColumns(y, y, scale_, chunk.block);
        if (hasRowScale_) {
            MultiplyRows(y, y, blocks_[chunk.row * FLOATS_PER_BLOCK], chunk.block);
        }
        if (hasBias_) {
            AddColumns(y, y, bias_, chunk.block);
        }
    }

private:
    using Queue = AscendC::TQue<AscendC::TPosition::VECIN, 1>;

    // Reads a vector and converts it to float.
    template <typename V>
    __aicore__ inline void Take(Queue& queue, const AscendC::GlobalTensor<V>& from,
                                const AscendC::LocalTensor<float>& to, uint32_t count)
    {
        AscendC::LocalTensor<V> values = queue.template AllocTensor<V>();
        LoadRows(values, from, {1, count, count, count}, true);
        queue.EnQue(values);
        values = queue.template DeQue<V>();
        if constexpr (IS_FLOAT<V>) {
            AscendC::Muls(to, values, 1.0f, static_cast<int32_t>(count));  // a copy
        } else {
            AscendC::Cast(to, values, AscendC::RoundMode::CAST_NONE, count);
        }
        queue.FreeTensor(values);
    }

    uint64_t n_ = 0;  // columns, also of the scales of a group
    bool hasBias_ = false;
    bool hasRowScale_ = false;
    AscendC::GlobalTensor<T> scaleGm_;
    AscendC::GlobalTensor<float> rowScaleGm_;
    AscendC::GlobalTensor<float> biasGm_;
    Queue scaleQueue_;
    Queue rowScaleQueue_;
    Queue biasQueue_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> scaleBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> rowScaleBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> biasBuf_;
    AscendC::LocalTensor<float> scale_;     // of the tile's columns
    AscendC::LocalTensor<float> rowScale_;  // of its rows
    AscendC::LocalTensor<float> blocks_;    // each of them 8 times
    AscendC::LocalTensor<float> bias_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_DEQUANT_EPILOGUE_H
