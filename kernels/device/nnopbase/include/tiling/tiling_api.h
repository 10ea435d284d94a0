/*!
 * Implements CANN's tiling classes of products: they refuse what CANN documents as wrong, and take what they are given.
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
    int32_t SetAType(TPosition, CubeFormat, DataType type, bool = false)
    {
        bytes_ = type == DataType::DT_INT8 ? 1 : type == DataType::DT_FLOAT ? 4 : 2;
        return 0;
    }
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
    // The page of SetFixSplit says that baseK is -1, and that baseM and baseN are whole fractals.
    int32_t SetFixSplit(int32_t m, int32_t n, int32_t k)
    {
        tiling_.baseM = m;
        tiling_.baseN = n;
        return k == -1 && m > 0 && n > 0 && m % SIDE == 0 && n % SIDE == 0 ? 0 : -1;
    }
    // baseK: as much as two blocks of each operand leave room for in L0A and L0B.
    int64_t GetTiling(optiling::TCubeTiling& tiling)
    {
        const int32_t step = bytes_ == 1 ? 2 * SIDE : SIDE;
        const int32_t fit = L0_BYTES / 2 / bytes_ / (tiling_.baseM > tiling_.baseN ? tiling_.baseM : tiling_.baseN);
        const int32_t whole = (tiling_.singleCoreK + step - 1) / step * step;
        tiling_.baseK = whole < fit ? whole : fit / step * step;
        tiling = tiling_;
        const bool large = tiling_.baseM > (tiling_.singleCoreM + SIDE - 1) / SIDE * SIDE;
        const bool full = tiling_.baseM * tiling_.baseN > L0C_FLOATS;
        return tiling_.singleCoreM > 0 && tiling_.singleCoreN > 0 && tiling_.singleCoreK > 0 && !large && !full ? 0
                                                                                                                : -1;
    }

private:
    static constexpr int32_t SIDE = 16;
    static constexpr int32_t L0_BYTES = 64 * 1024;
    static constexpr int32_t L0C_FLOATS = 32 * 1024;
    TCubeTiling tiling_{};
    int32_t bytes_ = 4;
};

}  // namespace matmul_tiling

#endif  // MS_ASCEND_OPS_DEVICE_TILING_TILING_API_H
