/*!
 * GroupNorm: y = act((x - mean) * rstd * gamma + beta), mean and rstd over the D = C / num_groups channels of a group
 * and all positions; act is nothing, SiLU or ReLU. Channels first (N, C, ...) or last (N, ..., C), both as they lie.
 *
 * Plan, in three stages. (1) Sum: the sums of c = x - K and c^2, where K is the mean of some of the elements, so that
 * nothing cancels (primitives/layer_norm_forward.h). Channels first: of every group, whose D * S elements lie in one
 * piece, or of pieces of it; K is the group's. Channels last: of every channel, or piece of one, with a shift of its
 * own, from which the piece's mean and its squares from that mean are calculated: positions that are unlike the others
 * do not spoil the sums of other pieces. (2) Combine (pieces as Chan, Golub and LeVeque do): to mean and rstd of the
 * groups; from these, gamma and beta the factors of y = (x - K) * A + B for every channel. (3) Apply, to channels.
 * Channel values go through the workspace, where D needs no alignment: groups of any number of channels are packed many
 * to a tile. When there are groups enough for the cores, a core takes batches of its groups through all stages, so that
 * x is in the cache when it is read again; else the cores share each stage, with barriers between. The arithmetic is
 * the same. One value a channel (no spatial dims): stage 2 alone, from x to y.
 * Bound: memory (x twice, the second time from the L2 cache where it fits; y once).
 */
#ifndef MS_ASCEND_OPS_GROUP_NORM_KERNEL_H
#define MS_ASCEND_OPS_GROUP_NORM_KERNEL_H

#include "group_norm_activation.h"
#include "group_norm_groups.h"
#include "group_norm_stages.h"
#include "group_norm_tiles.h"
#include "group_norm_tiling.h"
#include "kernel_operator.h"

