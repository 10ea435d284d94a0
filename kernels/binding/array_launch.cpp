#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/python_call.h"

namespace ms_ascend_ops::binding {
namespace {

using GivenDtypes = std::optional<std::vector<std::optional<std::string>>>;

// This is a launch of a kernel on certain arrays, which are all checked.
class ArrayLaunch {
public:
    ArrayLaunch(const std::string& op, const py::sequence& inputs, const py::sequence& outputs,
                const py::dict& attributes, const GivenDtypes& dtypes)
    {
        PythonCall call(op, attributes);
        Add(call, inputs, "inputs", false, dtypes);
        Add(call, outputs, "outputs", true, dtypes);
        call.Invoke([this](const MsAscendCall* cCall) {
            MsAscendPrepared* made = nullptr;
            const MsAscendStatus status = MsAscendOpsPrepareAll(cCall, &made);
            prepared_.reset(made);
            return status;
        });
    }

    // Returns whether it ended well; if not, Python's error is set.
    bool Run() const { return binding::Run(prepared_, data_.data()); }

private:
    void Add(PythonCall& call, const py::sequence& arrays, const char* role, bool isOutput, const GivenDtypes& dtypes)
    {
        for (size_t i = 0; i < arrays.size(); ++i) {
            const std::string name = call.Op() + ": " + role + "[" + std::to_string(i) + "]";
            const py::object given = arrays[i];
            if (given.is_none() && !isOutput) {  // an optional input
                call.AddAbsent();
                data_.push_back(nullptr);
                continue;
            }
            if (!py::isinstance<py::array>(given)) {
                throw py::type_error(name + " must be a NumPy array, got " +
                                     py::cast<std::string>(py::type::of(given).attr("__name__")));
            }
            auto array = py::reinterpret_borrow<py::array>(given);
            const auto itemBytes = static_cast<size_t>(array.itemsize());
            if ((array.flags() & py::array::c_style) == 0 ||
                reinterpret_cast<uintptr_t>(array.data()) % itemBytes != 0) {
                throw py::value_error(name + " must be C-contiguous and aligned");
            }
            const bool isWritten = isOutput || MsAscendOpsWrites(call.Op().c_str(), static_cast<int32_t>(i)) != 0;
            if (isWritten && !array.writeable()) {
                throw py::value_error(name + " must be writeable");
            }
            std::string dtype = py::cast<std::string>(array.dtype().attr("name"));
            const size_t index = data_.size();
            if (dtypes && index < dtypes->size() && (*dtypes)[index]) {
                const std::string& wanted = *(*dtypes)[index];
                // NumPy has no bfloat16: its bits come as uint16.
                if (wanted != dtype && !(wanted == "bfloat16" && itemBytes == 2)) {
                    throw py::type_error(name + " of dtype " + dtype + " cannot be taken as " + wanted);
                }
                dtype = wanted;
            }
            // A kernel may read an input after it wrote another array.
            if (std::any_of(arrays_.begin(), arrays_.end(), [&](const Given& other) {
                    return (isWritten || other.isWritten) && Overlap(array, other.array);
                })) {
                throw py::value_error(name + " must not overlap another array of the call");
            }
            call.Add(PyShape(array.shape(), array.shape() + array.ndim()), dtype);
            data_.push_back(const_cast<void*>(array.data()));
            arrays_.push_back({std::move(array), isWritten});
        }
    }

    static bool Overlap(const py::array& a, const py::array& b)
    {
        const auto* aBegin = static_cast<const char*>(a.data());
        const auto* bBegin = static_cast<const char*>(b.data());
        return aBegin < bBegin + b.nbytes() && bBegin < aBegin + a.nbytes();
    }

    struct Given {
        py::array array;
        bool isWritten;
    };

    std::vector<Given> arrays_;  // NumPy does not move the memory of an array that somebody refers to
    std::vector<void*> data_;
    PreparedPointer prepared_;
};

void Launch(const std::string& op, const py::sequence& inputs, const py::sequence& outputs, const py::dict& attributes,
            const GivenDtypes& dtypes)
{
    if (!ArrayLaunch(op, inputs, outputs, attributes, dtypes).Run()) {
        throw py::error_already_set();
    }
}

// This is a plain function of CPython: the call overhead of pybind11 is as long as a small kernel.
PyObject* RunPrepared(PyObject* self, PyObject*)
{
    const auto* launch = static_cast<const ArrayLaunch*>(PyCapsule_GetPointer(self, nullptr));
    if (!launch->Run()) {
        return nullptr;
    }
    Py_RETURN_NONE;
}

py::object Prepare(const std::string& op, const py::sequence& inputs, const py::sequence& outputs,
                   const py::dict& attributes, const GivenDtypes& dtypes)
{
    static PyMethodDef method = {"prepared_launch", &RunPrepared, METH_NOARGS,
                                 "Run the kernel on the arrays that it was prepared for."};
    auto launch = std::make_unique<ArrayLaunch>(op, inputs, outputs, attributes, dtypes);
    const py::capsule owner(launch.get(), [](void* pointer) { delete static_cast<ArrayLaunch*>(pointer); });
    launch.release();
    PyObject* function = PyCFunction_New(&method, owner.ptr());
    if (function == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(function);
}

}  // namespace

void BindArrayLaunch(py::module_& module)
{
    module.def(
        "launch", &Launch, py::arg("op"), py::arg("inputs"), py::arg("outputs"), py::arg("attributes") = py::dict(),
        py::arg("dtypes") = py::none(),
        "Run a kernel on NumPy arrays; the results are written into `outputs`.\n\n"
        "Attributes that are not given have their default. `dtypes` may name the dtype of an array (inputs, then\n"
        "outputs; None: the array's own): bfloat16 bits in a uint16 array need it, ml_dtypes.bfloat16 does not.");
    module.def(
        "prepare", &Prepare, py::arg("op"), py::arg("inputs"), py::arg("outputs"), py::arg("attributes") = py::dict(),
        py::arg("dtypes") = py::none(),
        "What `launch` does with these arguments, as a function without any: everything is checked here, once.\n\n"
        "It keeps the arrays, and each call reads and writes what they hold by then.");
}

}  // namespace ms_ascend_ops::binding
