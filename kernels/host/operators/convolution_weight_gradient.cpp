#include "operators/convolution_plan.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "operators/convolution_bias_gradient.h"
#include "operators/convolution_primitive.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

// Makes the gradients of weight and bias. The library adds up all positions one after the other in float32, so it gets
// some of them at a time, and their sums are added up in pairs.
class WeightPlan final : public Plan {
public:
    bool Create(const Convolution& c)
    {
        const std::vector<Part> parts = PartsOf(c);
        if (parts.empty()) {
            return false;
        }
        const Chosen chosen = FirstAhead(c, parts.front().convolution);
        if (chosen.desc == nullptr) {
            return false;
        }
        name = "oneDNN " + NameOf(chosen.desc);
        const Shape weight = WeightShape(c);
        const MemoryDesc wanted = WantedBy(chosen.desc, QUERY_WEIGHTS + QUERY_DIFF);
        elementBytes_ = chosen.type == F32 ? sizeof(float) : sizeof(uint16_t);
        x_.Create(ImageShape(c, c.channels, c.height, c.width).Size(), c.type, chosen.type, false, bytes);
        y_.Create(ImageShape(c, c.outChannels, c.outHeight, c.outWidth).Size(), c.type, chosen.type, false, bytes);
        weight_.Create(weight.Size(), c.type, F32, true, bytes);
        if (!order_.Create(AsItLies(weight, F32).get(), wanted, true, bytes)) {
            return false;
        }
        sumElements_ = static_cast<int64_t>(OneDnn::Functions().memoryDescSize(wanted) / sizeof(float));
        sums_ = bytes;
        sumBytes_ = Lines(static_cast<size_t>(sumElements_) * sizeof(float));
        bytes += sumBytes_ * parts.size();
        bias_.Create(c, bytes);
        const size_t shared = bytes;
        for (const Part& part : parts) {
            auto* kind = FindKind(part.convolution);
            if (kind == nullptr) {
                kinds_.push_back(std::make_unique<Kind>());
                kind = kinds_.back().get();
                size_t end = shared;
                if (!kind->Create(c, part.convolution, chosen, wanted, end)) {
                    return false;
                }
                bytes = std::max(bytes, end);
            }
            parts_.push_back({kind, part.x, part.y});
        }
        return true;
    }

    bool Run(const ConvolutionTensors& tensors, State& state) override
    {
        char* const x = x_.Begin(state, tensors.x);
        char* const y = y_.Begin(state, tensors.y);
        char* const weight = weight_.Begin(state, tensors.weight);
        if (!order_.Begin(state, weight)) {
            return false;
        }
        for (size_t i = 0; i < parts_.size(); ++i) {
            const auto& [kind, xOffset, yOffset] = parts_[i];
            char* const sum = state.memory + sums_ + i * sumBytes_;
            if (!kind->Run(state, x + xOffset * elementBytes_, y + yOffset * elementBytes_, sum)) {
                return false;
            }
        }
        bias_.Run(state, static_cast<const char*>(tensors.y), static_cast<float*>(tensors.bias));
        return AddUp(weight, state);
    }

private:
    // Some samples, or some rows of one sample, are a convolution of their own. The offsets count elements.
    struct Part {
        Convolution convolution;
        int64_t x;
        int64_t y;
    };

    // Parts of the same sizes share a primitive.
    struct Kind {
        Convolution convolution;
        Primitive primitive;
        Ordered x, y;
        Memory weight = nullptr;

        Kind() = default;
        Kind(const Kind&) = delete;
        ~Kind()
        {
            if (weight != nullptr) {
                OneDnn::Functions().memoryDestroy(weight);
            }
        }

        bool Create(const Convolution& whole, const Convolution& part, const Chosen& chosen, MemoryDesc wanted,
                    size_t& bytes)
        {
            const auto& f = OneDnn::Functions();
            convolution = part;
            const OwnedPrimitiveDesc desc = Describe(part, chosen.choice, chosen.type, wanted);
            if (desc == nullptr || !IsAhead(part, NameOf(desc)) || !primitive.Create(desc) ||
                f.memoryCreate(&weight, wanted, OneDnn::Engine(), nullptr) != 0) {
                return false;
            }
            const Shape wholeX = ImageShape(whole, whole.channels, whole.height, whole.width);
            const Shape wholeY = ImageShape(whole, whole.outChannels, whole.outHeight, whole.outWidth);
            const Shape partX = ImageShape(part, part.channels, part.height, part.width);
            const Shape partY = ImageShape(part, part.outChannels, part.outHeight, part.outWidth);
            return x.Create(AsPartOf(wholeX, partX, chosen.type).get(), WantedBy(desc, QUERY_SRC), false, bytes) &&
                   y.Create(AsPartOf(wholeY, partY, chosen.type).get(), WantedBy(desc, QUERY_DST + QUERY_DIFF), false,
                            bytes);
        }

