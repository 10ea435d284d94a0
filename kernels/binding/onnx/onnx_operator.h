/*!
 * Describes one operator to ONNX Runtime. kernels/codegen/onnx.py makes the list of them from the definitions.
 */
#ifndef MS_ASCEND_OPS_BINDING_ONNX_ONNX_OPERATOR_H
#define MS_ASCEND_OPS_BINDING_ONNX_ONNX_OPERATOR_H

#include <cstddef>
#include <vector>

#include "binding/signature.h"

namespace ms_ascend_ops::binding {

// The function that says which inputs may share their memory with an output has no argument that names the operator:
// so there is one for each set of inputs. The input INPUTS[i] is changed in place and is output FIRST + i.
template <int FIRST, int... INPUTS>
size_t MayInplace(int** inputs, int** outputs)
{
    constexpr int places[] = {INPUTS...};
    constexpr size_t count = sizeof...(INPUTS);
    *inputs = new int[count];
    *outputs = new int[count];
    for (size_t i = 0; i < count; ++i) {
        (*inputs)[i] = places[i];
        (*outputs)[i] = FIRST + static_cast<int>(i);
    }
    return count;
}

struct OnnxOperator {
    SignatureDef signature;
    int version;                 // of the domain, from which on the operator means this
    std::vector<size_t> writes;  // inputs that are changed in place; outputs of the node, behind the others
    size_t (*mayInplace)(int** inputs, int** outputs);  // null: none
};

std::vector<OnnxOperator> OnnxOperators();

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_ONNX_ONNX_OPERATOR_H
