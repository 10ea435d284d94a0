// clang-format off
/*!
 * The settings of the emulated device, as environment variables. `python -m ms_ascend_ops emulate` sets them.
 *
 *   MS_ASCEND_EMULATED_DEVICES    how many devices there are (default: 1)
 *   MS_ASCEND_EMULATED_MEMORY     bytes of memory of each (default: half of the machine's, at most the chip's)
 *   MS_ASCEND_EMULATED_CHIP       "soc=Ascend910B2;unit=ascend910b;cube=24;vector=48;ub=196608;l1=524288;l0a=65536;
 *                                 l0b=65536;l0c=131072;l2=201326592;memory=68719476736" (that is the default, too; what
 *                                 is absent keeps its default)
 *   MS_ASCEND_EMULATED_KERNELS    the kernel library that device processes load (default: the installed one)
 *   MS_ASCEND_EMULATED_PYTHON     the Python that runs device processes (default: that of the program, else python3)
 *   MS_ASCEND_EMULATED_CHECK      1: find reads of device memory that nobody has written
 *   MS_ASCEND_EMULATED_TRACE      a file: predicted times of what streams did are written there, and
 *                                 aclrtEventElapsedTime tells predicted times
 *   MS_ASCEND_EMULATED_OPERATORS  a Python module whose `run(call: bytes)` computes what is no kernel of this library
 *                                 (default: ms_ascend_ops.device.operators)
 *   MS_ASCEND_EMULATED_LOG        1: print every error of the runtime when it is made
 */
// clang-format on
#ifndef MS_ASCEND_OPS_DEVICE_RUNTIME_SETTINGS_H
#define MS_ASCEND_OPS_DEVICE_RUNTIME_SETTINGS_H

#include <string>

#include "runtime_api.h"

namespace ms_ascend_ops {
namespace device {

struct Settings {
    uint32_t devices = 1;
    uint64_t memoryBytes = 0;
    std::string soc = "Ascend910B2";
    std::string computeUnit = "ascend910b";
    MsAscendDeviceChip chip;  // its texts are those above
    std::string package;      // the folder ms_ascend_ops, which this library was installed in
    std::string kernels;
    std::string python;
    bool checks = false;
    bool logs = false;
    std::string trace;
    std::string error;  // what is wrong with the variables
};

const Settings& TheSettings();

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_RUNTIME_SETTINGS_H