        bool Run(State& state, char* xData, char* yData, char* sum) const
        {
            const auto& f = OneDnn::Functions();
            const ExecArgument arguments[] = {{ARGUMENT_SRC, x.Inner()},
                                              {ARGUMENT_WEIGHTS + ARGUMENT_DIFF, weight},
                                              {ARGUMENT_DST + ARGUMENT_DIFF, y.Inner()}};
            return f.memorySetHandle(weight, sum) == 0 && x.Begin(state, xData) && y.Begin(state, yData) &&
                   primitive.Run(state, arguments, 3);
        }
    };

    // Returns none where a part would see nothing but padding.
    static std::vector<Part> PartsOf(const Convolution& c)
    {
        const int64_t rows = std::max<int64_t>(1, MostPositions(c.type) / c.outWidth);
        const int64_t xSize = c.channels * c.height * c.width;
        const int64_t ySize = c.outChannels * c.outHeight * c.outWidth;
        std::vector<Part> parts;
        if (rows >= c.outHeight) {
            const int64_t most = std::max<int64_t>(1, rows / c.outHeight);
            for (int64_t sample = 0; sample < c.samples; sample += most) {
                Part part{c, sample * xSize, sample * ySize};
                part.convolution.samples = std::min(most, c.samples - sample);
                parts.push_back(part);
            }
            return parts;
        }
        const int64_t pieces = (c.outHeight + rows - 1) / rows;
        const int64_t xRow = c.width * (c.channelsLast != 0 ? c.channels : 1);
        const int64_t yRow = c.outWidth * (c.channelsLast != 0 ? c.outChannels : 1);
        for (int64_t sample = 0; sample < c.samples; ++sample) {
            for (int64_t piece = 0; piece < pieces; ++piece) {
                const int64_t begin = c.outHeight * piece / pieces;
                const int64_t end = c.outHeight * (piece + 1) / pieces;
                const int64_t first = begin * c.strideHeight - c.padTop;
                const int64_t last = (end - 1) * c.strideHeight - c.padTop + (c.kernelHeight - 1) * c.dilationHeight;
                const int64_t from = std::max<int64_t>(0, first);
                const int64_t to = std::min(c.height, last + 1);
                if (from >= to) {
                    return {};
                }
                Part part{c, sample * xSize + from * xRow, sample * ySize + begin * yRow};
                part.convolution.samples = 1;
                part.convolution.height = to - from;
                part.convolution.outHeight = end - begin;
                part.convolution.padTop = from - first;
                part.convolution.padBottom = last + 1 - to;
                parts.push_back(part);
            }
        }
        return parts;
    }

    Kind* FindKind(const Convolution& part) const
    {
        for (const auto& kind : kinds_) {
            if (std::memcmp(&kind->convolution, &part, sizeof(part)) == 0) {
                return kind.get();
            }
        }
        return nullptr;
    }

    // Adds them up into the first one, and brings that to the caller.
    bool AddUp(char* weight, State& state)
    {
        constexpr int64_t PIECE = 4096;
        const int64_t elements = static_cast<int64_t>(sumBytes_ / sizeof(float));
        const int64_t pieces = (elements + PIECE - 1) / PIECE;
        auto* const sums = reinterpret_cast<float*>(state.memory + sums_);
        state.pool.ParallelFor(
            static_cast<int>(std::min<int64_t>(pieces, state.pool.ThreadNum())), [&](int index, int count) {
                for (int64_t piece = pieces * index / count; piece < pieces * (index + 1) / count; ++piece) {
                    const int64_t end = std::min(elements, (piece + 1) * PIECE);
                    for (size_t step = 1; step < parts_.size(); step *= 2) {
                        for (size_t i = 0; i + step < parts_.size(); i += 2 * step) {
                            float* const to = sums + static_cast<int64_t>(i) * elements;
                            const float* const from = sums + static_cast<int64_t>(i + step) * elements;
                            for (int64_t j = piece * PIECE; j < end; ++j) {
                                to[j] += from[j];
                            }
                        }
                    }
                }
            });
        if (!order_.Moves()) {
            std::memcpy(weight, sums, static_cast<size_t>(sumElements_) * sizeof(float));
        } else if (OneDnn::Functions().memorySetHandle(order_.Inner(), sums) != 0 || !order_.End(state)) {
            return false;
        }
        weight_.End(state);
        return true;
    }

    struct PlacedPart {
        const Kind* kind;
        int64_t x;
        int64_t y;
    };

    Elements x_, y_, weight_;
    Ordered order_;  // of the weight
    BiasSum bias_;
    int64_t elementBytes_ = 0;
    int64_t sumElements_ = 0;
    size_t sums_ = 0;  // in the state's memory, those of each part
    size_t sumBytes_ = 0;
    std::vector<std::unique_ptr<Kind>> kinds_;
    std::vector<PlacedPart> parts_;
};

}  // namespace

std::unique_ptr<Plan> MakeWeightPlan(const Convolution& c)
{
    auto plan = std::make_unique<WeightPlan>();
    return plan->Create(c) ? std::move(plan) : nullptr;
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