namespace ms_ascend_ops {

// Arrays in the workspace: of channel values, and of what stage 1 leaves. Channels first: K, the sum of c and the sum
// of c^2, a value for each piece of each group; K is with a group's first piece. Channels last: channel values; K, the
// mean of a few positions from all over the sample, then two arrays for each piece: its mean less K, and the sum of the
// squares from its mean.
struct GroupNormArrays {
    static constexpr uint32_t A = 0;
    static constexpr uint32_t B = 1;
    static constexpr uint32_t K = 2;
    static constexpr uint32_t GROUP_SUMS = 3;
    static constexpr uint32_t CHANNEL_SUMS = 3;
    static constexpr uint32_t SUMS = 3;
    static constexpr uint32_t PIECE_SUMS = 2;  // channels last
};

// Stages 1 and 3.
template <typename T, bool LAST>
class GroupNormData {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR workspace, const GroupNormTilingData& tiling,
                                AscendC::TPipe& pipe)
    {
        tiling_ = tiling;
        xGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(x));
        yGm_.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(y));
        const DataRows rows = ChannelRows(tiling);
        sumRows_ = SumRows(tiling);
        walk_.Init(tiling, rows);
        sumWalk_.Init(tiling, sumRows_);
        values_.Init(workspace, tiling.arrayStride, rows, 3, pipe);
        shift_.InitSet(sumRows_, 1, pipe);
        sums_.Init(workspace, tiling.arrayStride, sumRows_, GroupNormArrays::SUMS, pipe);
        const uint32_t tileElements = Larger(rows.TileElements(), sumRows_.TileElements());
        const uint32_t stepElements = Larger(rows.StepElements(), sumRows_.StepElements());
        pipe.InitBuffer(inQueueX_, 2, tileElements * sizeof(T));
        if (!LAST && sumRows_.pieces > 1) {
            pipe.InitBuffer(inQueueProbe_, 1, tiling.probe * sizeof(T));
        }
        pipe.InitBuffer(outQueueY_, 2, tileElements * sizeof(T));
        pipe.InitBuffer(workBuf_, 2 * stepElements * sizeof(float));
        work_ = workBuf_.template Get<float>();
        square_ = work_[stepElements];
        AscendC::Duplicate(work_, 0.0f, static_cast<int32_t>(2 * stepElements));  // the gaps between rows are read
        if constexpr (LAST) {
            pipe.InitBuffer(pieceBuf_, 2 * rows.stride * sizeof(float));
            pieceShift_ = pieceBuf_.template Get<float>();
            pieceMean_ = pieceShift_[rows.stride];
        }
    }

    // Stage 1 on items [begin, end) of those that sums are taken of.
    __aicore__ inline void Sum(uint64_t begin, uint64_t end)
    {
        uint64_t probed = ~0ull;  // the group that K is of
        sumWalk_.Begin(begin, end);
        while (sumWalk_.NextUnit()) {
            sums_.Begin();
            if (LAST || (sumRows_.pieces > 1 && sumWalk_.state != probed)) {
                LoadProbe();
                probed = sumWalk_.state;
            }
            bool first = true;
            while (sumWalk_.NextTile()) {
                AscendC::LocalTensor<T> xLocal = CopyIn(sumWalk_.offset, sumWalk_.shape);
                if (LAST && first) {
                    SetPieceShift(xLocal);
                    first = false;
                }
                if (!LAST && sumRows_.pieces == 1) {
                    for (uint32_t r = 0; r < sumWalk_.shape.rows; r += sumRows_.stepRows) {
                        ProbeRows(xLocal[r * sumRows_.stride], r, sumWalk_.BlockOf(r));
                    }
                    SetShift();
                }
                for (uint32_t r = 0; r < sumWalk_.shape.rows; r += sumRows_.stepRows) {
                    const RowBlock block = sumWalk_.BlockOf(r);
                    const AscendC::LocalTensor<float> xFloat =
                        ToFloat(xLocal[r * sumRows_.stride], work_, block.Elements());
                    shift_.template Apply<SubOf>(work_, xFloat, 0, r, block);
                    AscendC::Mul(square_, work_, work_, static_cast<int32_t>(block.Elements()));
                    sums_.Add(1, work_, r, block);
                    sums_.Add(2, square_, r, block);
                }
                inQueueX_.FreeTensor(xLocal);
            }
            if constexpr (LAST) {
                FinishPiece();
                sums_.Ready();
                if (sumWalk_.piece == 0) {
                    sums_.Store(0, 1, GroupNormArrays::K, sumWalk_.state, sumWalk_.channels);
                }
                sums_.Store(1, GroupNormArrays::PIECE_SUMS,
                            GroupNormArrays::CHANNEL_SUMS + sumWalk_.piece * GroupNormArrays::PIECE_SUMS,
                            sumWalk_.state, sumWalk_.channels);
                sums_.Free();
            } else {
                sums_.End(1, GroupNormArrays::GROUP_SUMS, sumWalk_.state * sumRows_.pieces + sumWalk_.piece,
                          sumWalk_.channels);
            }
        }
    }

    // Stage 3 on items [begin, end).
    __aicore__ inline void Apply(uint64_t begin, uint64_t end)
    {
        walk_.Begin(begin, end);
        while (walk_.NextUnit()) {
            values_.Load(GroupNormArrays::A, 3, walk_.state, walk_.channels);
            while (walk_.NextTile()) {
                AscendC::LocalTensor<T> xLocal = CopyIn(walk_.offset, walk_.shape);
                AscendC::LocalTensor<T> yLocal = outQueueY_.template AllocTensor<T>();
                for (uint32_t r = 0; r < walk_.shape.rows; r += tiling_.stepRows) {
                    const uint32_t at = r * tiling_.stride;
                    ApplyBlock(yLocal[at], xLocal[at], r, walk_.BlockOf(r));
                }
                inQueueX_.FreeTensor(xLocal);
                StoreQueued(outQueueY_, yGm_[walk_.offset], yLocal, walk_.shape);
            }
            values_.Free();
        }
    }

