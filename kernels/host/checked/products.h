/*!
 * Checks what is asked of a Matmul object, and what its cube core makes of it: the limits of the instructions.
 */
#ifndef ASCENDC_HOST_CHECKED_PRODUCTS_H
#define ASCENDC_HOST_CHECKED_PRODUCTS_H

#include "observed/observer.h"

namespace AscendC {
namespace host {

// Shapes, strides, base blocks, and the order of the object's calls.
void CheckProduct(const ProductEvent& event);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_PRODUCTS_H
