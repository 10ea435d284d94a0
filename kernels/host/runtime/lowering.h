/*!
 * Lowers a program: its groups and fused loops become the schedule that cores run.
 */
#ifndef ASCENDC_HOST_RUNTIME_LOWERING_H
#define ASCENDC_HOST_RUNTIME_LOWERING_H

#include "passes/scheduler.h"
#include "runtime/schedule.h"

namespace AscendC {
namespace host {

void Lower(FusedProgram&& program, Schedule& schedule);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_RUNTIME_LOWERING_H
