#include "operators/convolution_bias_gradient.h"

#include <algorithm>

namespace AscendC {
namespace host {
namespace convolutions {

void BiasSum::Create(const Convolution& c, size_t& bytes)
{
    type_ = c.type;
    isLast_ = c.channelsLast != 0;
    samples_ = c.samples;
    plane_ = c.outHeight * c.outWidth;
    channels_ = c.outChannels;
    if (isLast_) {
        const int64_t rows = samples_ * plane_;
        blockRows_ = (rows + BLOCKS - 1) / BLOCKS;
        blocks_ = static_cast<int>((rows + blockRows_ - 1) / blockRows_);
        sums_ = bytes;
        blockBytes_ = Lines(static_cast<size_t>(channels_) * (sizeof(double) + 2 * sizeof(float)));
        bytes += static_cast<size_t>(blocks_) * blockBytes_;
    }
}

void BiasSum::Run(State& state, const char* dy, float* dbias) const
{
    if (isLast_) {
        RunLast(state, dy, dbias);
        return;
    }
    const int64_t tasks = std::min<int64_t>(channels_, state.pool.ThreadNum());
    state.pool.ParallelFor(static_cast<int>(tasks), [&](int index, int count) {
        for (int64_t i = channels_ * index / count; i < channels_ * (index + 1) / count; ++i) {
            double total = 0;
            for (int64_t sample = 0; sample < samples_; ++sample) {
                total += SumOf(dy + (sample * channels_ + i) * plane_ * SizeOf(type_));
            }
            dbias[i] = static_cast<float>(total);
        }
    });
}

double BiasSum::SumOf(const char* plane) const
{
    double total = 0;
    for (int64_t begin = 0; begin < plane_; begin += PIECE) {
        float buffer[PIECE];
        const int64_t count = std::min(PIECE, plane_ - begin);
        const float* const values = AsFloats(plane + begin * SizeOf(type_), type_, count, buffer);
        float lanes[LANES] = {};
        int64_t i = 0;
        for (; i + LANES <= count; i += LANES) {
            for (int64_t lane = 0; lane < LANES; ++lane) {
                lanes[lane] += values[i + lane];
            }
        }
        for (; i < count; ++i) {
            lanes[i % LANES] += values[i];
        }
        for (const float lane : lanes) {
            total += lane;
        }
    }
    return total;
}

void BiasSum::RunLast(State& state, const char* dy, float* dbias) const
{
    const int64_t rows = samples_ * plane_;
    const int64_t rowBytes = channels_ * SizeOf(type_);
    const auto sumsOf = [&](int block) {
        return reinterpret_cast<double*>(state.memory + sums_ + static_cast<size_t>(block) * blockBytes_);
    };
    state.pool.ParallelFor(blocks_, [&](int block, int) {
        double* const sums = sumsOf(block);
        auto* const few = reinterpret_cast<float*>(sums + channels_);
        std::fill_n(sums, channels_, 0.0);
        const int64_t end = std::min(rows, (block + 1) * blockRows_);
        for (int64_t begin = block * blockRows_; begin < end; begin += ROWS) {
            std::fill_n(few, channels_, 0.0f);
            for (int64_t row = begin; row < std::min(end, begin + ROWS); ++row) {
                const float* const values = AsFloats(dy + row * rowBytes, type_, channels_, few + channels_);
                for (int64_t i = 0; i < channels_; ++i) {
                    few[i] += values[i];
                }
            }
            for (int64_t i = 0; i < channels_; ++i) {
                sums[i] += few[i];
            }
        }
    });
    for (int64_t i = 0; i < channels_; ++i) {
        double total = 0;
        for (int block = 0; block < blocks_; ++block) {
            total += sumsOf(block)[i];
        }
        dbias[i] = static_cast<float>(total);
    }
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
