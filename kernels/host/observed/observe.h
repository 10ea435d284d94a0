/*!
 * The API headers tell by these what a kernel does.
 *
 * An observed build (ASCENDC_HOST_OBSERVED) runs a kernel serially and reports every API call, with its place in the
 * source, to the build's Observer (observed/observer.h). The macros below are the only trace of that in the API
 * headers; in the fast build they expand to nothing, so its code is what it would be without them.
 *
 * A new API function takes HOST_WHERE after its last parameter, and calls its hook before it does anything:
 *
 *     void Add(const LocalTensor<T>& dst, ..., const int32_t& count HOST_WHERE)
 *     {
 *         HOST_OBSERVED(host::ObserveVector(where, "Add", host::First(count), dst, src0, src1));
 *
 * Hooks and operands (Strided, PerRepeat, Elements): observed/hooks.h. Arguments of a call: observed/calls.h.
 */
#ifndef ASCENDC_HOST_OBSERVED_OBSERVE_H
#define ASCENDC_HOST_OBSERVED_OBSERVE_H

#include "base/build.h"

#if defined(ASCENDC_HOST_OBSERVED)

#include "observed/hooks.h"

#define HOST_WHERE_ONLY host::Where where = host::Where::Here()  // of a function without parameters
#define HOST_WHERE , HOST_WHERE_ONLY
#define HOST_INDEX host::Index  // an operator[] takes this: it has no second parameter

#else

#define HOST_WHERE_ONLY
#define HOST_WHERE
#define HOST_INDEX uint32_t

#endif

#endif  // ASCENDC_HOST_OBSERVED_OBSERVE_H