private:
    static __aicore__ inline uint32_t Larger(uint32_t a, uint32_t b) { return a < b ? b : a; }

    __aicore__ inline AscendC::LocalTensor<T> CopyIn(uint64_t offset, const Rows& shape)
    {
        AscendC::LocalTensor<T> local = inQueueX_.template AllocTensor<T>();
        LoadRows(local, xGm_[offset], shape, shape.rows > 1);
        inQueueX_.EnQue(local);
        return inQueueX_.template DeQue<T>();
    }

    // K of a unit whose tiles do not begin with the first elements. The first elements of a group of several tiles may
    // be unlike most: there it is the mean of elements from all over the group, at places where channels hardly begin.
    __aicore__ inline void LoadProbe()
    {
        if constexpr (LAST) {
            const uint64_t apart = tiling_.size / tiling_.probe;
            const RowBlock block{tiling_.probe, sumWalk_.channels, sumRows_.stride};
            const Rows shape{block.rows, block.cols, block.stride, apart * tiling_.channels};
            AscendC::LocalTensor<T> xLocal = CopyIn(sumWalk_.probe + apart / 2 * tiling_.channels, shape);
            SumColumns(sums_.Of(0), ToFloat(xLocal, work_, block.Elements()), block);
            inQueueX_.FreeTensor(xLocal);
        } else {
            const uint32_t places = tiling_.probe / FLOAT_LANES;
            const uint64_t apart = 2 * sumRows_.size / (2 * places + 1);
            AscendC::LocalTensor<T> xLocal = inQueueProbe_.template AllocTensor<T>();
            LoadRows(xLocal, xGm_[sumWalk_.probe + apart / 2], {places, FLOAT_LANES, FLOAT_LANES, apart});
            inQueueProbe_.EnQue(xLocal);
            xLocal = inQueueProbe_.template DeQue<T>();
            ProbeRows(xLocal, 0, {1, tiling_.probe, tiling_.probe});
            inQueueProbe_.FreeTensor(xLocal);
        }
        SetShift();
    }

    // The sum of the first elements of each row of a block.
    __aicore__ inline void ProbeRows(const AscendC::LocalTensor<T>& x, uint32_t r, const RowBlock& block)
    {
        const RowBlock probe{block.rows, tiling_.probe, block.stride};
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, work_, probe.Elements());
        if (probe.cols > FLOAT_LANES) {
            sums_.Add(0, xFloat, r, probe);
        } else {
            ReduceRepeats<AddOf>(sums_.Of(0)[r], xFloat, probe.cols, probe.rows, probe.stride);
        }
    }

    __aicore__ inline void SetShift()
    {
        if (!LAST && tiling_.probe > FLOAT_LANES) {
            sums_.Finish(0, sumWalk_.channels);
        }
        AscendC::Muls(sums_.Of(0), sums_.Of(0), tiling_.inverseProbe, static_cast<int32_t>(sumWalk_.channels));
        if constexpr (!LAST) {
            shift_.Set(sums_.Of(0), sumWalk_.channels);
        }
    }

    // Channels last: the mean of the first rows of a piece, which its sums are shifted by. They are here already.
    __aicore__ inline void SetPieceShift(const AscendC::LocalTensor<T>& x)
    {
        const uint32_t rows = sumWalk_.shape.rows < tiling_.probe ? sumWalk_.shape.rows : tiling_.probe;
        const RowBlock block{rows, sumWalk_.channels, sumRows_.stride};
        const int32_t channels = static_cast<int32_t>(sumWalk_.channels);
        AscendC::Duplicate(pieceShift_, 0.0f, channels);
        SumColumns(pieceShift_, ToFloat(x, work_, block.Elements()), block);
        AscendC::Muls(pieceShift_, pieceShift_, 1.0f / static_cast<float>(rows), channels);
        shift_.Set(pieceShift_, sumWalk_.channels);
    }

    // The piece's mean less K in the place of the sum of c, s2 - s1^2 / n in that of the sum of c^2.
    __aicore__ inline void FinishPiece()
    {
        const int32_t channels = static_cast<int32_t>(sumWalk_.channels);
        const AscendC::LocalTensor<float> sum = sums_.Of(1);
        const AscendC::LocalTensor<float> square = sums_.Of(2);
        AscendC::Muls(pieceMean_, sum, 1.0f / static_cast<float>(PieceRows(tiling_, sumWalk_.piece)), channels);
        AscendC::Mul(sum, sum, pieceMean_, channels);
        AscendC::Sub(square, square, sum, channels);
        AscendC::Sub(sum, pieceShift_, sums_.Of(0), channels);
        AscendC::Add(sum, sum, pieceMean_, channels);
    }

    // y = act((x - K) * A + B).
    __aicore__ inline void ApplyBlock(const AscendC::LocalTensor<T>& y, const AscendC::LocalTensor<T>& x, uint32_t r,
                                      const RowBlock& block)
    {
        const uint32_t count = block.Elements();
        const AscendC::LocalTensor<float> xFloat = ToFloat(x, work_, count);
        if (tiling_.activation != 0) {
            Affine(work_, work_, xFloat, r, block);
            const AscendC::LocalTensor<float> result = FloatTarget(y, square_);
            ActivateNorm(tiling_.activation, result, work_, count);
            FromFloat(y, result, count);
            return;
        }
        const AscendC::LocalTensor<float> result = FloatTarget(y, work_);
        // Short rows leave nothing in work_, which a CPU would have to write; of long ones a result is written once.
        Affine(result, !LAST && block.rows > 1 ? result : work_, xFloat, r, block);
        FromFloat(y, result, count);
    }

    // dst = (src - K) * A + B, by way of `work`
    __aicore__ inline void Affine(const AscendC::LocalTensor<float>& dst, const AscendC::LocalTensor<float>& work,
                                  const AscendC::LocalTensor<float>& src, uint32_t r, const RowBlock& block)
    {
        values_.template Apply<SubOf>(work, src, GroupNormArrays::K, r, block);
        values_.template Apply<MulOf>(work, work, GroupNormArrays::A, r, block);
        values_.template Apply<AddOf>(dst, work, GroupNormArrays::B, r, block);
    }

    GroupNormTilingData tiling_;
    DataRows sumRows_;
    ChannelWalk<LAST> walk_;
    ChannelWalk<LAST> sumWalk_;
    ChannelValues<LAST> values_;
    ChannelValues<LAST> shift_;  // K, in stage 1
    ChannelSums<LAST> sums_;
    AscendC::GlobalTensor<T> xGm_;
    AscendC::GlobalTensor<T> yGm_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueX_;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> inQueueProbe_;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> outQueueY_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> workBuf_;
    AscendC::TBuf<AscendC::TPosition::VECCALC> pieceBuf_;
    AscendC::LocalTensor<float> work_;        // of one block
    AscendC::LocalTensor<float> square_;      // of one block
    AscendC::LocalTensor<float> pieceShift_;  // channels last
    AscendC::LocalTensor<float> pieceMean_;
};

