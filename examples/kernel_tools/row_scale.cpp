/*!
 * Launches the versions of row_scale in an observed build of the host layer, for examples/kernel_tools.py.
 */
#include <cstring>

#include "observed/observer.h"
#include "row_scale_fast.h"
#include "row_scale_slow.h"
#include "row_scale_wrong.h"
#include "runtime/launch.h"

namespace {

template <class KERNEL>
void Launch(const ms_ascend_ops::LaunchConfig& config, const RowScaleTilingData& tiling, float* x, float* scale,
            float* y)
{
    AscendC::host::Launch(config, {}, AscendC::host::BytesOf(tiling), [&](GM_ADDR) {
        KERNEL().Run(reinterpret_cast<GM_ADDR>(x), reinterpret_cast<GM_ADDR>(scale), reinterpret_cast<GM_ADDR>(y),
                     tiling);
    });
}

}  // namespace

// version: "wrong", "slow" or "fast".
extern "C" __attribute__((visibility("default"))) int RowScale(const char* version, float* x, float* scale, float* y,
                                                               uint64_t rows, uint32_t cols)
{
    RowScaleTilingData tiling{};
    const ms_ascend_ops::LaunchConfig config =
        RowScaleTiling(rows, cols, AscendC::host::TheExecutor().Platform(), tiling);
    const uint64_t bytes = rows * cols * sizeof(float);
    using AscendC::host::Dtype;
    AscendC::host::DescribeLaunch("row_scale",
                                  {{"x", reinterpret_cast<const char*>(x), bytes, Dtype::FLOAT, false},
                                   {"scale", reinterpret_cast<const char*>(scale), rows * 4, Dtype::FLOAT, false},
                                   {"y", reinterpret_cast<const char*>(y), bytes, Dtype::FLOAT, true}});
    if (std::strcmp(version, "wrong") == 0) {
        Launch<RowScaleWrong>(config, tiling, x, scale, y);
    } else if (std::strcmp(version, "slow") == 0) {
        Launch<RowScaleSlow>(config, tiling, x, scale, y);
    } else {
        Launch<RowScaleFast>(config, tiling, x, scale, y);
    }
    return 0;
}
