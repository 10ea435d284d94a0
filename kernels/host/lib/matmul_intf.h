/*!
 * This is Ascend C's interface of matrix products: kernels include this name, as they do with CANN.
 */
#ifndef ASCENDC_HOST_LIB_MATMUL_INTF_H
#define ASCENDC_HOST_LIB_MATMUL_INTF_H

#include "api/matmul.h"
#include "kernel_operator.h"

#endif  // ASCENDC_HOST_LIB_MATMUL_INTF_H
