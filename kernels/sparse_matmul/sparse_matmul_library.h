/*!
 * Runs sparse_matmul by loops of the host instead of the kernel (host/operators/sparse_product.h).
 */
#ifndef MS_ASCEND_OPS_SPARSE_MATMUL_LIBRARY_H
#define MS_ASCEND_OPS_SPARSE_MATMUL_LIBRARY_H

#include "host/operators/sparse_product.h"
#include "sparse_matmul_params.h"

namespace ms_ascend_ops {

template <class PARAMS>
AscendC::host::SparsePattern PatternOf(const PARAMS& params, const void* rowEnds, const void* indices)
{
    const TensorDesc& dense = params.dense;
    return {dense.dtype,
            params.row_ends.dims[0],
            dense.dims[0],
            dense.dims[1],
            params.indices.dims[0],
            static_cast<const int32_t*>(rowEnds),
            static_cast<const int32_t*>(indices)};
}

// Says who answers.
inline std::string AnsweringLibrary(const SparseMatmulParams& /*params*/)
{
    return AscendC::host::SparseImplementation();
}

// Returns whether the host has answered.
inline bool RunInLibrary(const SparseMatmulParams& params, void* const* tensors)
{
    return AscendC::host::MultiplySparse({PatternOf(params, tensors[0], tensors[1]),
                                          static_cast<const char*>(tensors[2]), static_cast<const char*>(tensors[3]),
                                          static_cast<char*>(tensors[4])});
}

inline std::string AnsweringLibrary(const SparseMatmulGradParams& /*params*/)
{
    return AscendC::host::SparseImplementation();
}

inline bool RunInLibrary(const SparseMatmulGradParams& params, void* const* tensors)
{
    return AscendC::host::MultiplySampled({PatternOf(params, tensors[1], tensors[2]),
                                           static_cast<const char*>(tensors[0]), static_cast<const char*>(tensors[3]),
                                           static_cast<char*>(tensors[4])});
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_SPARSE_MATMUL_LIBRARY_H
