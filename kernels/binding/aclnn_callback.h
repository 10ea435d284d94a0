/*!
 * What MindSpore compiles by itself for a custom operator on an NPU, from its registration, where the library does not
 * have it: the call of the operator's aclnnXGetWorkspaceSize with the types of its parameters. The generated code
 * exports one for each operator, so that an NPU's first call needs no compiler.
 */
#ifndef MS_ASCEND_OPS_BINDING_ACLNN_CALLBACK_H
#define MS_ASCEND_OPS_BINDING_ACLNN_CALLBACK_H

#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

namespace ms_ascend_ops::binding {

// MindSpore passes tensors, and of attributes where their value is.
template <typename T>
T AclnnArgument(void* input)
{
    if constexpr (std::is_pointer_v<T>) {
        return input;
    } else {
        return *static_cast<T*>(input);
    }
}

template <typename... Inputs>
struct AclnnCall {
    const std::vector<void*>& inputs;
    const std::vector<void*>& outputs;
    uint64_t* workspaceBytes;
    void** executor;

    template <size_t... I, size_t... O>
    int operator()(void* function, std::index_sequence<I...>, std::index_sequence<O...>) const
    {
        void* const* const data = outputs.data();
        using Function = int (*)(Inputs..., std::decay_t<decltype(data[O])>..., uint64_t*, void**);
        return reinterpret_cast<Function>(function)(AclnnArgument<Inputs>(inputs[I])..., data[O]..., workspaceBytes,
                                                    executor);
    }
};

constexpr int ACLNN_WRONG_COUNT = 161002;  // ACLNN_ERR_PARAM_INVALID

// Calls `function` with inputs (void*: a tensor; others: attributes) and `OutputCount` outputs.
template <size_t OutputCount, typename... Inputs>
int CallAclnn(void* function, const std::vector<void*>& inputs, const std::vector<void*>& outputs,
              uint64_t* workspaceBytes, void** executor)
{
    if (inputs.size() != sizeof...(Inputs) || outputs.size() != OutputCount) {
        return ACLNN_WRONG_COUNT;
    }
    const AclnnCall<Inputs...> call{inputs, outputs, workspaceBytes, executor};
    return call(function, std::index_sequence_for<Inputs...>(), std::make_index_sequence<OutputCount>());
}

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_ACLNN_CALLBACK_H
