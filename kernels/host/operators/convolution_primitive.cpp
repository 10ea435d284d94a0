#include "operators/convolution_primitive.h"

#include <utility>

#include "operators/convolution_finish.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

struct Activation {
    int code;
    float alpha;
    float beta;
};

// The order is that of ConvolutionActivation.
constexpr Activation ACTIVATIONS[] = {
    {0, 0.0f, 0.0f},     {RELU, 0.0f, 0.0f}, {GELU_ERF, 0.0f, 0.0f},          {GELU_TANH, 0.0f, 0.0f},
    {SWISH, 1.0f, 0.0f}, {CLIP, 0.0f, 6.0f}, {HARD_SWISH, 1.0f / 6.0f, 0.5f},
};

Attributes WithActivation(const Convolution& c, int type)
{
    if (c.activation == ConvolutionActivation::NONE || Finish::IsNeeded(c, type)) {
        return nullptr;
    }
    const auto& f = OneDnn::Functions();
    PostOps steps = nullptr;
    Attributes attributes = nullptr;
    f.postOpsCreate(&steps);
    const Activation& activation = ACTIVATIONS[static_cast<size_t>(c.activation)];
    f.postOpsAppendEltwise(steps, activation.code, activation.alpha, activation.beta);
    f.attributesCreate(&attributes);
    f.attributesSetPostOps(attributes, steps);
    f.postOpsDestroy(steps);
    return attributes;
}

}  // namespace

MemoryDesc WantedBy(const OwnedPrimitiveDesc& desc, int query)
{
    return OneDnn::Functions().primitiveDescQueryMemory(desc.get(), query, 0);
}

bool ScalesWeight(const Convolution& c, int type)
{
    return c.hasNorm != 0 && type == F32;
}

bool HasBias(const Convolution& c, int type)
{
    return c.result == ConvolutionResult::Y && (c.hasNorm != 0 ? ScalesWeight(c, type) : c.hasBias != 0);
}

int TypeOfY(const Convolution& c, int type)
{
    return Finish::IsNeeded(c, type) ? F32 : type;
}

OwnedPrimitiveDesc Describe(const Convolution& c, const Choice& choice, int type, MemoryDesc weight)
{
    const auto& f = OneDnn::Functions();
    const OwnedDesc x = InFormat(ImageShape(c, c.channels, c.height, c.width), choice.x, type);
    const OwnedDesc y = InFormat(ImageShape(c, c.outChannels, c.outHeight, c.outWidth), choice.y, TypeOfY(c, type));
    const int weightType = c.result == ConvolutionResult::DWEIGHT ? F32 : type;
    const OwnedDesc anyWeight = InFormat(WeightShape(c), Format::ANY, weightType);
    const OwnedDesc bias = AsItLies({1, {c.outChannels}, {0}}, F32);
    const Dims strides = {c.strideHeight, c.strideWidth};
    const Dims dilations = {c.dilationHeight - 1, c.dilationWidth - 1};
    const Dims before = {c.padTop, c.padLeft};
    const Dims behind = {c.padBottom, c.padRight};
    weight = weight == nullptr ? anyWeight.get() : weight;
    PrimitiveDesc desc = nullptr;
    if (c.result == ConvolutionResult::DX) {
        f.convolutionBackwardDataCreate(&desc, OneDnn::Engine(), CONVOLUTION_DIRECT, x.get(), weight, y.get(), strides,
                                        dilations, before, behind, nullptr, nullptr);
    } else if (c.result == ConvolutionResult::DWEIGHT) {
        f.convolutionBackwardWeightsCreate(&desc, OneDnn::Engine(), CONVOLUTION_DIRECT, x.get(), weight, nullptr,
                                           y.get(), strides, dilations, before, behind, nullptr, nullptr);
    } else {
        const Attributes attributes = WithActivation(c, type);
        f.convolutionCreate(&desc, OneDnn::Engine(), FORWARD_INFERENCE, CONVOLUTION_DIRECT, x.get(), weight,
                            HasBias(c, type) ? bias.get() : nullptr, y.get(), strides, dilations, before, behind,
                            attributes);
        if (attributes != nullptr) {
            f.attributesDestroy(attributes);
        }
    }
    return OwnedPrimitiveDesc(desc);
}

std::string NameOf(const OwnedPrimitiveDesc& desc)
{
    const char* implementation = "";
    OneDnn::Functions().primitiveDescQuery(desc.get(), QUERY_IMPLEMENTATION, 0, &implementation);
    return implementation;
}

Chosen FirstAhead(const Convolution& whole, const Convolution& part)
{
    const bool bfloat16 = whole.type == DataType::BFLOAT16 && OneDnn::Get()->MultipliesBFloat16();
    for (const Choice& choice : ChoicesOf(whole)) {
        for (const int type : {BF16, F32}) {
            if (type == F32 || (bfloat16 && (whole.hasNorm == 0 || Finish::Has(whole.activation)))) {
                OwnedPrimitiveDesc desc = Describe(part, choice, type);
                if (desc != nullptr && IsAhead(whole, NameOf(desc))) {
                    return {std::move(desc), choice, type};
                }
            }
        }
    }
    return {};
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
