/*!
 * Tells the two kinds of builds apart. In an observed one (ASCENDC_HOST_OBSERVED), which checks or traces, every call
 * of the API is reported, and HOST_OBSERVED keeps the code that does so. The fast build has none of it.
 */
#ifndef ASCENDC_HOST_BASE_BUILD_H
#define ASCENDC_HOST_BASE_BUILD_H

#if defined(ASCENDC_HOST_OBSERVED)
#define HOST_OBSERVED(...) __VA_ARGS__
#else
#define HOST_OBSERVED(...)
#endif

#endif  // ASCENDC_HOST_BASE_BUILD_H
