/*!
 * Implements CANN's description of the chip.
 */
#ifndef MS_ASCEND_OPS_DEVICE_TILING_PLATFORM_ASCENDC_H
#define MS_ASCEND_OPS_DEVICE_TILING_PLATFORM_ASCENDC_H

#include <cstdint>

#include "interface/package.h"
#include "register/op_def_registry.h"

namespace platform_ascendc {

enum class CoreMemType { L0_A = 0, L0_B = 1, L0_C = 2, L1 = 3, L2 = 4, UB = 5, HBM = 6 };

class PlatformAscendC {
public:
    explicit PlatformAscendC(fe::PlatFormInfos* infos) : infos_(infos) {}
    uint32_t GetCoreNumAiv() const { return infos_->vectorCores; }
    uint32_t GetLibApiWorkSpaceSize() const { return ms_ascend_ops::LIBRARY_WORKSPACE_BYTES; }
    void GetCoreMemSize(const CoreMemType& type, uint64_t& size) const
    {
        size = type == CoreMemType::UB ? infos_->ubBytes : 0;
    }

private:
    fe::PlatFormInfos* infos_;
};

}  // namespace platform_ascendc

#endif  // MS_ASCEND_OPS_DEVICE_TILING_PLATFORM_ASCENDC_H
