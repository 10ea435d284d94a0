/*!
 * Kernels with products of matrices share their Matmul objects, tensors in a core's part of the workspace, and the
 * order of tasks of unequal length.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_PRODUCTS_H
#define MS_ASCEND_OPS_PRIMITIVES_PRODUCTS_H

#include "kernel_operator.h"
#include "lib/matmul_intf.h"

namespace ms_ascend_ops {

// Several base blocks come to L1 in one copy (op_host plans for the same): with one a copy, loading takes longer than
// multiplying. Rows that lie 65,535 elements apart or more come one by one (intrinsicsCheck): the copy of several takes
// a stride of 16 bits, and CANN hands it what is left of a larger one.
inline constexpr MatmulConfig PRODUCT_CONFIG = GetMDLConfig(true);

// Describes a matrix in global memory, which may be read as its transpose.
template <typename T, bool TRANSPOSED = false>
using GmMatrix = matmul::MatmulType<AscendC::TPosition::GM, CubeFormat::ND, T, TRANSPOSED>;

template <class A, class B, class C, class BIAS = C>
using MatmulObject = matmul::Matmul<A, B, C, BIAS, PRODUCT_CONFIG>;

// Lays tensors out in this core's part of the workspace, one behind the other.
class CoreWorkspace {
public:
    __aicore__ inline CoreWorkspace(GM_ADDR workspace, uint64_t bytesPerCore)
        : next_(workspace + bytesPerCore * AscendC::GetBlockIdx())
    {}

    template <typename T>
    __aicore__ inline void Take(AscendC::GlobalTensor<T>& tensor, uint64_t elements)
    {
        TakeBytes(tensor, elements, elements * sizeof(T));
    }
    // The next tensor is `bytes` behind this one.
    template <typename T>
    __aicore__ inline void TakeBytes(AscendC::GlobalTensor<T>& tensor, uint64_t elements, uint64_t bytes)
    {
        tensor.SetGlobalBuffer(reinterpret_cast<__gm__ T*>(next_), elements);
        next_ += bytes;
    }

private:
    GM_ADDR next_;
};

// Returns the task of a core in round `round`. Tasks get longer along a sequence that is causal, and cores take the
// same place in it round after round if their number divides it: so every second round goes backwards.
__aicore__ inline uint64_t DealtTask(uint64_t round, uint64_t core, uint64_t cores)
{
    return round * cores + (round % 2 == 0 ? core : cores - 1 - core);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_PRODUCTS_H
