/*!
 * This is the Ascend C API of the host: kernels include this name, as they do with CANN.
 */
#ifndef ASCENDC_HOST_KERNEL_OPERATOR_H
#define ASCENDC_HOST_KERNEL_OPERATOR_H

#include "api/bitwise.h"
#include "api/data_copy.h"
#include "api/mask.h"
#include "api/pipe.h"
#include "api/rearrange.h"
#include "api/tensor.h"
#include "api/transpose.h"
#include "api/vector.h"
#include "base/types.h"

#endif  // ASCENDC_HOST_KERNEL_OPERATOR_H
