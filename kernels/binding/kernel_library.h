/*!
 * A function of tensors calls this kernel library: the one that this module is linked with, or another version of it,
 * opened by its path.
 */
#ifndef MS_ASCEND_OPS_BINDING_KERNEL_LIBRARY_H
#define MS_ASCEND_OPS_BINDING_KERNEL_LIBRARY_H

#include "binding/c_api.h"

namespace ms_ascend_ops::binding {

struct KernelLibrary {
    decltype(&MsAscendOpsVersion) version = &MsAscendOpsVersion;
    decltype(&MsAscendOpsPath) path = &MsAscendOpsPath;
    decltype(&MsAscendOpsSignatures) signatures = &MsAscendOpsSignatures;
    decltype(&MsAscendOpsSetThreadNum) setThreadNum = &MsAscendOpsSetThreadNum;
    decltype(&MsAscendOpsSetThreadNumOfCaller) setThreadNumOfCaller = &MsAscendOpsSetThreadNumOfCaller;
    decltype(&MsAscendOpsSetParallelForOfCaller) setParallelForOfCaller = &MsAscendOpsSetParallelForOfCaller;
    decltype(&MsAscendOpsNextLoop) nextLoop = &MsAscendOpsNextLoop;
    decltype(&MsAscendOpsSetLoop) setLoop = &MsAscendOpsSetLoop;
    decltype(&MsAscendOpsPendingLoops) pendingLoops = &MsAscendOpsPendingLoops;
    decltype(&MsAscendOpsStopLoops) stopLoops = &MsAscendOpsStopLoops;
    decltype(&MsAscendOpsSetCounting) setCounting = &MsAscendOpsSetCounting;
    decltype(&MsAscendOpsCountBounds) countBounds = &MsAscendOpsCountBounds;
    decltype(&MsAscendOpsVisitCounts) visitCounts = &MsAscendOpsVisitCounts;
    decltype(&MsAscendOpsPrepare) prepare = &MsAscendOpsPrepare;
    decltype(&MsAscendOpsRun) run = &MsAscendOpsRun;
    decltype(&MsAscendOpsFreePrepared) freePrepared = &MsAscendOpsFreePrepared;
};

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_KERNEL_LIBRARY_H
