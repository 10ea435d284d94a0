/*!
 * Checks the calls of a Matmul object, and the instructions that its cube core makes of them against their limits.
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
