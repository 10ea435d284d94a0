/*!
 * Includes vectors of the machine's width and all operations on them, for vector_unit.cpp only.
 */
#ifndef ASCENDC_HOST_SIMD_SIMD_H
#define ASCENDC_HOST_SIMD_SIMD_H

#include "simd/functions.h"
#include "simd/halves.h"
#include "simd/loads.h"
#include "simd/vectors.h"

#endif  // ASCENDC_HOST_SIMD_SIMD_H
