/*!
 * Returns the type of the vector unit's elements for a tensor of floats.
 */
#ifndef ASCENDC_HOST_OPERATORS_ELEMENT_TYPE_H
#define ASCENDC_HOST_OPERATORS_ELEMENT_TYPE_H

#include "interface/launch_config.h"
#include "ir/instruction.h"

namespace AscendC {
namespace host {

constexpr ElementType ElementOf(ms_ascend_ops::DataType type)
{
    using ms_ascend_ops::DataType;
    return type == DataType::FLOAT32   ? ElementType::FLOAT
           : type == DataType::FLOAT16 ? ElementType::HALF
                                       : ElementType::BFLOAT16;
}

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OPERATORS_ELEMENT_TYPE_H
