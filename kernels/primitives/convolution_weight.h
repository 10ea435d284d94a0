/*!
 * Lays the weight of a convolution out as its products read it.
 *
 * There is a row for each output channel, with its K elements in the order of the columns (convolution_columns.h): this
 * is how a weight lies in memory. One whose channels of x come first, as the gradient of x takes it, is read transposed
 * where it lies if the K elements that are multiplied at once are the channels of x alone. Otherwise its kernel offsets
 * are moved into such rows in the workspace, before the products: runs of a few elements, which a copy takes many of at
 * a time.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_WEIGHT_H
#define MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_WEIGHT_H

#include "kernel_operator.h"
#include "primitives/convolution_columns.h"
#include "primitives/convolution_tiling.h"
#include "primitives/core_share.h"

namespace ms_ascend_ops {

template <typename T>
class ConvolutionWeight {
public:
    // `moved`: memory for the rows if the tiling wants them. All cores come here, as they meet.
    __aicore__ inline void Init(GM_ADDR weight, GM_ADDR moved, const ConvolutionTilingData& tiling, Columns<T>& copies)
    {
        tiling_ = tiling;
        gm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(weight));
        if (tiling.weightMoved == 0) {
            return;
        }
        AscendC::GlobalTensor<T> rows;
        rows.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(moved));
        const uint64_t core = AscendC::GetBlockIdx();
        for (uint64_t row = core; row < tiling.outChannels; row += VectorCores()) {
            MoveRow(rows, row, copies);
        }
        AscendC::SyncAll();
        gm_ = rows;
    }

    __aicore__ inline bool IsTransposed() const { return tiling_.weightTransposed != 0; }
    // Returns the elements from a row to the next, as it lies in memory.
    __aicore__ inline uint32_t Stride() const { return tiling_.weightStride; }

    // Returns the weight that the columns of a chunk are multiplied with.
    __aicore__ inline AscendC::GlobalTensor<T> At(const ConvolutionTile& tile, const ColumnChunk& chunk) const
    {
        if (IsTransposed()) {
            const uint64_t group = static_cast<uint64_t>(tile.group) * tiling_.k * tiling_.groupOut;
            return gm_[group + static_cast<uint64_t>(chunk.first) * tiling_.groupOut + tile.out];
        }
        const uint64_t channel = static_cast<uint64_t>(tile.group) * tiling_.groupOut + tile.out;
        return gm_[channel * Stride() + static_cast<uint64_t>(chunk.first) * (chunk.k / chunk.count)];
    }

private:
    // Copies the kernel offsets of all channels of x, for an output channel.
    __aicore__ inline void MoveRow(const AscendC::GlobalTensor<T>& rows, uint64_t row, Columns<T>& copies)
    {
        const uint32_t kernelSize = tiling_.kernelHeight * tiling_.kernelWidth;
        const uint64_t group = row / tiling_.groupOut;
        const uint64_t from = (group * tiling_.groupIn * tiling_.groupOut + row % tiling_.groupOut) * kernelSize;
        copies.Copy(rows, gm_,
                    {from, row * tiling_.weightStride, uint64_t{tiling_.groupOut} * kernelSize, kernelSize,
                     tiling_.groupIn, kernelSize});
    }

    ConvolutionTilingData tiling_;
    AscendC::GlobalTensor<T> gm_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_CONVOLUTION_WEIGHT_H
