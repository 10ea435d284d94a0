/*!
 * Implements the mask register. It says how many elements, or which lanes of each repeat, strided instructions without
 * a mask of their own take.
 */
#ifndef ASCENDC_HOST_API_MASK_H
#define ASCENDC_HOST_API_MASK_H

#include "api/tensor.h"
#include "observed/observe.h"

namespace AscendC {

inline void SetMaskNorm(HOST_WHERE_ONLY)
{
    HOST_OBSERVED(host::ObserveSetting(where, "SetMaskNorm", host::SettingCall::MASK_NORM));
    host::Core::Current().mask.mode = MaskMode::NORMAL;
}

inline void SetMaskCount(HOST_WHERE_ONLY)
{
    HOST_OBSERVED(host::ObserveSetting(where, "SetMaskCount", host::SettingCall::MASK_COUNT));
    host::Core::Current().mask.mode = MaskMode::COUNTER;
}

// Counter mode takes maskLow elements, normal mode the lanes from 0 on that the two words name.
template <typename T, MaskMode MODE = MaskMode::NORMAL>
void SetVectorMask(const uint64_t maskHigh, const uint64_t maskLow HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveSetting(where, "SetVectorMask", host::SettingCall::VECTOR_MASK, host::DtypeOf<T>(),
                                       maskHigh, maskLow, MODE == MaskMode::COUNTER));
    host::Core::Current().mask.count =
        MODE == MaskMode::COUNTER
            ? static_cast<uint32_t>(maskLow)
            : static_cast<uint32_t>(__builtin_popcountll(maskHigh) + __builtin_popcountll(maskLow));
}

template <typename T, MaskMode MODE = MaskMode::NORMAL>
void SetVectorMask(int32_t len HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveSetting(where, "SetVectorMask", host::SettingCall::VECTOR_MASK, host::DtypeOf<T>(), 0,
                                       static_cast<uint64_t>(len), MODE == MaskMode::COUNTER));
    host::Core::Current().mask.count = static_cast<uint32_t>(len);
}

inline void ResetMask(HOST_WHERE_ONLY)
{
    HOST_OBSERVED(host::ObserveSetting(where, "ResetMask", host::SettingCall::RESET_MASK));
    host::Core::Current().mask.count = ONE_REPEAT_BYTE_SIZE / 2;
}

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_MASK_H
