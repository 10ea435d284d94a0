/*!
 * Does the second stage of a sum over rows: chunks of rows left their column sums in the workspace, and the cores add
 * them up in order, every core some of the columns. So the result is the same on any number of cores.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_SUM_CHUNKS_H
#define MS_ASCEND_OPS_PRIMITIVES_SUM_CHUNKS_H

#include "kernel_operator.h"
#include "primitives/core_share.h"
#include "primitives/rows.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// TILING has chunks, chunkStride, cols, reduceCols and reduceRows.
template <typename G, class TILING>
class SumChunks {
public:
    __aicore__ inline void Init(const TILING& tiling, AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        pipe.InitBuffer(inQueueChunks_, 2, tiling.reduceRows * tiling.reduceCols * sizeof(float));
        pipe.InitBuffer(outQueueTotal_, 2, tiling.reduceCols * sizeof(G));
        pipe.InitBuffer(totalBuf_, tiling.reduceCols * sizeof(float));
    }

    // Sets total[column] to the sum of the chunks' values.
    __aicore__ inline void Process(GM_ADDR total, GM_ADDR chunks)
    {
        totalGm_.SetGlobalBuffer(reinterpret_cast<__gm__ G*>(total), tiling_.cols);
        chunkGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(chunks),
                                 static_cast<uint64_t>(tiling_.chunks) * tiling_.chunkStride);
        const uint32_t step = tiling_.reduceCols;
        const uint32_t stride = static_cast<uint32_t>(VectorCores()) * step;
        for (uint32_t column = static_cast<uint32_t>(AscendC::GetBlockIdx()) * step; column < tiling_.cols;
             column += stride) {
            const uint32_t left = tiling_.cols - column;
            SumOf(column, left < step ? left : step);
        }
    }

private:
    __aicore__ inline void SumOf(uint32_t column, uint32_t count)
    {
        AscendC::LocalTensor<G> result = outQueueTotal_.template AllocTensor<G>();
        AscendC::LocalTensor<float> total = totalBuf_.template Get<float>();
        if constexpr (IS_FLOAT<G>) {
            total = result;
        }
        AscendC::Duplicate(total, 0.0f, static_cast<int32_t>(count));
        for (uint32_t chunk = 0; chunk < tiling_.chunks; chunk += tiling_.reduceRows) {
            const uint32_t left = tiling_.chunks - chunk;
            const uint32_t rows = left < tiling_.reduceRows ? left : tiling_.reduceRows;
            AscendC::LocalTensor<float> chunks = inQueueChunks_.template AllocTensor<float>();
            LoadRows(chunks, chunkGm_[static_cast<uint64_t>(chunk) * tiling_.chunkStride + column],
                     {rows, count, tiling_.reduceCols, tiling_.chunkStride});
            inQueueChunks_.EnQue(chunks);
            chunks = inQueueChunks_.template DeQue<float>();
            SumColumns(total, chunks, {rows, count, tiling_.reduceCols});
            inQueueChunks_.FreeTensor(chunks);
        }
        FromFloat(result, total, count);
        StoreQueued(outQueueTotal_, totalGm_[column], result, {1, count, tiling_.reduceCols, count});
    }

    TILING tiling_;
    AscendC::GlobalTensor<G> totalGm_;
    AscendC::GlobalTensor<float> chunkGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueChunks_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueTotal_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> totalBuf_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_SUM_CHUNKS_H
