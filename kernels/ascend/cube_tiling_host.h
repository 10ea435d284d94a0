/*!
 * Lets CANN's tiling classes tile a Matmul object.
 */
#ifndef MS_ASCEND_OPS_ASCEND_CUBE_TILING_HOST_H
#define MS_ASCEND_OPS_ASCEND_CUBE_TILING_HOST_H

#include <stdexcept>

#include "primitives/cube_tiling.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

namespace ms_ascend_ops {
namespace cann {

inline matmul_tiling::DataType CubeDataType(DataType type)
{
    switch (type) {
        case DataType::FLOAT16:
            return matmul_tiling::DataType::DT_FLOAT16;
        case DataType::BFLOAT16:
            return matmul_tiling::DataType::DT_BFLOAT16;
        case DataType::INT8:
            return matmul_tiling::DataType::DT_INT8;
        case DataType::INT32:
            return matmul_tiling::DataType::DT_INT32;
        default:
            return matmul_tiling::DataType::DT_FLOAT;
    }
}

constexpr int32_t MULTI_DATA_LOAD = 1;  // as MatmulObject of primitives/products.h has it

constexpr int32_t CHOICE_OF_CANN = -1;  // all that SetFixSplit documents for baseK

// Sets a bias of floats in global memory.
inline int32_t SetBias(matmul_tiling::MatmulApiTiling& api, const CubeTiling& planned)
{
    const bool typed =
        planned.isBias == 0 || api.SetBiasType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND,
                                               matmul_tiling::DataType::DT_FLOAT) != -1;
    return typed ? api.SetBias(planned.isBias != 0) : -1;
}

// `planned` says which product it is and in which base blocks of its result; their depth, and how L1 is used, is CANN's
// choice.
template <typename CONTEXT>
void ConvertCubeTiling(CONTEXT* context, const CubeTiling& planned, optiling::TCubeTiling& tiling)
{
    const platform_ascendc::PlatformAscendC ascend(context->GetPlatformInfo());
    matmul_tiling::MatmulApiTiling api(ascend);
    api.SetMatmulConfigParams(MULTI_DATA_LOAD);
    const auto memory = matmul_tiling::TPosition::GM;
    const auto format = matmul_tiling::CubeFormat::ND;
    const bool good = api.SetAType(memory, format, CubeDataType(planned.type), planned.transposeA != 0) != -1 &&
                      api.SetBType(memory, format, CubeDataType(planned.type), planned.transposeB != 0) != -1 &&
                      api.SetCType(memory, format, CubeDataType(planned.resultType)) != -1 &&
                      api.SetShape(planned.singleCoreM, planned.singleCoreN, planned.singleCoreK) != -1 &&
                      api.SetOrgShape(planned.M, planned.N, planned.Ka, planned.Kb) != -1 &&
                      SetBias(api, planned) != -1 && api.SetBufferSpace(-1, -1, -1) != -1 &&
                      api.SetFixSplit(planned.baseM, planned.baseN, CHOICE_OF_CANN) != -1 &&
                      api.GetTiling(tiling) != -1;
    if (!good) {
        throw std::invalid_argument("CANN has no tiling for a product of " + std::to_string(planned.singleCoreM) +
                                    " x " + std::to_string(planned.singleCoreN) + " x " +
                                    std::to_string(planned.singleCoreK));
    }
}

}  // namespace cann
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_ASCEND_CUBE_TILING_HOST_H
