/*!
 * The four functions MindSpore looks up in the library for an AOT custom operator F: F, FInit, FInferShape, FInferType.
 * The generated code exports them; each is one call of a function below.
 *
 * F and FInit report an error by their return value. The inference functions can only report one by an exception:
 * std::invalid_argument becomes Python's ValueError, with its message.
 */
#ifndef MS_ASCEND_OPS_BINDING_MINDSPORE_ENTRY_H
#define MS_ASCEND_OPS_BINDING_MINDSPORE_ENTRY_H

#include <cstdint>
#include <vector>

#include "binding/aot_extra.h"
#include "binding/op.h"

#define MS_ASCEND_OPS_EXPORT extern "C" __attribute__((visibility("default")))

namespace ms_ascend_ops::binding {

// Says how a node passes an optional input that is absent: on a CPU not at all, on an NPU as another tensor.
enum class Absent { LEFT_OUT, REPLACED };

int Run(const Op& op, int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes, void* extra);
int Init(const Op& op, mindspore::AotExtra* extra);
std::vector<std::vector<int64_t>> InferShape(const Op& op, Absent absent, int* ndims, int64_t** shapes,
                                             mindspore::AotExtra* extra);
std::vector<mindspore::TypeId> InferType(const Op& op, Absent absent, const std::vector<mindspore::TypeId>& types,
                                         mindspore::AotExtra* extra);

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_MINDSPORE_ENTRY_H
