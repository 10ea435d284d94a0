/*!
 * Makes calls of the C interface from Python's objects; the parts of ms_ascend_ops._C share it.
 */
#ifndef MS_ASCEND_OPS_BINDING_PYTHON_CALL_H
#define MS_ASCEND_OPS_BINDING_PYTHON_CALL_H

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "binding/c_api.h"
#include "binding/kernel_library.h"

namespace ms_ascend_ops::binding {

namespace py = pybind11;

using PyShape = std::vector<int64_t>;

constexpr size_t ERROR_BYTES = 1024;  // of the library's messages

inline PyObject* ExceptionOf(MsAscendStatus failure)
{
    switch (failure) {
        case MS_ASCEND_TYPE_ERROR:
            return PyExc_TypeError;
        case MS_ASCEND_VALUE_ERROR:
            return PyExc_ValueError;
        default:
            return PyExc_RuntimeError;
    }
}

// Sets Python's error, with the library's message. Returns whether there is none.
inline bool Succeeded(MsAscendStatus status, const char* message)
{
    if (status != MS_ASCEND_OK) {
        PyErr_SetString(ExceptionOf(status), message);
    }
    return status == MS_ASCEND_OK;
}

inline void ThrowIfFailed(MsAscendStatus status, const char* message)
{
    if (!Succeeded(status, message)) {
        throw py::error_already_set();
    }
}

struct FreePrepared {
    decltype(&MsAscendOpsFreePrepared) free = &MsAscendOpsFreePrepared;

    void operator()(MsAscendPrepared* prepared) const { free(prepared); }
};
using PreparedPointer = std::unique_ptr<MsAscendPrepared, FreePrepared>;

// Runs a prepared launch without the interpreter's lock. `data` is that of the inputs, then of the outputs. Returns
// whether it ended well; if not, Python's error is set.
inline bool Run(const PreparedPointer& prepared, void* const* data, const KernelLibrary& library = {})
{
    std::array<char, ERROR_BYTES> error;  // left as it is where there is none
    MsAscendStatus status;
    Py_BEGIN_ALLOW_THREADS;
    status = library.run(prepared.get(), data, error.data(), error.size());
    Py_END_ALLOW_THREADS;
    return Succeeded(status, error.data());
}

// Owns what the C structures of one call point to.
class PythonCall {
public:
    PythonCall(std::string op, const py::dict& attributes) : op_(std::move(op))
    {
        attributes_.reserve(attributes.size());
        texts_.reserve(2 * attributes.size());
        for (const auto& [key, value] : attributes) {
            texts_.push_back(py::cast<std::string>(key));
            MsAscendAttribute attribute{texts_.back().c_str(), 0, 0, 0.0, nullptr};
            // A bool is an int in Python: ask for it first.
            if (py::isinstance<py::bool_>(value)) {
                attribute.kind = 2;
                attribute.integer = py::cast<bool>(value) ? 1 : 0;
            } else if (py::isinstance<py::int_>(value)) {
                attribute.kind = 0;
                attribute.integer = py::cast<int64_t>(value);
            } else if (py::isinstance<py::float_>(value)) {
                attribute.kind = 1;
                attribute.real = py::cast<double>(value);
            } else if (py::isinstance<py::str>(value)) {
                texts_.push_back(py::cast<std::string>(value));
                attribute.kind = 3;
                attribute.text = texts_.back().c_str();
            } else {
                throw py::type_error(op_ + ": " + attribute.name + " must be an int, float, bool or str, got " +
                                     py::cast<std::string>(py::type::handle_of(value).attr("__name__")));
            }
            attributes_.push_back(attribute);
        }
    }
    PythonCall(const PythonCall&) = delete;
    PythonCall& operator=(const PythonCall&) = delete;

    const std::string& Op() const { return op_; }

    void Add(PyShape shape, std::string dtype) { tensors_.push_back({std::move(shape), std::move(dtype)}); }
    void AddAbsent() { tensors_.emplace_back(); }

    template <typename F>
    void Invoke(F&& function)
    {
        std::vector<MsAscendTensor> tensors;
        for (const Tensor& tensor : tensors_) {
            tensors.push_back({nullptr, tensor.dtype ? tensor.dtype->c_str() : nullptr, tensor.shape.data(),
                               static_cast<int32_t>(tensor.shape.size())});
        }
        std::array<char, ERROR_BYTES> error;
        const MsAscendCall call{op_.c_str(),
                                tensors.data(),
                                static_cast<int32_t>(tensors.size()),
                                attributes_.data(),
                                static_cast<int32_t>(attributes_.size()),
                                error.data(),
                                error.size()};
        ThrowIfFailed(function(&call), error.data());
    }

private:
    struct Tensor {
        PyShape shape;
        std::optional<std::string> dtype;
    };

    std::string op_;
    std::vector<std::string> texts_;
    std::vector<MsAscendAttribute> attributes_;
    std::vector<Tensor> tensors_;
};

// `FUNCTION::Call` as a plain function of CPython, which owns it: the call overhead of pybind11 is as long as a small
// kernel.
template <class FUNCTION>
PyObject* CallHeld(PyObject* self, PyObject* const* arguments, Py_ssize_t count)
{
    auto* function = static_cast<FUNCTION*>(PyCapsule_GetPointer(self, nullptr));
    try {
        return function->Call(arguments, static_cast<size_t>(count)).release().ptr();
    } catch (py::error_already_set& error) {
        error.restore();
    } catch (const py::builtin_exception& error) {
        error.set_error();
    } catch (const std::exception& error) {
        PyErr_SetString(PyExc_RuntimeError, error.what());
    }
    return nullptr;
}

// `name` and `text` have to stay where they are: there is one function of a type.
template <class FUNCTION>
py::object FunctionOf(std::unique_ptr<FUNCTION> function, const char* name, const char* text)
{
    static PyMethodDef method = {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&CallHeld<FUNCTION>)),
                                 METH_FASTCALL, text};
    const py::capsule owner(function.get(), [](void* pointer) { delete static_cast<FUNCTION*>(pointer); });
    function.release();
    PyObject* made = PyCFunction_New(&method, owner.ptr());
    if (made == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(made);
}

// Number, name and IR of the next loop to be compiled, or None.
py::object NextLoop(const KernelLibrary& library, bool wait);

// See launch_counts.h.
std::vector<uint64_t> CountBounds(const KernelLibrary& library);
py::list Counts(const KernelLibrary& library);

void BindArrayLaunch(py::module_& module);
void BindKernelLibrary(py::module_& module);
void BindSignature(py::module_& module);
void BindTensorFunction(py::module_& module);
void BindTorchCall(py::module_& module);
void BindTorchNpuCall(py::module_& module);

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_PYTHON_CALL_H
