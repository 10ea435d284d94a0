/*!
 * A kernel as a function of MindSpore's tensors: the short road of a call in PyNative on a CPU. It takes the memory of
 * the tensors as it is and returns new tensors; nothing of MindSpore but the methods of its tensors is used, so no
 * header of MindSpore is either.
 */
#ifndef MS_ASCEND_OPS_BINDING_TENSOR_FUNCTION_H
#define MS_ASCEND_OPS_BINDING_TENSOR_FUNCTION_H

#include <pybind11/pybind11.h>

namespace ms_ascend_ops::binding {

void BindTensorFunction(pybind11::module_& module);

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_TENSOR_FUNCTION_H
