#include "operators/convolution_plan.h"

#include <utility>

#include "operators/convolution_finish.h"
#include "operators/convolution_norm.h"
#include "operators/convolution_primitive.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

// Makes y, or the gradient of x. Where one of its parts cannot be made, the kernel answers.
class ImagePlan final : public Plan {
public:
    bool Create(const Convolution& c)
    {
        const Chosen chosen = FirstAhead(c, c);
        if (chosen.desc == nullptr || !primitive_.Create(chosen.desc)) {
            return false;
        }
        isX_ = c.result == ConvolutionResult::DX;
        const Shape x = ImageShape(c, c.channels, c.height, c.width);
        const Shape y = ImageShape(c, c.outChannels, c.outHeight, c.outWidth);
        const Shape bias{1, {c.outChannels}, {0}};
        hasBias_ = HasBias(c, chosen.type);
        scalesWeight_ = ScalesWeight(c, chosen.type);
        isFinished_ = Finish::IsNeeded(c, chosen.type);
        if (isFinished_) {
            finish_.Create(c, bytes);
        }
        if (c.hasNorm != 0 && !norm_.Create(c, bytes)) {
            return false;
        }
        name = "oneDNN " + NameOf(chosen.desc);
        return x_.Create(x, c.type, chosen.type, WantedBy(chosen.desc, QUERY_SRC + (isX_ ? QUERY_DIFF : 0)), isX_,
                         bytes) &&
               weight_.Create(WeightShape(c), c.type, chosen.type, WantedBy(chosen.desc, QUERY_WEIGHTS), false, bytes,
                              scalesWeight_ ? OutChannelDims(c) : 0) &&
               y_.Create(y, c.type, TypeOfY(c, chosen.type), WantedBy(chosen.desc, QUERY_DST + (isX_ ? QUERY_DIFF : 0)),
                         !isX_, bytes) &&
               (!hasBias_ || scalesWeight_ ||
                bias_.Create(bias, c.biasType, F32, AsItLies(bias, F32).get(), false, bytes));
    }

    bool Run(const ConvolutionTensors& tensors, State& state) override
    {
        const int diff = isX_ ? ARGUMENT_DIFF : 0;
        const ExecArgument arguments[] = {{ARGUMENT_SRC + diff, x_.order.Inner()},
                                          {ARGUMENT_WEIGHTS, weight_.order.Inner()},
                                          {ARGUMENT_DST + diff, y_.order.Inner()},
                                          {ARGUMENT_BIAS, scalesWeight_ ? norm_.Offsets() : bias_.order.Inner()}};
        if (norm_.IsGiven()) {
            norm_.Begin(state, tensors);
        }
        if (!x_.Begin(state, tensors.x) ||
            !weight_.Begin(state, tensors.weight, scalesWeight_ ? norm_.Factors() : nullptr) ||
            !y_.Begin(state, tensors.y) || (hasBias_ && !scalesWeight_ && !bias_.Begin(state, tensors.bias)) ||
            !primitive_.Run(state, arguments, hasBias_ ? 4 : 3) || !x_.order.End(state) || !y_.order.End(state)) {
            return false;
        }
        x_.elements.End(state);
        if (isFinished_) {
            finish_.Run(state, y_.elements.Plain(), tensors, norm_);
        } else {
            y_.elements.End(state);
        }
        return true;
    }

private:
    struct Operand {
        Elements elements;
        Ordered order;

        bool Create(const Shape& shape, DataType type, int primitiveType, MemoryDesc wanted, bool isResult,
                    size_t& bytes, int scaledDims = 0)
        {
            elements.Create(shape.Size(), type, primitiveType, isResult, bytes);
            return order.Create(AsItLies(shape, primitiveType).get(), wanted, isResult, bytes, scaledDims);
        }
        bool Begin(State& state, void* data, Memory factors = nullptr)
        {
            return order.Begin(state, elements.Begin(state, data), factors);
        }
    };

    bool isX_ = false;
    bool hasBias_ = false;
    bool isFinished_ = false;
    bool scalesWeight_ = false;
    Finish finish_;
    ChannelNorm norm_;
    Primitive primitive_;
    Operand x_, weight_, y_, bias_;
};

}  // namespace

std::unique_ptr<Plan> MakeImagePlan(const Convolution& c)
{
    auto plan = std::make_unique<ImagePlan>();
    return plan->Create(c) ? std::move(plan) : nullptr;
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
