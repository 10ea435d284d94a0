#include <algorithm>
#include <utility>
#include <vector>

#include "operators/convolution_bias_gradient.h"
#include "operators/convolution_plan.h"
#include "operators/element_type.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

// Makes the gradients of a depthwise weight and of the bias by loops over channels. A task takes one channel after the
// other, or with channels last a vector of them: x with its padding around it, and dy, as floats.
class DepthwisePlan final : public Plan {
public:
    explicit DepthwisePlan(const Convolution& c) : c_(c), lanes_(g_vectorUnit->lanes), isLast_(c.channelsLast != 0)
    {
        name = "loops over channels";
        const int64_t rows = (c.outHeight - 1) * c.strideHeight + (c.kernelHeight - 1) * c.dilationHeight + 1;
        cols_ = (c.outWidth - 1) * c.strideWidth + (c.kernelWidth - 1) * c.dilationWidth + 1;
        // A vector has positions of a row that follow each other. With a stride they meet columns of x that do not, so
        // columns of the same remainder lie together.
        remainderCols_ = (cols_ + c.strideWidth - 1) / c.strideWidth;
        rowSize_ = isLast_ ? cols_ * lanes_ : remainderCols_ * c.strideWidth;
        for (int64_t i = 0; i < c.kernelHeight; ++i) {
            for (int64_t j = 0; j < c.kernelWidth; ++j) {
                const int64_t col = j * c.dilationWidth;
                offsets_.push_back(i * c.dilationHeight * rowSize_ + (isLast_ ? col * lanes_ : InRow(col)));
            }
        }
        items_ = isLast_ ? (c.channels + lanes_ - 1) / lanes_ : c.channels;
        const int64_t vector = isLast_ ? lanes_ : 1;
        padded_ = Take(rows * rowSize_);
        dy_ = Take(c.outHeight * c.outWidth * vector);
        plane_ = Take(isLast_ ? 0 : c.height * c.width);
        sums_ = Take(static_cast<int64_t>(offsets_.size()) * lanes_);
        totals_ = Take(static_cast<int64_t>(offsets_.size()) * vector * 2);
        // Tasks have memory of their own, and that of all is bounded: with large images there are fewer of them.
        constexpr size_t MOST_BYTES = size_t{64} << 20;
        const auto most = static_cast<int64_t>(std::max<size_t>(1, MOST_BYTES / taskBytes_));
        tasks_ = static_cast<int>(std::min({items_, int64_t{SharesOf(c)}, most}));
        bytes = taskBytes_ * static_cast<size_t>(tasks_);
        weight_.Create(c.channels * c.kernelHeight * c.kernelWidth, c.type, onednn::F32, true, bytes);
        bias_.Create(c, bytes);
    }

    bool Run(const ConvolutionTensors& tensors, State& state) override
    {
        auto* const weight = reinterpret_cast<float*>(weight_.Begin(state, tensors.weight));
        state.pool.ParallelFor(tasks_, [&](int task, int count) {
            char* const memory = state.memory + static_cast<size_t>(task) * taskBytes_;
            for (int64_t item = items_ * task / count; item < items_ * (task + 1) / count; ++item) {
                RunItem(tensors, memory, item, weight);
            }
        });
        bias_.Run(state, static_cast<const char*>(tensors.y), static_cast<float*>(tensors.bias));
        weight_.End(state);
        return true;
    }

private:
    // Takes so many floats of a task's memory, and returns where they are.
    size_t Take(int64_t floats)
    {
        const size_t at = taskBytes_;
        taskBytes_ += Lines(static_cast<size_t>(floats) * sizeof(float));
        return at;
    }

    int64_t InRow(int64_t col) const { return col % c_.strideWidth * remainderCols_ + col / c_.strideWidth; }

    void RunItem(const ConvolutionTensors& tensors, char* memory, int64_t item, float* weight) const
    {
        auto* const padded = reinterpret_cast<float*>(memory + padded_);
        auto* const totals = reinterpret_cast<double*>(memory + totals_);
        const int64_t vector = isLast_ ? lanes_ : 1;
        const int64_t channel = item * vector;
        const int64_t channels = std::min(vector, c_.channels - channel);
        const auto kernelSize = static_cast<int64_t>(offsets_.size());
        std::fill_n(padded, (dy_ - padded_) / sizeof(float), 0.0f);
        std::fill_n(reinterpret_cast<float*>(memory + dy_), (plane_ - dy_) / sizeof(float), 0.0f);
        std::fill_n(totals, kernelSize * vector, 0.0);
        for (int64_t sample = 0; sample < c_.samples; ++sample) {
            const char* const x = static_cast<const char*>(tensors.x);
            const char* const dy = static_cast<const char*>(tensors.y);
            if (isLast_) {
                PadLast(x, sample, channel, channels, padded);
                AddSums(memory, LastAsFloats(dy, sample, channel, channels, memory), totals);
            } else {
                Pad(x, sample * c_.channels + channel, memory, padded);
                const int64_t size = c_.outHeight * c_.outWidth;
                AddSums(memory,
                        AsFloats(dy + (sample * c_.channels + channel) * size * SizeOf(c_.type), c_.type, size,
                                 reinterpret_cast<float*>(memory + dy_)),
                        totals);
            }
        }
        for (int64_t i = 0; i < channels; ++i) {
            for (int64_t element = 0; element < kernelSize; ++element) {
                weight[(channel + i) * kernelSize + element] = static_cast<float>(totals[element * vector + i]);
            }
        }
    }

