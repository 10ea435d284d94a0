#include "executor.h"

#include <string>

namespace {

namespace dev = ms_ascend_ops::device;
using Side = aclOpExecutor::Side;

aclnnStatus NullPointer(const char* function)
{
    return dev::Refuse(ACLNN_ERR_INNER_NULLPTR,
                       std::string(function) + ": the executor or the tensor is a null pointer");
}

aclnnStatus SetAddress(const char* function, aclOpExecutor& executor, const std::vector<aclTensor*>& tensors,
                       size_t index, aclTensor* given, void* address)
{
    aclTensor* own = given == nullptr ? nullptr : executor.OwnOf(given);
    if (own == nullptr && index >= tensors.size()) {
        return dev::Refuse(ACLNN_ERR_PARAM_INVALID, std::string(function) + ": the index must be below " +
                                                        std::to_string(tensors.size()) + ", got " +
                                                        std::to_string(index));
    }
    own = own == nullptr ? tensors[index] : own;
    if (own == nullptr) {
        return dev::Refuse(ACLNN_ERR_PARAM_INVALID, std::string(function) + ": tensor " + std::to_string(index) +
                                                        " was a null pointer when the executor was made");
    }
    if (given != nullptr) {
        given->data = address;
    }
    executor.SetAddress(*own, address);
    return ACLNN_SUCCESS;
}

aclnnStatus SetTensor(const char* function, aclOpExecutor* executor, Side side, size_t index, aclTensor* tensor,
                      void* address)
{
    return executor == nullptr || tensor == nullptr
               ? NullPointer(function)
               : SetAddress(function, *executor, executor->Tensors(side), index, tensor, address);
}

aclnnStatus SetListed(const char* function, aclOpExecutor* executor, Side side, size_t argument, size_t index,
                      aclTensorList* list, void* address)
{
    if (executor == nullptr || list == nullptr) {
        return NullPointer(function);
    }
    aclTensor* const given = index < list->tensors.size() ? list->tensors[index] : nullptr;
    return SetAddress(function, *executor, executor->List(side, argument), index, given, address);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor)
{
    if (executor == nullptr) {
        return NullPointer("aclSetAclOpExecutorRepeatable");
    }
    executor->repeatable = true;
    return ACLNN_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor)
{
    if (executor == nullptr) {
        return NullPointer("aclDestroyAclOpExecutor");
    }
    delete executor;
    return ACLNN_SUCCESS;
}

// Each has two equivalent names.
#define SET_TENSOR(NAME, OLD_NAME, SIDE)                                                             \
    aclnnStatus NAME(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr)     \
    {                                                                                                \
        return SetTensor(#NAME, executor, SIDE, index, tensor, addr);                                \
    }                                                                                                \
    aclnnStatus OLD_NAME(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) \
    {                                                                                                \
        return NAME(executor, index, tensor, addr);                                                  \
    }
#define SET_LISTED(NAME, OLD_NAME, SIDE)                                                                           \
    aclnnStatus NAME(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex, aclTensorList* list,     \
                     void* addr)                                                                                   \
    {                                                                                                              \
        return SetListed(#NAME, executor, SIDE, irIndex, relativeIndex, list, addr);                               \
    }                                                                                                              \
    aclnnStatus OLD_NAME(aclOpExecutor* executor, size_t irIndex, const size_t relativeIndex, aclTensorList* list, \
                         void* addr)                                                                               \
    {                                                                                                              \
        return NAME(executor, irIndex, relativeIndex, list, addr);                                                 \
    }
SET_TENSOR(aclSetInputTensorAddr, AclSetInputTensorAddr, Side::INPUTS)
SET_TENSOR(aclSetOutputTensorAddr, AclSetOutputTensorAddr, Side::OUTPUTS)
SET_TENSOR(aclSetTensorAddr, AclSetTensorAddr, Side::BOTH)
SET_LISTED(aclSetDynamicInputTensorAddr, AclSetDynamicInputTensorAddr, Side::INPUTS)
SET_LISTED(aclSetDynamicOutputTensorAddr, AclSetDynamicOutputTensorAddr, Side::OUTPUTS)
SET_LISTED(aclSetDynamicTensorAddr, AclSetDynamicTensorAddr, Side::BOTH)

}  // extern "C"
#pragma GCC visibility pop
