/*!
 * Numbers the attributes of calls: values that are equal and of the same types have one number.
 */
#ifndef MS_ASCEND_OPS_BINDING_ATTRIBUTE_VARIANTS_H
#define MS_ASCEND_OPS_BINDING_ATTRIBUTE_VARIANTS_H

#include <pybind11/pybind11.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace ms_ascend_ops::binding {

namespace py = pybind11;

class AttributeVariants {
public:
    static constexpr size_t MOST = 256;  // the number of what is not remembered any more

    size_t Find(PyObject* const* values, size_t count)
    {
        for (size_t i = 0; i < known_.size(); ++i) {
            if (Matches(known_[i], values, count)) {
                return i;
            }
        }
        if (known_.size() == MOST) {
            return MOST;
        }
        py::tuple variant(count);
        for (size_t i = 0; i < count; ++i) {
            variant[i] = py::reinterpret_borrow<py::object>(values[i]);
        }
        known_.push_back(std::move(variant));
        return known_.size() - 1;
    }

    const py::tuple& operator[](size_t number) const { return known_[number]; }

private:
    static bool Matches(const py::tuple& variant, PyObject* const* values, size_t count)
    {
        if (variant.size() != count) {
            return false;
        }
        for (size_t i = 0; i < count; ++i) {
            PyObject* const known = PyTuple_GET_ITEM(variant.ptr(), static_cast<Py_ssize_t>(i));
            if (known == values[i]) {
                continue;
            }
            const bool isValue = PyLong_CheckExact(known) || PyFloat_CheckExact(known) || PyUnicode_CheckExact(known);
            if (!isValue || Py_TYPE(known) != Py_TYPE(values[i])) {
                return false;
            }
            const int same = PyObject_RichCompareBool(known, values[i], Py_EQ);
            if (same < 0) {
                throw py::error_already_set();
            }
            if (same == 0) {
                return false;
            }
        }
        return true;
    }

    std::vector<py::tuple> known_;
};

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_ATTRIBUTE_VARIANTS_H
