/*!
 * Serves the stages of group_norm that combine the values of channels to values of groups and hand those out to the
 * channels. A tile is some groups of one sample, or all groups of some samples, with D values each; a group of many
 * channels is walked through in tiles of channels.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_GROUPS_H
#define MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_GROUPS_H

#include "kernel_operator.h"
#include "primitives/group_norm_tiling.h"
#include "primitives/row_norm.h"

namespace ms_ascend_ops {

// Both directions share this: where a tile lies, loads, stores, gamma and beta.
template <typename G>
class GroupTiles {
public:
    __aicore__ inline void InitTiles(GM_ADDR gamma, GM_ADDR beta, GM_ADDR workspace, const NormGroupsTilingData& tiling,
                                     AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        gammaGm_.SetGlobalBuffer(reinterpret_cast<__gm__ G*>(gamma), tiling.channels);
        betaGm_.SetGlobalBuffer(reinterpret_cast<__gm__ G*>(beta), tiling.channels);
        workspaceGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(workspace));
        elements_ = tiling.tileGroups * tiling.groupStride;
        groups8_ = RoundUpToBlock(tiling.tileGroups);
        pipe.InitBuffer(inQueue_, 2, elements_ * sizeof(float));
        pipe.InitBuffer(outQueue_, 2, elements_ * sizeof(float));
        pipe.InitBuffer(gammaBuf_, 2 * elements_ * sizeof(float));
        pipe.InitBuffer(laneBuf_, tiling.tileGroups * FLOAT_LANES * sizeof(float));
        gamma_ = gammaBuf_.template Get<float>();
        beta_ = gamma_[elements_];
        lanes_ = laneBuf_.template Get<float>();
    }

protected:
    // Goes to the tile that begins with group `group`; false after `end`.
    __aicore__ inline bool SetTile(uint64_t group, uint64_t end)
    {
        if (group >= end) {
            return false;
        }
        group_ = group;
        sample_ = group / tiling_.numGroups;
        firstOfSample_ = static_cast<uint32_t>(group - sample_ * tiling_.numGroups);
        const uint64_t left = end - group;
        const uint32_t leftOfSample = tiling_.numGroups - firstOfSample_;
        groups_ = left < tiling_.tileGroups ? static_cast<uint32_t>(left) : tiling_.tileGroups;
        if (groups_ > leftOfSample) {
            groups_ = firstOfSample_ > 0 ? leftOfSample : groups_ / tiling_.numGroups * tiling_.numGroups;
        }
        samples_ = groups_ > tiling_.numGroups ? groups_ / tiling_.numGroups : 1;
        return true;
    }

    __aicore__ inline RowBlock BlockOf(uint32_t column) const
    {
        const uint32_t left = tiling_.groupChannels - column;
        return {groups_, left < tiling_.tileChannels ? left : tiling_.tileChannels, tiling_.groupStride};
    }

    // Returns the tile with a row for each sample: gamma and beta act on those.
    __aicore__ inline RowBlock SamplesOf(const RowBlock& block) const
    {
        const uint32_t groups = groups_ / samples_;
        return {samples_, (groups - 1) * block.stride + block.cols, groups * block.stride};
    }

    __aicore__ inline uint64_t StateOf(uint32_t column) const
    {
        return sample_ * tiling_.channelStride + static_cast<uint64_t>(firstOfSample_) * tiling_.groupChannels + column;
    }

    // Loads a tile of an array of the workspace, to be freed with inQueue_.FreeTensor.
    __aicore__ inline AscendC::LocalTensor<float> LoadArray(uint64_t array, uint32_t column)
    {
        return LoadTile(workspaceGm_[array * tiling_.arrayStride + StateOf(column)], BlockOf(column));
    }

    // Loads any values of the workspace: a block of array `array`, from element `at` on, with rows `stride` elements
    // apart.
    __aicore__ inline AscendC::LocalTensor<float> LoadValues(uint64_t array, uint64_t at, const RowBlock& block,
                                                             uint64_t stride)
    {
        return LoadTile(workspaceGm_[array * tiling_.arrayStride + at], block, stride);
    }

    template <typename X>
    __aicore__ inline AscendC::LocalTensor<X> LoadTile(const AscendC::GlobalTensor<X>& gm, const RowBlock& block)
    {
        return LoadTile(gm, block, tiling_.groupChannels);
    }

    template <typename X>
    __aicore__ inline AscendC::LocalTensor<X> LoadTile(const AscendC::GlobalTensor<X>& gm, const RowBlock& block,
                                                       uint64_t stride)
    {
        AscendC::LocalTensor<X> local = inQueue_.template AllocTensor<X>();
        LoadRows(local, gm, {block.rows, block.cols, block.stride, stride}, true);
        inQueue_.EnQue(local);
        return inQueue_.template DeQue<X>();
    }

    // Sets dst to the sum of an array's pieces, which are `step` arrays apart.
    __aicore__ inline void SumPieces(const AscendC::LocalTensor<float>& dst, uint64_t array, uint32_t step,
                                     uint32_t column)
    {
        const int32_t count = static_cast<int32_t>(BlockOf(column).Elements());
        AscendC::Duplicate(dst, 0.0f, count);
        for (uint32_t piece = 0; piece < tiling_.pieces; ++piece) {
            AscendC::LocalTensor<float> local = LoadArray(array + static_cast<uint64_t>(piece) * step, column);
            AscendC::Add(dst, dst, local, count);
            inQueue_.FreeTensor(local);
        }
    }

    template <typename X>
    __aicore__ inline void StoreTile(const AscendC::GlobalTensor<X>& gm, AscendC::LocalTensor<X>& local,
                                     const RowBlock& block)
    {
        StoreQueued(outQueue_, gm, local, {block.rows, block.cols, block.stride, tiling_.groupChannels});
    }

    __aicore__ inline void StoreArray(uint64_t array, uint32_t column, AscendC::LocalTensor<float>& local)
    {
        StoreTile(workspaceGm_[array * tiling_.arrayStride + StateOf(column)], local, BlockOf(column));
    }

    // Loads gamma_ and beta_ of the tile's channels, for one sample.
    __aicore__ inline void LoadFactors(uint32_t column, bool withBeta)
    {
        const uint64_t channel = static_cast<uint64_t>(firstOfSample_) * tiling_.groupChannels + column;
        RowBlock block = BlockOf(column);
        block.rows = groups_ / samples_;
        const uint64_t key = channel * (tiling_.numGroups + 1) + block.rows;
        if (key == loaded_) {
            return;
        }
        loaded_ = key;
        CopyFactor(gamma_, gammaGm_[channel], block);
        if (withBeta) {
            CopyFactor(beta_, betaGm_[channel], block);
        }
    }

    // Sets dst to the sums over src's rows, times `factor`: a value a row, and zeros after them, so that whole blocks
    // can be read.
    __aicore__ inline void SumGroups(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& src,
                                     const RowBlock& block, float factor)
    {
        AscendC::Duplicate(dst, 0.0f, static_cast<int32_t>(groups8_));
        StartRows<AddOf>(lanes_, block.rows, block.cols);
        FoldRows<AddOf>(dst, lanes_, src, 0, block, block.cols);
        FinishRows<AddOf>(dst, lanes_, block.rows, block.cols);
        AscendC::Muls(dst, dst, factor, static_cast<int32_t>(groups8_));
    }

    // Copies a vector to dst[sample], for each sample of the tile.
    __aicore__ inline void RepeatFactor(const AscendC::LocalTensor<float>& dst,
                                        const AscendC::LocalTensor<float>& vector, const RowBlock& block)
    {
        AscendC::Duplicate(dst, 0.0f, static_cast<int32_t>(block.Elements()));
        AddColumns(dst, dst, vector, SamplesOf(block));
    }

    // dst[group] = value[group] on all its channels; `blocks` holds the values 8 times.
    __aicore__ inline void SpreadGroups(const AscendC::LocalTensor<float>& dst,
                                        const AscendC::LocalTensor<float>& blocks, const RowBlock& block)
    {
        AscendC::Duplicate(dst, 0.0f, static_cast<int32_t>(block.Elements()));
        AddRows(dst, dst, blocks, block);
    }

    NormGroupsTilingData tiling_;
    uint64_t group_ = 0;
    uint64_t sample_ = 0;
    uint32_t firstOfSample_ = 0;
    uint32_t groups_ = 0;
    uint32_t samples_ = 1;
    uint32_t elements_ = 0;
    uint32_t groups8_ = 0;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueue_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueue_;
    AscendC::LocalTensor<float> gamma_;
    AscendC::LocalTensor<float> beta_;

private:
    __aicore__ inline void CopyFactor(const AscendC::LocalTensor<float>& dst, const AscendC::GlobalTensor<G>& gm,
                                      const RowBlock& block)
    {
        AscendC::LocalTensor<G> local = LoadTile(gm, block);
        if constexpr (IS_FLOAT<G>) {
            AscendC::Muls(dst, local, 1.0f, static_cast<int32_t>(block.Elements()));
        } else {
            AscendC::Cast(dst, local, AscendC::RoundMode::CAST_NONE, block.Elements());
        }
        inQueue_.FreeTensor(local);
    }

    uint64_t loaded_ = ~0ull;
    AscendC::GlobalTensor<G> gammaGm_;
    AscendC::GlobalTensor<G> betaGm_;
    AscendC::GlobalTensor<float> workspaceGm_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> gammaBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> laneBuf_;
    AscendC::LocalTensor<float> lanes_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_GROUPS_H
