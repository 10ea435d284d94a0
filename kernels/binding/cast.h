/*!
 * Casts tensors of floats to another type: a super kernel has such a step between operators of different types.
 */
#ifndef MS_ASCEND_OPS_BINDING_CAST_H
#define MS_ASCEND_OPS_BINDING_CAST_H

#include <cstdint>
#include <string>

#include "interface/launch_config.h"

namespace ms_ascend_ops::binding {

// Returns true for the three types that a cast takes and gives.
bool IsFloat(const std::string& dtype);

// `count` numbers, rounded to the nearest, ties to even; too large ones become Inf. Both types are float16, bfloat16 or
// float32, and the two tensors do not overlap.
void CastFloats(const void* source, DataType from, void* target, DataType to, int64_t count);

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_CAST_H
