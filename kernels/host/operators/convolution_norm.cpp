#include "operators/convolution_norm.h"

#include <cmath>

namespace AscendC {
namespace host {
namespace convolutions {

ChannelNorm::~ChannelNorm()
{
    for (const Memory memory : {factors_, offsets_}) {
        if (memory != nullptr) {
            OneDnn::Functions().memoryDestroy(memory);
        }
    }
}

bool ChannelNorm::Create(const Convolution& c, size_t& bytes)
{
    constexpr int64_t VECTORS = 7;  // the factors, the offsets, and the five that they are made of
    type_ = c.biasType;
    channels_ = c.outChannels;
    floats_ = bytes;
    bytes += Lines(static_cast<size_t>(VECTORS * channels_) * sizeof(float));
    const OwnedDesc vector = AsItLies({1, {c.outChannels}, {0}}, F32);
    const auto& f = OneDnn::Functions();
    return f.memoryCreate(&factors_, vector.get(), OneDnn::Engine(), nullptr) == 0 &&
           f.memoryCreate(&offsets_, vector.get(), OneDnn::Engine(), nullptr) == 0;
}

void ChannelNorm::Begin(State& state, const ConvolutionTensors& tensors) const
{
    auto* const factors = reinterpret_cast<float*>(state.memory + floats_);
    float* const offsets = factors + channels_;
    float* buffer = offsets;
    const auto floats = [&](const void* values) {
        buffer += channels_;
        return AsFloats(static_cast<const char*>(values), type_, channels_, buffer);
    };
    const float* const gamma = floats(tensors.norm.gamma);
    const float* const beta = floats(tensors.norm.beta);
    const float* const mean = floats(tensors.norm.mean);
    const float* const variance = floats(tensors.norm.variance);
    const float* const bias = tensors.bias == nullptr ? nullptr : floats(tensors.bias);
    for (int64_t i = 0; i < channels_; ++i) {
        factors[i] = gamma[i] / std::sqrt(variance[i] + tensors.norm.epsilon);
        offsets[i] = beta[i] - (bias == nullptr ? mean[i] : mean[i] - bias[i]) * factors[i];
    }
    OneDnn::Functions().memorySetHandle(factors_, factors);
    OneDnn::Functions().memorySetHandle(offsets_, offsets);
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
