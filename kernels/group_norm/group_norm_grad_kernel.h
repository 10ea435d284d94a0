/*!
 * Gradient of GroupNorm. With dz = dy, or dy * act'(z), z = (x - mean) * rstd * gamma + beta, and n = D * S values in
 * a group:
 *   inner  = (rstd * sum(dz * gamma * (x - mean)) + drstd * rstd) / n
 *   outer  = (rstd * sum(dz * gamma) - dmean) / n
 *   dx     = dz * (rstd * gamma) - (x - mean) * rstd^2 * inner - outer
 *   dgamma = sum over samples and positions of dz * (x - mean) * rstd,  dbeta = sum of dz
 *
 * Plan: the stages of group_norm_kernel.h, after one (0) that hands mean, rstd * gamma and beta to the channels.
 * (1) Sum: dz and dz * (x - mean) over every channel. (2) Combine: to inner and outer of the groups; the channels' sums
 * stay in the workspace. (3) Apply: dx. (4) The sums of the samples are added in order: dgamma and dbeta are the same
 * on any number of cores. Bound: memory (dy and x twice, the second time from the L2 cache where they fit; dx once).
 */
#ifndef MS_ASCEND_OPS_GROUP_NORM_GRAD_KERNEL_H
#define MS_ASCEND_OPS_GROUP_NORM_GRAD_KERNEL_H

#include "group_norm_stages.h"
#include "group_norm_tiling.h"
#include "kernel_operator.h"
#include "primitives/group_norm_activation.h"
#include "primitives/group_norm_groups.h"
#include "primitives/group_norm_tiles.h"
#include "primitives/sum_chunks.h"

