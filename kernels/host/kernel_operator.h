/*!
 * The Ascend C API of the host: kernels include this name, as they do with CANN.
 */
#ifndef ASCENDC_HOST_KERNEL_OPERATOR_H
#define ASCENDC_HOST_KERNEL_OPERATOR_H

#include "data_copy.h"
#include "pipe.h"
#include "tensor.h"
#include "transpose.h"
#include "types.h"
#include "vector.h"

#endif  // ASCENDC_HOST_KERNEL_OPERATOR_H
