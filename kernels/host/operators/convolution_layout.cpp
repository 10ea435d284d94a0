#include "operators/convolution_layout.h"

#include <algorithm>

namespace AscendC {
namespace host {
namespace convolutions {
namespace {

constexpr int CHANNELS_FIRST[] = {0, 1, 2, 3};
constexpr int CHANNELS_LAST[] = {0, 2, 3, 1};

}  // namespace

OwnedDesc AsPartOf(const Shape& whole, const Shape& part, int type)
{
    Dims strides = {};
    int64_t stride = 1;
    for (int i = whole.ndims - 1; i >= 0; --i) {
        strides[whole.order[i]] = stride;
        // The stride of an outermost dim of one element counts for nothing, and primitives want a dense one.
        stride *= (i == 1 && part.dims[whole.order[0]] == 1 ? part : whole).dims[whole.order[i]];
    }
    MemoryDesc desc = nullptr;
    OneDnn::Functions().memoryDescCreate(&desc, part.ndims, part.dims, type, strides);
    return OwnedDesc(desc);
}

OwnedDesc AsItLies(const Shape& shape, int type)
{
    return AsPartOf(shape, shape, type);
}

OwnedDesc InFormat(const Shape& shape, Format format, int type)
{
    if (format == Format::FIRST || format == Format::LAST) {
        Shape plain = shape;
        std::copy_n(format == Format::FIRST ? CHANNELS_FIRST : CHANNELS_LAST, 4, plain.order);
        return AsItLies(plain, type);
    }
    const int blocks = OneDnn::Get()->BlockOfChannels() == 16 ? TAG_BLOCKS_OF_16 : TAG_BLOCKS_OF_8;
    MemoryDesc desc = nullptr;
    OneDnn::Functions().memoryDescCreateWithTag(&desc, shape.ndims, shape.dims, type,
                                                format == Format::ANY ? TAG_ANY : blocks);
    return OwnedDesc(desc);
}

Shape ImageShape(const Convolution& c, int64_t channels, int64_t height, int64_t width)
{
    Shape shape{4, {c.samples, channels, height, width}, {}};
    std::copy_n(c.channelsLast != 0 ? CHANNELS_LAST : CHANNELS_FIRST, 4, shape.order);
    return shape;
}

Shape WeightShape(const Convolution& c)
{
    Shape shape{
        5, {c.groups, c.outChannels / c.groups, c.channels / c.groups, c.kernelHeight, c.kernelWidth}, {0, 1, 2, 3, 4}};
    if (c.channelsLast != 0) {
        std::rotate(shape.order + 2, shape.order + 3, shape.order + 5);
    }
    if (c.weightTransposed != 0) {
        std::swap(*std::find(shape.order, shape.order + 5, 1), *std::find(shape.order, shape.order + 5, 2));
    }
    if (c.groups == 1) {
        shape.ndims = 4;
        std::copy_n(shape.dims + 1, 4, shape.dims);
        std::transform(shape.order + 1, shape.order + 5, shape.order, [](int dim) { return dim - 1; });
    }
    return shape;
}

int OutChannelDims(const Convolution& c)
{
    return c.groups == 1 ? 1 : 3;
}

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC
