/*!
 * Runs the stage of group_norm that combines sums to mean and rstd of the groups, and those to factors of the channels.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_COMBINE_H
#define MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_COMBINE_H

#include "kernel_operator.h"
#include "primitives/group_norm_activation.h"
#include "primitives/group_norm_apply.h"
#include "primitives/group_norm_groups.h"
#include "primitives/group_norm_tiles.h"

namespace ms_ascend_ops {

// Stage 2 begins with one of these: the sums of groups or of channels; the means of pieces of channels, not less K, and
// the squares from them; or x itself, which goes to y then.
enum class GroupNormFrom { GROUPS, CHANNELS, MEANS, X };

// Runs stage 2.
template <typename T, typename G, GroupNormFrom FROM>
class GroupNormCombine : public GroupTiles<G> {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                GM_ADDR workspace, const NormGroupsTilingData& tiling, AscendC::TPipe& pipe)
    {
        this->InitTiles(gamma, beta, workspace, tiling, pipe);
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        meanGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(mean), tiling.groups);
        rstdGm_.SetGlobalBuffer(reinterpret_cast<__gm__ float*>(rstd), tiling.groups);
        const uint32_t groups8 = this->groups8_;
        pipe.InitBuffer(outQueueMean_, 1, groups8 * sizeof(float));
        pipe.InitBuffer(outQueueRstd_, 1, groups8 * sizeof(float));
        pipe.InitBuffer(workBuf_, 4 * this->elements_ * sizeof(float));
        pipe.InitBuffer(stateBuf_, 5 * groups8 * sizeof(float));
        pipe.InitBuffer(blockBuf_, 3 * groups8 * AscendC::ONE_BLK_SIZE);
        shifted_ = workBuf_.template Get<float>();
        sum_ = shifted_[this->elements_];
        square_ = shifted_[2 * this->elements_];
        work_ = shifted_[3 * this->elements_];
        shift_ = stateBuf_.template Get<float>();
        delta_ = shift_[groups8];
        variance_ = shift_[2 * groups8];
        ones_ = shift_[3 * groups8];
        part_ = shift_[4 * groups8];
        shiftBlocks_ = blockBuf_.template Get<float>();
        deltaBlocks_ = shiftBlocks_[groups8 * FLOATS_PER_BLOCK];
        rstdBlocks_ = shiftBlocks_[2 * groups8 * FLOATS_PER_BLOCK];
        AscendC::Duplicate(ones_, 1.0f, static_cast<int32_t>(groups8));
    }

    __aicore__ inline void Process(uint64_t begin, uint64_t end)
    {
        for (uint64_t group = begin; this->SetTile(group, end); group += this->groups_) {
            const uint32_t channels = this->tiling_.groupChannels;
            const uint32_t step = this->tiling_.tileChannels;
            if constexpr (FROM == GroupNormFrom::GROUPS) {
                AddGroups();
            } else {
                for (uint32_t column = 0; column < channels; column += step) {
                    AddChannels(column);
                }
            }
            ComputeStatistics();
            for (uint32_t column = 0; column < channels; column += step) {
                if constexpr (FROM == GroupNormFrom::GROUPS || FROM == GroupNormFrom::MEANS) {
                    ShareShift(column);
                } else if (step < channels) {
                    LoadShifted(column);
                }
                ComputeFactors(column);
            }
        }
    }

private:
    static constexpr bool DIRECT = FROM == GroupNormFrom::X;

    // k = K, delta_ and variance_ of groups from their own sums.
    __aicore__ inline void AddGroups()
    {
        LoadSums(shift_, 0, 1, 1.0f);
        LoadSums(delta_, 1, this->tiling_.sumPieces, this->tiling_.inverseCount);
        LoadSums(variance_, 2, this->tiling_.sumPieces, this->tiling_.inverseCount);
        BroadcastRows(shiftBlocks_, shift_, this->groups_);
    }

    // total = the sums over each group's first `pieces` pieces, times factor.
    __aicore__ inline void LoadSums(const AscendC::LocalTensor<float>& total, uint32_t sum, uint32_t pieces,
                                    float factor)
    {
        const uint64_t stride = this->tiling_.sumPieces;
        const uint64_t item = this->group_ * stride;
        if (stride == 1) {  // the groups' values lie side by side
            AscendC::LocalTensor<float> local =
                this->LoadValues(GroupNormArrays::GROUP_SUMS + sum, item, {1, this->groups_, this->groups8_}, stride);
            AscendC::Duplicate(total, 0.0f, static_cast<int32_t>(this->groups8_));
            AscendC::Muls(total, local, factor, static_cast<int32_t>(this->groups_));
            this->inQueue_.FreeTensor(local);
            return;
        }
        for (uint32_t column = 0; column < pieces; column += this->tiling_.groupStride) {
            const uint32_t left = pieces - column;
            const RowBlock block{this->groups_, left < this->tiling_.groupStride ? left : this->tiling_.groupStride,
                                 this->tiling_.groupStride};
            AscendC::LocalTensor<float> local =
                this->LoadValues(GroupNormArrays::GROUP_SUMS + sum, item + column, block, stride);
            SumInto(total, local, column, block, factor);
            this->inQueue_.FreeTensor(local);
        }
    }

    // The channels' K is k: shifted_ = 0.
    __aicore__ inline void ShareShift(uint32_t column)
    {
        const RowBlock block = this->BlockOf(column);
        AscendC::Duplicate(shifted_, 0.0f, static_cast<int32_t>(block.Elements()));
        AscendC::LocalTensor<float> local = this->outQueue_.template AllocTensor<float>();
        this->SpreadGroups(local, shiftBlocks_, block);
        this->StoreArray(GroupNormArrays::K, column, local);
    }

    // shifted_ = K - k, with k the mean of the group's first channels; of x itself, as each is one value, the mean is
    // taken here.
    __aicore__ inline void LoadShifted(uint32_t column)
    {
        const RowBlock block = this->BlockOf(column);
        if constexpr (DIRECT) {
            const AscendC::GlobalTensor<T> from = xGm_[this->group_ * this->tiling_.groupChannels + column];
            AscendC::LocalTensor<T> local = this->template LoadTile<T>(from, block);
            SubtractShift(ToFloat(local, square_, block.Elements()), column, block);
            this->inQueue_.FreeTensor(local);
        } else {
            AscendC::LocalTensor<float> local = this->LoadArray(GroupNormArrays::K, column);
            SubtractShift(local, column, block);
            this->inQueue_.FreeTensor(local);
        }
    }

    __aicore__ inline void SubtractShift(const AscendC::LocalTensor<float>& src, uint32_t column, const RowBlock& block)
    {
        if (DIRECT && column == 0) {
            SetShift(src, block);
        }
        AscendC::Duplicate(shifted_, 0.0f, static_cast<int32_t>(block.Elements()));  // the gaps between groups are read
        SubtractRows(shifted_, src, shiftBlocks_, block);
    }

    __aicore__ inline void SetShift(const AscendC::LocalTensor<float>& src, const RowBlock& block)
    {
        this->SumGroups(shift_, src, block, 1.0f / static_cast<float>(block.cols));
        BroadcastRows(shiftBlocks_, shift_, block.rows);
    }

    // sum_ = channel mean - K, or with MEANS the channel mean, square_ = the squares from the channel's mean, from
    // those of the pieces. With the rows so far N, those of the piece n, and d = the piece's mean - the mean so far:
    // the mean grows by d * n / (N + n), the squares by the piece's and d^2 * N * n / (N + n).
    __aicore__ inline void CombinePieces(uint32_t column)
    {
        const int32_t count = static_cast<int32_t>(this->BlockOf(column).Elements());
        AscendC::Duplicate(sum_, 0.0f, count);
        AscendC::Duplicate(square_, 0.0f, count);
        uint64_t all = 0;
        for (uint32_t piece = 0; piece < this->tiling_.sumPieces; ++piece) {
            const uint64_t array =
                GroupNormArrays::CHANNEL_SUMS + static_cast<uint64_t>(piece) * GroupNormArrays::PIECE_SUMS;
            const uint64_t own = PieceRows(this->tiling_, piece);
            const float before = static_cast<float>(all);
            const float rows = static_cast<float>(own);
            all += own;
            const float share = rows / (before + rows);
            AscendC::LocalTensor<float> local = this->LoadArray(array, column);
            AscendC::Sub(work_, local, sum_, count);
            this->inQueue_.FreeTensor(local);
            AscendC::Axpy(sum_, work_, share, count);
            AscendC::Mul(work_, work_, work_, count);
            AscendC::Axpy(square_, work_, before * share, count);
            local = this->LoadArray(array + 1, column);
            AscendC::Add(square_, square_, local, count);
            this->inQueue_.FreeTensor(local);
        }
    }

    // delta_ += the sums of channel mean - k; variance_ += those of the squares from k.
    __aicore__ inline void AddChannels(uint32_t column)
    {
        const RowBlock block = this->BlockOf(column);
        const int32_t count = static_cast<int32_t>(block.Elements());
        if constexpr (DIRECT) {
            LoadShifted(column);
            AscendC::Mul(square_, shifted_, shifted_, count);
            SumInto(delta_, shifted_, column, block, this->tiling_.inverseChannels);
        } else {
            const float size = static_cast<float>(this->tiling_.size);
            CombinePieces(column);
            if constexpr (FROM == GroupNormFrom::MEANS) {
                if (column == 0) {
                    SetShift(sum_, block);
                }
                SubtractRows(sum_, sum_, shiftBlocks_, block);
            } else {
                if (column == 0) {
                    AscendC::LocalTensor<float> local = this->LoadArray(GroupNormArrays::K, column);
                    AscendC::Add(work_, local, sum_, count);
                    this->inQueue_.FreeTensor(local);
                    SetShift(work_, block);
                }
                LoadShifted(column);
                AscendC::Add(sum_, sum_, shifted_, count);
            }
            AscendC::Mul(work_, sum_, sum_, count);
            AscendC::Muls(work_, work_, size, count);
            AscendC::Add(square_, square_, work_, count);
            SumInto(delta_, sum_, column, block, this->tiling_.inverseChannels);
        }
        SumInto(variance_, square_, column, block, this->tiling_.inverseCount);
    }

    __aicore__ inline void SumInto(const AscendC::LocalTensor<float>& total, const AscendC::LocalTensor<float>& src,
                                   uint32_t column, const RowBlock& block, float factor)
    {
        if (column == 0) {
            this->SumGroups(total, src, block, factor);
            return;
        }
        this->SumGroups(part_, src, block, factor);
        AscendC::Add(total, total, part_, static_cast<int32_t>(this->groups8_));
    }

    __aicore__ inline void ComputeStatistics()
    {
        const int32_t groups8 = static_cast<int32_t>(this->groups8_);
        const uint32_t groups = this->groups_;
        AscendC::LocalTensor<float> meanLocal = outQueueMean_.template AllocTensor<float>();
        AscendC::LocalTensor<float> rstdLocal = outQueueRstd_.template AllocTensor<float>();
        AscendC::Mul(rstdLocal, delta_, delta_, groups8);
        AscendC::Sub(variance_, variance_, rstdLocal, groups8);
        AscendC::Abs(variance_, variance_, groups8);  // rounding may leave a variance of 0 below 0
        AscendC::Adds(variance_, variance_, this->tiling_.epsilon, groups8);
        AscendC::Sqrt(variance_, variance_, groups8);
        AscendC::Div(rstdLocal, ones_, variance_, groups8);
        AscendC::Add(meanLocal, shift_, delta_, groups8);
        BroadcastRows(deltaBlocks_, delta_, groups);
        BroadcastRows(rstdBlocks_, rstdLocal, groups);
        const Rows shape{1, groups, this->groups8_, groups};
        outQueueMean_.EnQue(meanLocal);
        outQueueRstd_.EnQue(rstdLocal);
        meanLocal = outQueueMean_.template DeQue<float>();
        rstdLocal = outQueueRstd_.template DeQue<float>();
        StoreRows(meanGm_[this->group_], meanLocal, shape);
        StoreRows(rstdGm_[this->group_], rstdLocal, shape);
        outQueueMean_.FreeTensor(meanLocal);
        outQueueRstd_.FreeTensor(rstdLocal);
    }

    // Computes A = gamma * rstd and B = beta + (K - mean) * A, with K - mean = shifted_ - delta.
    __aicore__ inline void ComputeFactors(uint32_t column)
    {
        const RowBlock block = this->BlockOf(column);
        const int32_t count = static_cast<int32_t>(block.Elements());
        this->LoadFactors(column, true);
        this->RepeatFactor(sum_, this->gamma_, block);
        MultiplyRows(sum_, sum_, rstdBlocks_, block);
        SubtractRows(shifted_, shifted_, deltaBlocks_, block);
        AscendC::Mul(shifted_, shifted_, sum_, count);
        AddColumns(shifted_, shifted_, this->beta_, this->SamplesOf(block));
        if constexpr (DIRECT) {
            AscendC::LocalTensor<T> y = this->outQueue_.template AllocTensor<T>();
            AscendC::LocalTensor<float> result = shifted_;
            if (this->tiling_.activation != 0) {
                ActivateNorm(this->tiling_.activation, square_, shifted_, block.Elements());
                result = square_;
            }
            if constexpr (IS_FLOAT<T>) {
                AscendC::Muls(y, result, 1.0f, count);
            }
            FromFloat(y, result, block.Elements());
            const AscendC::GlobalTensor<T> to = yGm_[this->group_ * this->tiling_.groupChannels + column];
            this->template StoreTile<T>(to, y, block);
        } else {
            StoreCopy(GroupNormArrays::A, sum_, column, count);
            StoreCopy(GroupNormArrays::B, shifted_, column, count);
        }
    }

    __aicore__ inline void StoreCopy(uint64_t array, const AscendC::LocalTensor<float>& src, uint32_t column,
                                     int32_t count)
    {
        AscendC::LocalTensor<float> local = this->outQueue_.template AllocTensor<float>();
        AscendC::Muls(local, src, 1.0f, count);
        this->StoreArray(array, column, local);
    }

    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::GlobalTensor<float> meanGm_;
    AscendC::GlobalTensor<float> rstdGm_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueMean_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueRstd_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> stateBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> blockBuf_;
    AscendC::LocalTensor<float> shifted_;
    AscendC::LocalTensor<float> sum_;
    AscendC::LocalTensor<float> square_;
    AscendC::LocalTensor<float> work_;
    AscendC::LocalTensor<float> shift_;  // k
    AscendC::LocalTensor<float> delta_;  // mean - k
    AscendC::LocalTensor<float> variance_;
    AscendC::LocalTensor<float> ones_;
    AscendC::LocalTensor<float> part_;
    AscendC::LocalTensor<float> shiftBlocks_;
    AscendC::LocalTensor<float> deltaBlocks_;
    AscendC::LocalTensor<float> rstdBlocks_;
};

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_GROUP_NORM_COMBINE_H
