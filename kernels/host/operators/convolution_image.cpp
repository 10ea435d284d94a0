#include "operators/convolution_plan.h"

#include <utility>

#include "operators/convolution_addends.h"
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
        hasBias_ = !isX_ && c.hasBias != 0;
        hasAddends_ = Addends::AreIn(c);
        if (hasAddends_) {
            addends_.Create(c, bytes);
        }
        name = "oneDNN " + NameOf(chosen.desc);
        return x_.Create(x, c.type, chosen.type, WantedBy(chosen.desc, QUERY_SRC + (isX_ ? QUERY_DIFF : 0)), isX_,
                         bytes) &&
               weight_.Create(WeightShape(c), c.type, chosen.type, WantedBy(chosen.desc, QUERY_WEIGHTS), false,
                              bytes) &&
               y_.Create(y, c.type, TypeOfY(c, chosen.type), WantedBy(chosen.desc, QUERY_DST + (isX_ ? QUERY_DIFF : 0)),
                         !isX_, bytes) &&
               (!hasBias_ || bias_.Create(bias, c.biasType, F32, AsItLies(bias, F32).get(), false, bytes));
    }

    bool Run(const ConvolutionTensors& tensors, State& state) override
    {
        const int diff = isX_ ? ARGUMENT_DIFF : 0;
        const ExecArgument arguments[] = {{ARGUMENT_SRC + diff, x_.order.Inner()},
                                          {ARGUMENT_WEIGHTS, weight_.order.Inner()},
                                          {ARGUMENT_DST + diff, y_.order.Inner()},
                                          {ARGUMENT_BIAS, bias_.order.Inner()}};
        if (!x_.Begin(state, tensors.x) || !weight_.Begin(state, tensors.weight) || !y_.Begin(state, tensors.y) ||
            (hasBias_ && !bias_.Begin(state, tensors.bias)) || !primitive_.Run(state, arguments, hasBias_ ? 4 : 3) ||
            !x_.order.End(state) || !y_.order.End(state)) {
            return false;
        }
        x_.elements.End(state);
        if (hasAddends_) {
            addends_.Run(state, y_.elements.Plain(), tensors);
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
                    size_t& bytes)
        {
            elements.Create(shape.Size(), type, primitiveType, isResult, bytes);
            return order.Create(AsItLies(shape, primitiveType).get(), wanted, isResult, bytes);
        }
        bool Begin(State& state, void* data) { return order.Begin(state, elements.Begin(state, data)); }
    };

    bool isX_ = false;
    bool hasBias_ = false;
    bool hasAddends_ = false;
    Addends addends_;
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