// What stage 2 begins with: the sums of groups or of channels, or x itself; it goes to y then.
enum class GroupNormFrom { GROUPS, CHANNELS, X };

// Stage 2.
template <typename T, typename G, GroupNormFrom FROM>
class GroupNormCombine : public GroupTiles<G> {
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                GM_ADDR workspace, const GroupNormTilingData& tiling, AscendC::TPipe& pipe)
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
        rest_ = workBuf_.template Get<float>();
        sum_ = rest_[this->elements_];
        square_ = rest_[2 * this->elements_];
        work_ = rest_[3 * this->elements_];
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
                if constexpr (FROM == GroupNormFrom::GROUPS) {
                    ShareShift(column);
                } else if (step < channels) {
                    LoadRest(column);
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

    // The channels' K is k: rest_ = 0.
    __aicore__ inline void ShareShift(uint32_t column)
    {
        const RowBlock block = this->BlockOf(column);
        AscendC::Duplicate(rest_, 0.0f, static_cast<int32_t>(block.Elements()));
        AscendC::LocalTensor<float> local = this->outQueue_.template AllocTensor<float>();
        this->SpreadGroups(local, shiftBlocks_, block);
        this->StoreArray(GroupNormArrays::K, column, local);
    }

    // rest_ = K - k, with k the mean of the group's first channels; of x itself, as each is one value, the mean is
    // taken here.
    __aicore__ inline void LoadRest(uint32_t column)
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
        AscendC::Duplicate(rest_, 0.0f, static_cast<int32_t>(block.Elements()));  // the gaps between groups are read
        SubtractRows(rest_, src, shiftBlocks_, block);
    }

    __aicore__ inline void SetShift(const AscendC::LocalTensor<float>& src, const RowBlock& block)
    {
        this->SumGroups(shift_, src, block, 1.0f / static_cast<float>(block.cols));
        BroadcastRows(shiftBlocks_, shift_, block.rows);
    }

    // sum_ = channel mean - K, square_ = the squares from the channel's mean, from those of the pieces. With the rows
    // so far N, those of the piece n, and d = the piece's mean - the mean so far: the mean grows by d * n / (N + n),
    // the squares by the piece's and d^2 * N * n / (N + n).
    __aicore__ inline void CombinePieces(uint32_t column)
    {
        const int32_t count = static_cast<int32_t>(this->BlockOf(column).Elements());
        AscendC::Duplicate(sum_, 0.0f, count);
        AscendC::Duplicate(square_, 0.0f, count);
        for (uint32_t piece = 0; piece < this->tiling_.pieces; ++piece) {
            const uint64_t array =
                GroupNormArrays::CHANNEL_SUMS + static_cast<uint64_t>(piece) * GroupNormArrays::PIECE_SUMS;
            const float before = static_cast<float>(static_cast<uint64_t>(piece) * this->tiling_.chunkRows);
            const float rows = static_cast<float>(PieceRows(this->tiling_, piece));
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
            LoadRest(column);
            AscendC::Mul(square_, rest_, rest_, count);
            SumInto(delta_, rest_, column, block, this->tiling_.inverseChannels);
        } else {
            const float size = static_cast<float>(this->tiling_.size);
            CombinePieces(column);
            if (column == 0) {
                AscendC::LocalTensor<float> local = this->LoadArray(GroupNormArrays::K, column);
                AscendC::Add(work_, local, sum_, count);
                this->inQueue_.FreeTensor(local);
                SetShift(work_, block);
            }
            LoadRest(column);
            AscendC::Add(sum_, sum_, rest_, count);
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

    // A = gamma * rstd, B = beta + (K - mean) * A, with K - mean = rest_ - delta.
    __aicore__ inline void ComputeFactors(uint32_t column)
    {
        const RowBlock block = this->BlockOf(column);
        const int32_t count = static_cast<int32_t>(block.Elements());
        this->LoadFactors(column, true);
        this->RepeatFactor(sum_, this->gamma_, block);
        MultiplyRows(sum_, sum_, rstdBlocks_, block);
        SubtractRows(rest_, rest_, deltaBlocks_, block);
        AscendC::Mul(rest_, rest_, sum_, count);
        AddColumns(rest_, rest_, this->beta_, this->SamplesOf(block));
        if constexpr (DIRECT) {
            AscendC::LocalTensor<T> y = this->outQueue_.template AllocTensor<T>();
            AscendC::LocalTensor<float> result = rest_;
            if (this->tiling_.activation != 0) {
                ActivateNorm(this->tiling_.activation, square_, rest_, block.Elements());
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
            StoreCopy(GroupNormArrays::B, rest_, column, count);
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
    AscendC::LocalTensor<float> rest_;
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

template <typename T, typename G, bool LAST>
__aicore__ inline void RunGroupNorm(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                    GM_ADDR workspace, const GroupNormTilingData& tiling)
{
    AscendC::TPipe pipe;
    GroupNormData<T, LAST> data;
    GroupNormCombine<T, G, LAST ? GroupNormFrom::CHANNELS : GroupNormFrom::GROUPS> combine;
    data.Init(x, y, workspace, tiling, pipe);
    combine.Init(x, gamma, beta, y, mean, rstd, workspace, tiling, pipe);
    RunStages<false>(data, combine, tiling.sumPieces, tiling, pipe);
}

template <typename T, typename G>
__aicore__ inline void GroupNormKernel(GM_ADDR x, GM_ADDR gamma, GM_ADDR beta, GM_ADDR y, GM_ADDR mean, GM_ADDR rstd,
                                       GM_ADDR workspace, const GroupNormTilingData& tiling)
{
    if (tiling.size == 1) {
        AscendC::TPipe pipe;
        GroupNormCombine<T, G, GroupNormFrom::X> combine;
        combine.Init(x, gamma, beta, y, mean, rstd, workspace, tiling, pipe);
        const CoreShare groups = ShareOf(tiling.groups, tiling.groupsPerCore);
        combine.Process(groups.begin, groups.end);
    } else if (tiling.channelsLast != 0) {
        RunGroupNorm<T, G, true>(x, gamma, beta, y, mean, rstd, workspace, tiling);
    } else {
        RunGroupNorm<T, G, false>(x, gamma, beta, y, mean, rstd, workspace, tiling);
    }
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_GROUP_NORM_KERNEL_H
