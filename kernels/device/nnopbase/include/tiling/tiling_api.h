/*!
 * CANN's tiling classes of products: they take what they are given, and refuse sizes that are not positive.
 */
#ifndef MS_ASCEND_OPS_DEVICE_TILING_TILING_API_H
#define MS_ASCEND_OPS_DEVICE_TILING_TILING_API_H

#include <cstdint>

#include "tiling/cube_tiling.h"
#include "tiling/platform/platform_ascendc.h"

namespace matmul_tiling {

enum class TPosition { GM };
enum class CubeFormat { ND };
enum class DataType { DT_FLOAT, DT_FLOAT16, DT_BFLOAT16, DT_INT8, DT_INT32 };

class MatmulApiTiling {
public:
    explicit MatmulApiTiling(const platform_ascendc::PlatformAscendC&) {}
    int32_t SetAType(TPosition, CubeFormat, DataType, bool = false) { return 0; }
    int32_t SetBType(TPosition, CubeFormat, DataType, bool = false) { return 0; }
    int32_t SetCType(TPosition, CubeFormat, DataType) { return 0; }
    int32_t SetBiasType(TPosition, CubeFormat, DataType) { return 0; }
    int32_t SetShape(int32_t m, int32_t n, int32_t k)
    {
        tiling_.singleCoreM = m;
        tiling_.singleCoreN = n;
        tiling_.singleCoreK = k;
        return 0;
    }
    int32_t SetOrgShape(int32_t m, int32_t n, int32_t ka, int32_t kb)
    {
        tiling_.M = m;
        tiling_.N = n;
        tiling_.Ka = ka;
        tiling_.Kb = kb;
        return 0;
    }
    int32_t SetBias(bool isBias)
    {
        tiling_.isBias = isBias ? 1 : 0;
        return 0;
    }
    void SetMatmulConfigParams(int32_t = 1) {}
    int32_t SetBufferSpace(int32_t, int32_t, int32_t) { return 0; }
    int32_t SetFixSplit(int32_t m, int32_t n, int32_t k)
    {
        tiling_.baseM = m;
        tiling_.baseN = n;
        tiling_.baseK = k;
        return 0;
    }
    int64_t GetTiling(optiling::TCubeTiling& tiling)
    {
        tiling = tiling_;
        return tiling_.baseM > 0 && tiling_.baseN > 0 && tiling_.baseK > 0 ? 0 : -1;
    }

private:
    TCubeTiling tiling_{};
};

}  // namespace matmul_tiling

#endif  // MS_ASCEND_OPS_DEVICE_TILING_TILING_API_H