namespace ms_ascend_ops {

// Numbers the arrays of channel values in the workspace. The two sums of piece p are PIECES + 2 p and the next.
struct GroupNormGradArrays {
    static constexpr uint32_t MEAN = 0;
    static constexpr uint32_t SCALE = 1;  // rstd * gamma
    static constexpr uint32_t BETA = 2;
    static constexpr uint32_t SLOPE = 3;   // -rstd^2 * inner
    static constexpr uint32_t OFFSET = 4;  // -outer
    static constexpr uint32_t DBETA = 5;   // of the sample
    static constexpr uint32_t DGAMMA = 6;
    static constexpr uint32_t PIECES = 7;
    static constexpr uint32_t SUMS = 2;
};

// Runs stages 1 and 3.
template <typename T, bool LAST>
class GroupNormGradData {
public:
    __aicore__ inline void Init(GM_ADDR dy, GM_ADDR x, GM_ADDR dx, GM_ADDR workspace, const GroupNormTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        dyGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dy));
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        dxGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(dx));
        const DataRows rows = ChannelRows(tiling);
        walk_.Init(tiling, rows);
        values_.Init(workspace, tiling.arrayStride, rows, 5, pipe);
        sums_.Init(workspace, tiling.arrayStride, rows, GroupNormGradArrays::SUMS, pipe);
        const uint32_t tileElements = tiling.tileRows * tiling.stride;
        const uint32_t stepElements = tiling.stepRows * tiling.stride;
        const uint32_t works = tiling.activation != 0 ? 6 : 3;
        pipe.InitBuffer(inQueueDy_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(inQueueX_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(outQueueDx_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(workBuf_, works * stepElements * sizeof(float));
        pipe.InitBuffer(onesBuf_, AscendC::ONE_BLK_SIZE);
        centered_ = workBuf_.template Get<float>();
        dz_ = centered_[stepElements];
        product_ = centered_[2 * stepElements];
        if (tiling.activation != 0) {
            z_ = centered_[3 * stepElements];
            slope_ = centered_[4 * stepElements];
            sigmoid_ = centered_[5 * stepElements];
        }
        ones_ = onesBuf_.template Get<float>();
        AscendC::Duplicate(ones_, 1.0f, static_cast<int32_t>(FLOATS_PER_BLOCK));
        // The gaps between rows are read.
        AscendC::Duplicate(centered_, 0.0f, static_cast<int32_t>(works * stepElements));
    }

    // Stage 1 on items [begin, end).
    __aicore__ inline void Sum(uint64_t begin, uint64_t end)
    {
        walk_.Begin(begin, end);
        while (walk_.NextTask()) {
            sums_.Begin();
            values_.Load(GroupNormGradArrays::MEAN, tiling_.activation != 0 ? 3 : 1, walk_.state, walk_.channels);
            while (walk_.NextTile()) {
                CopyIn();
                for (uint32_t r = 0; r < walk_.shape.rows; r += tiling_.stepRows) {
                    const RowBlock block = walk_.BlockOf(r);
                    const AscendC::LocalTensor<float> dz = ComputeDz(r, block);
                    AscendC::Mul(product_, dz, centered_, static_cast<int32_t>(block.Elements()));
                    sums_.Add(0, dz, r, block);
                    sums_.Add(1, product_, r, block);
                }
                inQueueDy_.FreeTensor(dyLocal_);
                inQueueX_.FreeTensor(xLocal_);
            }
            values_.Free();
            const uint32_t array = GroupNormGradArrays::PIECES + walk_.piece * GroupNormGradArrays::SUMS;
            sums_.End(0, array, walk_.state, walk_.channels);
        }
    }

    // Stage 3 on items [begin, end).
    __aicore__ inline void Apply(uint64_t begin, uint64_t end)
    {
        walk_.Begin(begin, end);
        while (walk_.NextTask()) {
            values_.Load(GroupNormGradArrays::MEAN, 5, walk_.state, walk_.channels);
            while (walk_.NextTile()) {
                CopyIn();
                AscendC::LocalTensor<T> dxLocal = outQueueDx_.template AllocTensor<T>();
                for (uint32_t r = 0; r < walk_.shape.rows; r += tiling_.stepRows) {
                    ApplyBlock(dxLocal[r * tiling_.stride], r, walk_.BlockOf(r));
                }
                inQueueDy_.FreeTensor(dyLocal_);
                inQueueX_.FreeTensor(xLocal_);
                StoreQueued(outQueueDx_, dxGm_[walk_.offset], dxLocal, walk_.shape);
            }
            values_.Free();
        }
    }

private:
    __aicore__ inline void CopyIn()
    {
        const bool fill = walk_.shape.rows > 1;
        dyLocal_ = inQueueDy_.template AllocTensor<T>();
        LoadRows(dyLocal_, dyGm_[walk_.offset], walk_.shape, fill);
        inQueueDy_.EnQue(dyLocal_);
        xLocal_ = inQueueX_.template AllocTensor<T>();
        LoadRows(xLocal_, xGm_[walk_.offset], walk_.shape, fill);
        inQueueX_.EnQue(xLocal_);
        dyLocal_ = inQueueDy_.template DeQue<T>();
        xLocal_ = inQueueX_.template DeQue<T>();
    }

    // Returns dz of the block that begins with row r of the tile, and sets centered_ to x - mean.
    __aicore__ inline AscendC::LocalTensor<float> ComputeDz(uint32_t r, const RowBlock& block)
    {
        const uint32_t at = r * tiling_.stride;
        const uint32_t count = block.Elements();
        values_.template Apply<SubOf>(centered_, ToFloat(xLocal_[at], centered_, count), GroupNormGradArrays::MEAN, r,
                                      block);
        const AscendC::LocalTensor<float> dy = ToFloat(dyLocal_[at], dz_, count);
        if (tiling_.activation == 0) {
            return dy;
        }
        values_.template Apply<MulOf>(z_, centered_, GroupNormGradArrays::SCALE, r, block);
        values_.template Apply<AddOf>(z_, z_, GroupNormGradArrays::BETA, r, block);
        SlopeOfNorm(tiling_.activation, slope_, z_, product_, sigmoid_, ones_, count);
        AscendC::Mul(dz_, dy, slope_, static_cast<int32_t>(count));
        return dz_;
    }

    // Computes dx = dz * scale + (x - mean) * slope + offset.
    __aicore__ inline void ApplyBlock(const AscendC::LocalTensor<T>& dx, uint32_t r, const RowBlock& block)
    {
        const AscendC::LocalTensor<float> dz = ComputeDz(r, block);
        AscendC::LocalTensor<float> result = product_;
        if constexpr (IS_FLOAT<T>) {
            result = dx;
        }
        values_.template Apply<MulOf>(product_, dz, GroupNormGradArrays::SCALE, r, block);
        values_.template Apply<MulOf>(centered_, centered_, GroupNormGradArrays::SLOPE, r, block);
        AscendC::Add(product_, product_, centered_, static_cast<int32_t>(block.Elements()));
        values_.template Apply<AddOf>(result, product_, GroupNormGradArrays::OFFSET, r, block);
        FromFloat(dx, result, block.Elements());
    }

    GroupNormTilingData tiling_;
    ChannelWalk<LAST> walk_;
    ChannelValues<LAST> values_;
    ChannelSums<LAST> sums_;
    AscendC::GlobalTensor<T> dyGm_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> dxGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueDy_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueDx_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> onesBuf_;
    AscendC::LocalTensor<T> dyLocal_;
    AscendC::LocalTensor<T> xLocal_;
    AscendC::LocalTensor<float> centered_;  // these are of one block
    AscendC::LocalTensor<float> dz_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> z_;
    AscendC::LocalTensor<float> slope_;
    AscendC::LocalTensor<float> sigmoid_;
    AscendC::LocalTensor<float> ones_;
};

// Runs stages 0 and 2.
template <typename G>
class GroupNormGradCombine : public GroupTiles<G> {
public:
    __aicore__ inline void Init(GM_ADDR dmean, GM_ADDR drstd, GM_ADDR mean, GM_ADDR rstd, GM_ADDR gamma, GM_ADDR beta,
                                GM_ADDR workspace, const GroupNormTilingData& tiling, AscendC::TPipe& pipe)
    {
        this->InitTiles(gamma, beta, workspace, tiling, pipe);
        const uint32_t groups8 = this->groups8_;
        states_.Init(4, groups8, 1, pipe);
        states_.SetSource(MEAN, mean, tiling.groups);
        states_.SetSource(RSTD, rstd, tiling.groups);
        states_.SetSource(DMEAN, dmean, tiling.groups);
        states_.SetSource(DRSTD, drstd, tiling.groups);
        pipe.InitBuffer(workBuf_, 3 * this->elements_ * sizeof(float));
        pipe.InitBuffer(stateBuf_, 3 * groups8 * sizeof(float));
        pipe.InitBuffer(blockBuf_, 3 * groups8 * AscendC::ONE_BLK_SIZE);
        sum_ = workBuf_.template Get<float>();
        product_ = sum_[this->elements_];
        work_ = sum_[2 * this->elements_];
        outer_ = stateBuf_.template Get<float>();
        inner_ = outer_[groups8];
        part_ = outer_[2 * groups8];
        blocks_ = blockBuf_.template Get<float>();
        rstdBlocks_ = blocks_[groups8 * FLOATS_PER_BLOCK];
        offsetBlocks_ = blocks_[2 * groups8 * FLOATS_PER_BLOCK];
    }

    // Stage 0 computes mean, rstd * gamma and beta of every channel.
    __aicore__ inline void Prepare(uint64_t begin, uint64_t end)
    {
        for (uint64_t group = begin; this->SetTile(group, end); group += this->groups_) {
            states_.Load(2, group, this->groups_);
            BroadcastRows(blocks_, states_.Local(MEAN), this->groups_);
            BroadcastRows(rstdBlocks_, states_.Local(RSTD), this->groups_);
            for (uint32_t column = 0; column < this->tiling_.groupChannels; column += this->tiling_.tileChannels) {
                const RowBlock block = this->BlockOf(column);
                this->LoadFactors(column, true);
                AscendC::LocalTensor<float> local = this->outQueue_.template AllocTensor<float>();
                this->SpreadGroups(local, blocks_, block);
                this->StoreArray(GroupNormGradArrays::MEAN, column, local);
                local = this->outQueue_.template AllocTensor<float>();
                this->RepeatFactor(local, this->gamma_, block);
                MultiplyRows(local, local, rstdBlocks_, block);
                this->StoreArray(GroupNormGradArrays::SCALE, column, local);
                local = this->outQueue_.template AllocTensor<float>();
                this->RepeatFactor(local, this->beta_, block);
                this->StoreArray(GroupNormGradArrays::BETA, column, local);
            }
            states_.Free();
        }
    }

    // Runs stage 2.
    __aicore__ inline void Process(uint64_t begin, uint64_t end)
    {
        for (uint64_t group = begin; this->SetTile(group, end); group += this->groups_) {
            states_.Load(4, group, this->groups_);
            BroadcastRows(rstdBlocks_, states_.Local(RSTD), this->groups_);
            for (uint32_t column = 0; column < this->tiling_.groupChannels; column += this->tiling_.tileChannels) {
                AddChannels(column);
            }
            ComputeGroups();
            states_.Free();
            for (uint32_t column = 0; column < this->tiling_.groupChannels; column += this->tiling_.tileChannels) {
                const RowBlock block = this->BlockOf(column);
                AscendC::LocalTensor<float> local = this->outQueue_.template AllocTensor<float>();
                this->SpreadGroups(local, blocks_, block);
                this->StoreArray(GroupNormGradArrays::SLOPE, column, local);
                local = this->outQueue_.template AllocTensor<float>();
                this->SpreadGroups(local, offsetBlocks_, block);
                this->StoreArray(GroupNormGradArrays::OFFSET, column, local);
            }
        }
    }

private:
    static constexpr uint32_t MEAN = 0;  // the rows of states_
    static constexpr uint32_t RSTD = 1;
    static constexpr uint32_t DMEAN = 2;
    static constexpr uint32_t DRSTD = 3;

    // outer_ += the sums of gamma * sum(dz), inner_ += those of gamma * sum(dz * (x - mean)); and the sample's share of
    // dbeta and dgamma.
    __aicore__ inline void AddChannels(uint32_t column)
    {
        const RowBlock block = this->BlockOf(column);
        const RowBlock samples = this->SamplesOf(block);
        const int32_t count = static_cast<int32_t>(block.Elements());
        this->LoadFactors(column, true);
        this->SumPieces(sum_, GroupNormGradArrays::PIECES, GroupNormGradArrays::SUMS, column);
        this->SumPieces(product_, GroupNormGradArrays::PIECES + 1, GroupNormGradArrays::SUMS, column);
        AscendC::Duplicate(work_, 0.0f, count);
        MultiplyColumns(work_, sum_, this->gamma_, samples);
        SumInto(outer_, column, block);
        MultiplyColumns(work_, product_, this->gamma_, samples);
        SumInto(inner_, column, block);
        AscendC::LocalTensor<float> local = this->outQueue_.template AllocTensor<float>();
        AscendC::Muls(local, sum_, 1.0f, count);
        this->StoreArray(GroupNormGradArrays::DBETA, column, local);
        local = this->outQueue_.template AllocTensor<float>();
        MultiplyRows(local, product_, rstdBlocks_, block);
        this->StoreArray(GroupNormGradArrays::DGAMMA, column, local);
    }

    __aicore__ inline void SumInto(const AscendC::LocalTensor<float>& total, uint32_t column, const RowBlock& block)
    {
        if (column == 0) {
            this->SumGroups(total, work_, block, 1.0f);
            return;
        }
        this->SumGroups(part_, work_, block, 1.0f);
        AscendC::Add(total, total, part_, static_cast<int32_t>(this->groups8_));
    }

    // Sets blocks_ to -rstd^2 * inner and offsetBlocks_ to -outer.
    __aicore__ inline void ComputeGroups()
    {
        const int32_t groups = static_cast<int32_t>(RoundUpToBlock(this->groups_));
        const AscendC::LocalTensor<float> rstd = states_.Local(RSTD);
        AscendC::Mul(inner_, inner_, rstd, groups);
        AscendC::Mul(part_, states_.Local(DRSTD), rstd, groups);
        AscendC::Add(inner_, inner_, part_, groups);
        AscendC::Muls(inner_, inner_, -this->tiling_.inverseCount, groups);
        AscendC::Mul(inner_, inner_, rstd, groups);
        AscendC::Mul(inner_, inner_, rstd, groups);
        AscendC::Mul(outer_, outer_, rstd, groups);
        AscendC::Sub(outer_, outer_, states_.Local(DMEAN), groups);
        AscendC::Muls(outer_, outer_, -this->tiling_.inverseCount, groups);
        BroadcastRows(blocks_, inner_, this->groups_);
        BroadcastRows(offsetBlocks_, outer_, this->groups_);
    }

    RowStates states_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> stateBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> product_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> outer_;
    AscendC::LocalTensor<float> inner_;
    AscendC::LocalTensor<float> part_;
    AscendC::LocalTensor<float> blocks_;
    AscendC::LocalTensor<float> rstdBlocks_;
    AscendC::LocalTensor<float> offsetBlocks_;
};

// Runs stages 0 to 3.
template <typename T, typename G, bool LAST>
__aicore__ inline void RunGroupNormGrad(GM_ADDR dy, GM_ADDR dmean, GM_ADDR drstd, GM_ADDR x, GM_ADDR mean, GM_ADDR rstd,
                                        GM_ADDR gamma, GM_ADDR beta, GM_ADDR dx, GM_ADDR workspace,
                                        const GroupNormTilingData& tiling, AscendC::TPipe& pipe)
{
    GroupNormGradData<T, LAST> data;
    GroupNormGradCombine<G> combine;
    data.Init(dy, x, dx, workspace, tiling, pipe);
    combine.Init(dmean, drstd, mean, rstd, gamma, beta, workspace, tiling, pipe);
    RunStages<true>(data, combine, static_cast<uint64_t>(tiling.groupChannels) * tiling.pieces, tiling, pipe);
}

template <typename T, typename G>
__aicore__ inline void GroupNormGradKernel(GM_ADDR dy, GM_ADDR dmean, GM_ADDR drstd, GM_ADDR x, GM_ADDR mean,
                                           GM_ADDR rstd, GM_ADDR gamma, GM_ADDR beta, GM_ADDR dx, GM_ADDR dgamma,
                                           GM_ADDR dbeta, GM_ADDR workspace, const GroupNormGradTilingData& tiling)
{
    AscendC::TPipe pipe;
    if (tiling.channelsLast != 0) {
        RunGroupNormGrad<T, G, true>(dy, dmean, drstd, x, mean, rstd, gamma, beta, dx, workspace, tiling, pipe);
    } else {
        RunGroupNormGrad<T, G, false>(dy, dmean, drstd, x, mean, rstd, gamma, beta, dx, workspace, tiling, pipe);
    }
    AscendC::SyncAll();
    pipe.Reset();
    SumChunks<G, GroupNormTilingData> sum;
    sum.Init(tiling, pipe);
    const uint64_t arrayBytes = tiling.arrayStride * sizeof(float);
    sum.Process(dgamma, workspace + GroupNormGradArrays::DGAMMA * arrayBytes);
    sum.Process(dbeta, workspace + GroupNormGradArrays::DBETA * arrayBytes);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUP_NORM_GRAD_KERNEL_H