    // Returns how many of `size` rows or columns of x the kernel sees behind the padding in front.
    static int64_t Seen(int64_t size, int64_t all, int64_t before)
    {
        return std::clamp<int64_t>(all - before, 0, size);
    }

    void Pad(const char* x, int64_t plane, char* memory, float* padded) const
    {
        const float* const values = AsFloats(x + plane * c_.height * c_.width * SizeOf(c_.type), c_.type,
                                             c_.height * c_.width, reinterpret_cast<float*>(memory + plane_));
        const int64_t count = Seen(c_.width, cols_, c_.padLeft);
        for (int64_t row = 0; row < SeenRows(); ++row) {
            float* const to = padded + (row + c_.padTop) * rowSize_;
            const float* const from = values + row * c_.width;
            if (c_.strideWidth == 1) {
                std::copy_n(from, count, to + c_.padLeft);
                continue;
            }
            const int64_t stride = c_.strideWidth;
            for (int64_t remainder = 0; remainder < stride; ++remainder) {
                // This is the first column of x that has the remainder behind the padding.
                int64_t col = (remainder + stride - c_.padLeft % stride) % stride;
                for (float* next = to + InRow(col + c_.padLeft); col < count; col += stride) {
                    *next++ = from[col];
                }
            }
        }
    }

    void PadLast(const char* x, int64_t sample, int64_t channel, int64_t channels, float* padded) const
    {
        for (int64_t row = 0; row < SeenRows(); ++row) {
            const int64_t at = (sample * c_.height + row) * c_.width * c_.channels + channel;
            Pack(x + at * SizeOf(c_.type), Seen(c_.width, cols_, c_.padLeft), channels,
                 padded + (row + c_.padTop) * rowSize_ + c_.padLeft * lanes_);
        }
    }

    const float* LastAsFloats(const char* dy, int64_t sample, int64_t channel, int64_t channels, char* memory) const
    {
        auto* const floats = reinterpret_cast<float*>(memory + dy_);
        const int64_t positions = c_.outHeight * c_.outWidth;
        Pack(dy + (sample * positions * c_.channels + channel) * SizeOf(c_.type), positions, channels, floats);
        return floats;
    }

    void Pack(const char* from, int64_t positions, int64_t channels, float* to) const
    {
        g_vectorUnit->packPanel[static_cast<uint32_t>(ElementOf(c_.type))](
            {from, to, c_.channels, lanes_, static_cast<uint32_t>(positions), static_cast<uint32_t>(channels), false});
    }

    int64_t SeenRows() const
    {
        return Seen(c_.height, static_cast<int64_t>((dy_ - padded_) / sizeof(float)) / rowSize_, c_.padTop);
    }

    void AddSums(char* memory, const float* dy, double* totals) const
    {
        constexpr int64_t MOST = 1024;  // products that a lane adds up as a float
        auto* const sums = reinterpret_cast<float*>(memory + sums_);
        const auto kernelSize = static_cast<int64_t>(offsets_.size());
        const int64_t vector = isLast_ ? lanes_ : 1;
        const int64_t vectors = isLast_ ? c_.outWidth : c_.outWidth / lanes_;
        const int64_t most = std::max<int64_t>(1, MOST / (vectors + 1));
        for (int64_t row = 0; row < c_.outHeight; row += most) {
            DepthwiseSums work{};
            work.x = reinterpret_cast<const float*>(memory + padded_) + row * c_.strideHeight * rowSize_;
            work.dy = dy + row * c_.outWidth * vector;
            work.rows = static_cast<uint32_t>(std::min(most, c_.outHeight - row));
            work.xRow = c_.strideHeight * rowSize_;
            work.dyRow = c_.outWidth * vector;
            work.xStep = isLast_ ? c_.strideWidth * lanes_ : lanes_;
            work.vectors = static_cast<uint32_t>(vectors);
            work.tail = static_cast<uint32_t>(isLast_ ? 0 : c_.outWidth % lanes_);
            work.offsets = offsets_.data();
            work.count = static_cast<uint32_t>(kernelSize);
            work.sums = sums;
            work.folds = !isLast_;
            g_vectorUnit->sumDepthwise(work);
            for (int64_t i = 0; i < kernelSize * vector; ++i) {
                totals[i] += sums[i];
            }
        }
    }

    const Convolution c_;
    const int64_t lanes_;
    const bool isLast_;
    int64_t cols_ = 0;
    int64_t remainderCols_ = 0;
    int64_t rowSize_ = 0;
    std::vector<int64_t> offsets_;
    int64_t items_ = 0;
    int tasks_ = 1;
    size_t taskBytes_ = 0;
    size_t padded_ = 0, dy_ = 0, plane_ = 0, sums_ = 0, totals_ = 0;  // in a task's memory
    Elements weight_;
    BiasSum bias_;
};

}  // namespace

std::unique_ptr<Plan> MakeDepthwisePlan(const Convolution& c)
{
    return std::make_unique<DepthwisePlan>(c);
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
