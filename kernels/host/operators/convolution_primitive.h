/*!
 * Finds oneDNN's primitives for a convolution, and the first of them that is ahead of the kernel.
 */
#ifndef ASCENDC_HOST_OPERATORS_CONVOLUTION_PRIMITIVE_H
#define ASCENDC_HOST_OPERATORS_CONVOLUTION_PRIMITIVE_H

#include <memory>
#include <string>
#include <type_traits>

#include "operators/convolution_operand.h"

namespace AscendC {
namespace host {
namespace convolutions {

struct FreePrimitiveDesc {
    void operator()(PrimitiveDesc desc) const { OneDnn::Functions().primitiveDescDestroy(desc); }
};
using OwnedPrimitiveDesc = std::unique_ptr<std::remove_pointer_t<PrimitiveDesc>, FreePrimitiveDesc>;

MemoryDesc WantedBy(const OwnedPrimitiveDesc& desc, int query);

class Primitive {
public:
    Primitive() = default;
    Primitive(const Primitive&) = delete;
    ~Primitive()
    {
        if (handle_ != nullptr) {
            OneDnn::Functions().primitiveDestroy(handle_);
        }
    }

    bool Create(const OwnedPrimitiveDesc& desc)
    {
        return OneDnn::Functions().primitiveCreate(&handle_, desc.get()) == 0;
    }
    bool Run(const State& state, const ExecArgument* arguments, int count) const
    {
        return OneDnn::Functions().primitiveExecute(handle_, state.stream, count, arguments) == 0;
    }

private:
    PrimitiveHandle handle_ = nullptr;
};

// `weight` is null where the library chooses the order.
OwnedPrimitiveDesc Describe(const Convolution& c, const Choice& choice, int type, MemoryDesc weight = nullptr);
std::string NameOf(const OwnedPrimitiveDesc& desc);

// Returns true if a norm's factors are in the weight and its offsets are the bias. A weight of 16 bits would be rounded
// once more: there the sums are normalized, as floats. Post-operations would do it, but take up to ten times as long as
// the convolution.
bool ScalesWeight(const Convolution& c, int type);
bool HasBias(const Convolution& c, int type);
// Returns the type in which a primitive of `type` leaves y: floats where something is added to them.
int TypeOfY(const Convolution& c, int type);

// Finds the first choice for `whole` that is ahead of the kernel, for a part of it; or null.
struct Chosen {
    OwnedPrimitiveDesc desc;
    Choice choice;
    int type;
};
Chosen FirstAhead(const Convolution& whole, const Convolution& part);

}  // namespace convolutions
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_CONVOLUTION_PRIMITIVE_H
