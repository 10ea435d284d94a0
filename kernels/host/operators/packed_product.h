/*!
 * Multiplies rows of x with a weight in 8 or 4 bits, for the whole operator, by the vector unit
 * (simd/packed_products_unit.h): any number of rounded rows, or a few of floats. They answer in the place of the
 * kernel, in the fast build; the kernel is the reference.
 */
#ifndef ASCENDC_HOST_OPERATORS_PACKED_PRODUCT_H
#define ASCENDC_HOST_OPERATORS_PACKED_PRODUCT_H

#include <string>

#include "interface/launch_config.h"

namespace AscendC {
namespace host {

// These are the inputs of weight_quant_matmul, or of a gated pair.
struct PackedOperator {
    ms_ascend_ops::TensorDesc x;
    ms_ascend_ops::TensorDesc weight;
    ms_ascend_ops::TensorDesc scale;
    bool hasOffset;
    bool hasBias;
    uint32_t parts;       // 2: silu of the first half of the columns times the second
    uint32_t activation;  // its number in primitives/activations.h
    bool isRounded;       // x is rounded to integers of 8 bits
};

// Runs it on x, weight, scale, offset, bias and y. False: the kernel is to answer.
bool MultiplyPacked(const PackedOperator& op, void* const* tensors);
// Says what answers; empty: the kernel.
std::string PackedImplementation(const PackedOperator& op);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_PACKED_PRODUCT_H
