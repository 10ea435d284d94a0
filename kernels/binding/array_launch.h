/*!
 * Launches on NumPy arrays: `launch` and `prepare` of ms_ascend_ops._C.
 */
#ifndef MS_ASCEND_OPS_BINDING_ARRAY_LAUNCH_H
#define MS_ASCEND_OPS_BINDING_ARRAY_LAUNCH_H

#include <pybind11/pybind11.h>

namespace ms_ascend_ops::binding {

void BindArrayLaunch(pybind11::module_& module);

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_ARRAY_LAUNCH_H
