#include "operators/convolution_primitive.h"

#include <utility>

#include "operators/convolution_addends.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

Attributes WithActivation(ConvolutionActivation activation)
{
    constexpr int codes[] = {0, RELU, GELU_ERF, GELU_TANH, SWISH};
    if (activation == ConvolutionActivation::NONE) {
        return nullptr;
    }
    const auto& f = OneDnn::Functions();
    PostOps steps = nullptr;
    Attributes attributes = nullptr;
    f.postOpsCreate(&steps);
    const float alpha = activation == ConvolutionActivation::SILU ? 1.0f : 0.0f;
    f.postOpsAppendEltwise(steps, codes[static_cast<size_t>(activation)], alpha, 0.0f);
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

int TypeOfY(const Convolution& c, int type)
{
    return Addends::AreIn(c) ? F32 : type;
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
        const Attributes attributes = WithActivation(c.activation);
        f.convolutionCreate(&desc, OneDnn::Engine(), FORWARD_INFERENCE, CONVOLUTION_DIRECT, x.get(), weight,
                            c.hasBias != 0 ? bias.get() : nullptr, y.get(), strides, dilations, before, behind,
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
            if (type == F32 || bfloat16) {
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
