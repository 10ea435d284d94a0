/*!
 * An executor is a call of an operator between the two functions of its aclnn interface.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_EXECUTOR_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_EXECUTOR_H

#include <cstddef>
#include <vector>

#include "meta.h"

// It lives until it has run, or if it is repeatable until aclDestroyAclOpExecutor.
struct aclOpExecutor {
    enum class Side { INPUTS, OUTPUTS, BOTH };

    aclOpExecutor() = default;
    aclOpExecutor(const aclOpExecutor&) = delete;
    virtual ~aclOpExecutor() = default;

    // Gives aclSetTensorAddr its own tensors, null for one that is absent. Those of a list count one by one.
    virtual std::vector<aclTensor*> Tensors(Side side) = 0;
    // The tensors of the argument that is a list.
    virtual std::vector<aclTensor*> List(Side side, size_t argument) = 0;
    // Its own tensor for one of the caller's, if it goes by that and not by numbers.
    virtual aclTensor* OwnOf(const aclTensor*) { return nullptr; }
    virtual void SetAddress(aclTensor& own, void* address) { own.data = address; }

    bool repeatable = false;
};

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_EXECUTOR_H
