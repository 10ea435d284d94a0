/*!
 * Whether an observed build carries out what it reports. The traced build need not: it only counts.
 */
#ifndef ASCENDC_HOST_OBSERVED_EXECUTION_H
#define ASCENDC_HOST_OBSERVED_EXECUTION_H

namespace AscendC {
namespace host {

bool Executes();
void SetExecutes(bool executes);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OBSERVED_EXECUTION_H
