#include "operators/convolution_choice.h"

#include <limits>

#include "cube/onednn.h"

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

constexpr int64_t FEW_CHANNELS = 4;  // a block of channels would be empty for the most part

// Counts multiplications and additions.
double OperationsOf(const Convolution& c)
{
    return 2.0 * static_cast<double>(c.samples * c.outChannels * c.outHeight * c.outWidth) *
           static_cast<double>(c.channels / c.groups * c.kernelHeight * c.kernelWidth);
}

}  // namespace

bool IsDepthwise(const Convolution& c)
{
    return c.groups == c.channels && c.groups == c.outChannels;
}

// Says how tensors lie in memory for the library's kernel, which moves them there and back: what was fastest of all
// formats, and another where the library has no kernel for that; none where the kernel is faster. NCHW with all that,
// one thread of a Zen 4, milliseconds: float32 held to AVX2, float32 and bfloat16 with AVX-512; the kernel in brackets.
//     2x64x56x56, 3x3:        y 4.3 4.9 2.3 (5.7 5.7 3.4), dx 4.3 4.2 2.2, dweight 5.2 4.7 2.9 (5.2 5.3 2.9)
//     2x128x28x28, stride 2:  y 2.4 2.3 1.1 (3.3 3.5 2.2), dx 2.6 2.2 1.2, dweight 2.7 2.4 2.1 (2.7 2.8 1.6)
//     2x256x28x28, 1x1:       y 1.8 1.8 1.0 (2.0 2.0 1.1), dx 2.0 1.8 1.0, dweight 2.2 2.0 1.2 (2.0 2.0 1.0)
//     depthwise, 96, 7x7:     y 0.9 0.8 1.1 (19 19 17), dx 1.0 0.9 1.2, dweight by loops 1.3 (9.3 12 12; 17 17 18)
//     32 groups, 3x3:         y 1.3 0.7 0.4 (8.4 8.5 8.6), dx 0.8 0.7 0.4, dweight 0.9 0.9 0.9 (7.0 7.6 6.1)
//     2x3x224x224, 7x7, 2:    y 4.7 4.7 3.2 (11 12 10), dx 8.6 8.1 5.8, dweight 7.0 5.3 3.5 (12 13 9.3)
std::vector<Choice> ChoicesOf(const Convolution& c)
{
    constexpr Choice any{Format::ANY, Format::ANY};
    constexpr Choice last{Format::LAST, Format::LAST};
    constexpr Choice blocks{Format::BLOCKS, Format::BLOCKS};
    constexpr Choice first{Format::FIRST, Format::ANY};
    const bool isAvx512 = OneDnn::Get()->BlockOfChannels() == 16;
    const bool isLast = c.channelsLast != 0;
    const bool isBfloat16 = c.type == DataType::BFLOAT16 && OneDnn::Get()->MultipliesBFloat16();
    const bool isY = c.result == ConvolutionResult::Y;
    const bool isWeight = c.result == ConvolutionResult::DWEIGHT;
    constexpr double LEAST_OPERATIONS = 1 << 22;  // of dweight: a tenth of a millisecond
    if (isWeight && c.groups == 1 && OperationsOf(c) < LEAST_OPERATIONS) {
        return {};
    }
    const bool isPointwise = c.kernelHeight * c.kernelWidth == 1;
    if (c.groups == 1 && c.channels <= FEW_CHANNELS) {
        return {isAvx512 && isLast && isY ? any : first};
    }
    if (IsDepthwise(c)) {
        if (isWeight) {
            return {isLast ? last : blocks};
        }
        return {isLast && (isAvx512 || !isY) ? last : blocks};
    }
    if (isWeight) {
        if (c.groups > 1 && isLast && isBfloat16) {
            return {last, any};
        }
        const bool isSlower = c.groups == 1 && (isPointwise || isBfloat16);
        return isSlower ? std::vector<Choice>() : std::vector{isLast && c.groups == 1 && isAvx512 ? last : any};
    }
    if (isLast) {
        return {last};
    }
    if (c.groups > 1) {
        return {blocks, any};
    }
    const bool hasStride = c.strideHeight * c.strideWidth > 1;
    if (isPointwise && !hasStride) {
        // A product of floats with an activation behind it takes many times as long (16 to 64 channels of 112 x 112:
        // 0.4 ms with a bias, 5 with ReLU, 9 with SiLU, 22 with GELU); this takes 0.4 to 0.8.
        if (c.activation != ConvolutionActivation::NONE && !isBfloat16) {
            return {blocks, first, any};
        }
        return {first, any};
    }
    constexpr int64_t FEW_POSITIONS = 1024;
    constexpr int64_t FEWER_POSITIONS = 512;
    if (isPointwise && isY && isAvx512) {  // "any" takes up to 2.8 times as long, by the order of the weight
        return {c.outHeight * c.outWidth < FEWER_POSITIONS ? first : blocks, any};
    }
    const bool isSmall = hasStride || c.outHeight * c.outWidth < FEW_POSITIONS;
    return {!isAvx512 || (isY && isBfloat16 && isSmall) ? blocks : any, any};
}

// For the gradient of a depthwise weight the library has a kernel of 3 columns at most ("jit_dw"), and else one that
// calculates 16 channels for each. Loops over channels (convolution_depthwise_gradient.cpp) are ahead of the latter.
// "ref", as in "jit_uni_ncsp:conv+ref:any", is a plain loop: the library knows no better for this CPU. Groups by
// matrices are the kernel's, too, and so are sums of dweight, which the kernel makes of shorter ones.
bool IsAhead(const Convolution& c, std::string_view implementation)
{
    if (IsDepthwise(c) && c.result == ConvolutionResult::DWEIGHT) {
        return implementation.find("dw") != std::string_view::npos;
    }
    const bool takesMatrices = c.groups == 1 && c.result != ConvolutionResult::DWEIGHT;
    return implementation.find("ref") == std::string_view::npos &&
           (takesMatrices || implementation.find("gemm") == std::string_view::npos);
}

int SharesOf(const Convolution& c)
{
    constexpr double OPERATIONS = 1 << 23;
    constexpr int MOST = 64;
    const double operations = OperationsOf(c) * (c.groups > 1 ? 2.0 : 1.0);  // groups take twice the time
    int shares = 1;
    while (2 * shares <= MOST && 2 * shares * OPERATIONS <= operations) {
        shares *= 2;
    }
    return shares;
}

int64_t MostPositions(DataType type)
{
    constexpr int64_t POSITIONS = 4096;
    return type == DataType::FLOAT32 ? POSITIONS : std::numeric_limits<int64_t>::max();
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
