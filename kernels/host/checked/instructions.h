/*!
 * Checks the limits of vector instructions on Atlas A2.
 */
#ifndef ASCENDC_HOST_CHECKED_INSTRUCTIONS_H
#define ASCENDC_HOST_CHECKED_INSTRUCTIONS_H

#include "observed/observer.h"

namespace AscendC {
namespace host {

// Checks data types, alignment, repeats, mask, strides, and overlap of source and destination.
void CheckInstruction(const VectorEvent& event);

// Each element of the destination comes from the same element of every source.
bool IsElementwise(const VectorEvent& event);

// Keeps the mask register as the chip would have it. Calls with a mask of their own and calls on the first n elements
// change it, which the host layer does not do.
class MaskRegister {
public:
    void Set(const SettingEvent& event);
    void Vector(const VectorEvent& event);
    bool IsCounter() const { return counter_; }

private:
    bool counter_ = false;
    bool known_ = false;  // the register holds what SetVectorMask or ResetMask gave it
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_INSTRUCTIONS_H
