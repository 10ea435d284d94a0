/*!
 * Describes to oneDNN how the tensors of a convolution lie in memory.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_LAYOUT_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_LAYOUT_H

#include <cstdint>
#include <memory>
#include <type_traits>

#include "cube/onednn.h"
#include "cube/onednn_library.h"
#include "operators/convolution_choice.h"

namespace AscendC {
namespace host {
namespace convolutions {

using namespace onednn;

struct FreeDesc {
    void operator()(MemoryDesc desc) const { OneDnn::Functions().memoryDescDestroy(desc); }
};
using OwnedDesc = std::unique_ptr<std::remove_pointer_t<MemoryDesc>, FreeDesc>;

struct Shape {
    int ndims;
    Dims dims;
    int order[5];  // of dims in memory, the outermost first

    int64_t Size() const
    {
        int64_t size = 1;
        for (int i = 0; i < ndims; ++i) {
            size *= dims[i];
        }
        return size;
    }
};

// Describes a part of a tensor as it lies there.
OwnedDesc AsPartOf(const Shape& whole, const Shape& part, int type);
OwnedDesc AsItLies(const Shape& shape, int type);
OwnedDesc InFormat(const Shape& shape, Format format, int type);

Shape ImageShape(const Convolution& c, int64_t channels, int64_t height, int64_t width);
// The dims are groups, output channels, input channels, rows, columns; without groups the last four.
Shape WeightShape(const Convolution& c);
// Returns the bits of its dims of output channels.
int OutChannelDims(const Convolution& c);

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_LAYOUT_H
