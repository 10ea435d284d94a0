/*!
 * Calls a kernel on PyTorch's tensors past PyTorch's dispatcher, where nobody but the kernel has to see the call.
 */
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binding/attribute_variants.h"
#include "binding/python_call.h"
#include "binding/torch_abi.h"
#include "binding/torch_threads.h"
#include "interface/launch_config.h"

namespace ms_ascend_ops::binding {
namespace {

// One operator remembers so many combinations of shapes, dtypes and attributes.
constexpr size_t MOST_REMEMBERED = 4096;

// A kernel that touches no more than this keeps the interpreter's lock: others wait less than handing it over takes.
constexpr int64_t SMALL_BYTES = 16 * 1024;
constexpr int64_t MOST_ELEMENT_BYTES = 8;

// Holds what is needed of PyTorch, so that this module can do without.
struct Torch {
    py::tuple types;                                       // of tensors that are nothing but memory
    std::vector<std::pair<py::object, py::object>> idle;   // functions, and what they give where nobody looks on
    py::object casts;                                      // a function: whether there is autocast
    std::vector<std::pair<py::object, py::object>> plain;  // of a tensor: its attributes, and their values then
    std::vector<std::tuple<py::dict, py::str, py::object>> flags;  // variables of modules, and the same of them
    py::object isRecording;                                        // torch.is_grad_enabled
    const PyMethodDef* isNegative;                                 // Tensor.is_neg
    const PyGetSetDef* requiresGradient;                           // Tensor.requires_grad
    std::unique_ptr<torch_abi::Functions> abi;                     // null: this release has not all of it
    std::vector<std::pair<int32_t, const char*>> dtypes{};         // numbers in that ABI
    py::str isZero = "_is_zerotensor";
    py::str isCpu = "is_cpu";

    Torch(py::tuple types, std::vector<std::pair<py::object, py::object>> idle, py::object casts,
          std::vector<std::pair<py::object, py::object>> plain,
          std::vector<std::tuple<py::dict, py::str, py::object>> flags, py::object isRecording,
          const py::object& isNegative, const py::object& requiresGradient, const std::string& library)
        : types(std::move(types)),
          idle(std::move(idle)),
          casts(std::move(casts)),
          plain(std::move(plain)),
          flags(std::move(flags)),
          isRecording(std::move(isRecording)),
          isNegative(MethodOf(isNegative)),
          requiresGradient(GetterOf(requiresGradient)),
          abi(torch_abi::FindIn<torch_abi::Functions>(library.c_str()))
    {
        if (abi != nullptr) {
            dtypes = {{abi->aoti_torch_dtype_float32(), "float32"}, {abi->aoti_torch_dtype_bfloat16(), "bfloat16"},
                      {abi->aoti_torch_dtype_float16(), "float16"}, {abi->aoti_torch_dtype_int32(), "int32"},
                      {abi->aoti_torch_dtype_int64(), "int64"},     {abi->aoti_torch_dtype_int8(), "int8"}};
            cpu = abi->aoti_torch_device_type_cpu();
            strided = abi->aoti_torch_layout_strided();
        }
    }

    int32_t cpu = 0;
    int32_t strided = 0;

private:
    // Returns the C functions behind a method without arguments and a property: they take half of the time of a call by
    // the interpreter.
    static const PyMethodDef* MethodOf(const py::object& descriptor)
    {
        if (Py_TYPE(descriptor.ptr()) == &PyMethodDescr_Type) {
            const PyMethodDef* method = reinterpret_cast<PyMethodDescrObject*>(descriptor.ptr())->d_method;
            if ((method->ml_flags & METH_NOARGS) != 0) {
                return method;
            }
        }
        throw py::type_error("Torch: is_negative must be a method without arguments");
    }

    static const PyGetSetDef* GetterOf(const py::object& descriptor)
    {
        if (Py_TYPE(descriptor.ptr()) != &PyGetSetDescr_Type) {
            throw py::type_error("Torch: requires_gradient must be a property");
        }
        return reinterpret_cast<PyGetSetDescrObject*>(descriptor.ptr())->d_getset;
    }
};

// Throws what Python has raised.
py::object Own(PyObject* object)
{
    if (object == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(object);
}

using torch_abi::TensorHandle;

class DirectCall {
public:
    DirectCall(std::shared_ptr<Torch> torch, std::string op, size_t count, bool isLowered, py::object run,
               py::object runOnDevice, py::object attributes)
        : torch_(std::move(torch)),
          op_(std::move(op)),
          count_(count),
          isLowered_(isLowered),
          run_(std::move(run)),
          runOnDevice_(std::move(runOnDevice)),
          attributes_(std::move(attributes))
    {}

    // Tensors, then attributes, in the definition's order; those at the end may be left out. NotImplemented where
    // somebody else has to see the call.
    py::object Call(PyObject* const* arguments, size_t count)
    {
        const size_t tensors = std::min(count, count_);
        if (!IsIdle() || (isLowered_ && Casts()) || !ArePlain(arguments, tensors)) {
            return Refuse();
        }
        if (torch_->abi != nullptr) {
            return CallByHandles(arguments, tensors, count);
        }
        return AreOnCpu(arguments, tensors) ? Run(run_, arguments, count) : Run(runOnDevice_, arguments, count);
    }

private:
    struct Output {
        int32_t dtype;
        PyShape shape;
        PyShape strides;
    };

    struct Hash {
        size_t operator()(const std::vector<int64_t>& key) const
        {
            return std::hash<std::string_view>()(
                {reinterpret_cast<const char*>(key.data()), key.size() * sizeof(int64_t)});
        }
    };

    struct Remembered {
        PreparedPointer launch;
        std::vector<Output> outputs;
        int64_t bytes = 0;  // of inputs and outputs, or more
    };

    // A function without arguments is called in half of the time.
    static PyObject* CallNoArgs(PyObject* function)
    {
        if (PyCFunction_CheckExact(function) && (PyCFunction_GET_FLAGS(function) & METH_NOARGS) != 0) {
            return PyCFunction_GET_FUNCTION(function)(PyCFunction_GET_SELF(function), nullptr);
        }
        return PyObject_CallNoArgs(function);
    }

    bool IsIdle() const
    {
        for (const auto& [function, expected] : torch_->idle) {
            if (Own(CallNoArgs(function.ptr())).ptr() != expected.ptr()) {
                return false;
            }
        }
        for (const auto& [variables, name, expected] : torch_->flags) {
            // Small ints, True and False are one object each.
            if (PyDict_GetItemWithError(variables.ptr(), name.ptr()) != expected.ptr()) {
                return false;
            }
        }
        return true;
    }

    bool Casts() const { return Own(CallNoArgs(torch_->casts.ptr())).ptr() != Py_False; }

    static py::object Refuse() { return py::reinterpret_borrow<py::object>(Py_NotImplemented); }

    bool IsRecording() const
    {
        return torch_->abi != nullptr ? torch_->abi->aoti_torch_grad_mode_is_enabled()
                                      : Own(PyObject_CallNoArgs(torch_->isRecording.ptr())).ptr() == Py_True;
    }

    bool ArePlain(PyObject* const* tensors, size_t count) const
    {
        const bool isRecording = IsRecording();
        const PyMethodDef& isNegative = *torch_->isNegative;
        const PyGetSetDef& requiresGradient = *torch_->requiresGradient;
        for (size_t i = 0; i < count; ++i) {
            PyObject* const tensor = tensors[i];
            if (tensor == Py_None) {
                continue;
            }
            PyObject* const type = reinterpret_cast<PyObject*>(Py_TYPE(tensor));
            bool isKnown = false;
            for (const py::handle known : torch_->types) {
                isKnown = isKnown || known.ptr() == type;
            }
            if (!isKnown || Own(isNegative.ml_meth(tensor, nullptr)).ptr() != Py_False) {
                return false;
            }
            if (isRecording && Own(requiresGradient.get(tensor, requiresGradient.closure)).ptr() != Py_False) {
                return false;
            }
            if (torch_->abi == nullptr && !IsMemory(tensor)) {  // otherwise asked by handle
                return false;
            }
        }
        return true;
    }

    bool IsMemory(PyObject* tensor) const
    {
        if (Own(PyObject_CallMethodNoArgs(tensor, torch_->isZero.ptr())).ptr() != Py_False) {
            return false;
        }
        for (const auto& [name, expected] : torch_->plain) {
            if (Own(PyObject_GetAttr(tensor, name.ptr())).ptr() != expected.ptr()) {
                return false;
            }
        }
        return true;
    }

    bool AreOnCpu(PyObject* const* tensors, size_t count) const
    {
        return std::all_of(tensors, tensors + count, [this](PyObject* tensor) {
            return tensor == Py_None || Own(PyObject_GetAttr(tensor, torch_->isCpu.ptr())).ptr() == Py_True;
        });
    }

    py::object CallOnDevice(PyObject* const* arguments, size_t tensors, size_t count) const
    {
        const bool areMemory = std::all_of(arguments, arguments + tensors,
                                           [this](PyObject* tensor) { return tensor == Py_None || IsMemory(tensor); });
        return areMemory ? Run(runOnDevice_, arguments, count) : Refuse();
    }

    // Other operators than those that go to the dtype of autocast have nothing to cast where a combination of dtypes is
    // known to be allowed.
    py::object Run(const py::object& run, PyObject* const* arguments, size_t count) const
    {
        if (!isLowered_ && Casts()) {
            return Refuse();
        }
        return Own(PyObject_Vectorcall(run.ptr(), arguments, count, nullptr));
    }

    py::object CallByHandles(PyObject* const* arguments, size_t tensors, size_t count)
    {
        const torch_abi::Functions& abi = *torch_->abi;
        std::array<void*, MAX_TENSORS> data{};
        std::vector<int64_t> key = std::move(key_);  // its memory
        key.clear();
        bool areContiguous = true;
        for (size_t i = 0; i < tensors; ++i) {
            if (arguments[i] == Py_None) {
                key.push_back(-1);
                continue;
            }
            TensorHandle tensor(abi);
            int64_t rank = 0;
            int64_t* sizes = nullptr;
            int32_t dtype = 0;
            int32_t device = 0;
            int32_t layout = 0;
            bool isContiguous = false;
            if (abi.torch_tensor_from_pyobject(arguments[i], tensor.Address()) != 0 ||
                abi.aoti_torch_get_device_type(tensor.Get(), &device) != 0) {
                return Refuse();
            }
            if (device != torch_->cpu) {
                return CallOnDevice(arguments, tensors, count);
            }
            if (abi.aoti_torch_get_layout(tensor.Get(), &layout) != 0 || layout != torch_->strided ||
                abi.aoti_torch_get_dtype(tensor.Get(), &dtype) != 0 || NameOf(dtype) == nullptr ||
                abi.aoti_torch_get_dim(tensor.Get(), &rank) != 0 ||
                abi.aoti_torch_get_sizes(tensor.Get(), &sizes) != 0 ||
                abi.aoti_torch_is_contiguous(tensor.Get(), &isContiguous) != 0 ||
                abi.aoti_torch_get_data_ptr(tensor.Get(), &data[i]) != 0 ||
                (data[i] == nullptr && Count(sizes, rank) > 0)) {
                return Refuse();  // the dispatcher knows of such tensors
            }
            areContiguous = areContiguous && isContiguous;
            key.push_back(rank << 32 | dtype);
            key.insert(key.end(), sizes, sizes + rank);
        }
        const size_t variant = variants_.Find(arguments + tensors, count - tensors);
        if (!areContiguous || variant == AttributeVariants::MOST) {
            return Run(run_, arguments, count);
        }
        key.push_back(static_cast<int64_t>(variant));
        std::shared_ptr<Remembered> remembered = Find(key);
        if (remembered == nullptr) {
            py::object result = Run(run_, arguments, count);  // it checks everything
            if (result.ptr() != Py_NotImplemented) {
                Remember(std::move(key), arguments, tensors, variant);
            }
            return result;
        }
        key_ = std::move(key);
        return Launch(*remembered, data.data());
    }

    py::object Launch(const Remembered& remembered, void** data) const
    {
        const torch_abi::Functions& abi = *torch_->abi;
        std::array<PyObject*, MAX_TENSORS> made{};
        const size_t outputs = remembered.outputs.size();
        struct Owner {
            std::array<PyObject*, MAX_TENSORS>& objects;
            ~Owner()
            {
                for (PyObject* object : objects) {
                    Py_XDECREF(object);
                }
            }
        } owner{made};
        for (size_t i = 0; i < outputs; ++i) {
            const Output& output = remembered.outputs[i];
            TensorHandle tensor(abi);
            void* object = nullptr;
            if (abi.aoti_torch_empty_strided(static_cast<int64_t>(output.shape.size()), output.shape.data(),
                                             output.strides.data(), output.dtype, torch_->cpu, 0,
                                             tensor.Address()) != 0 ||
                abi.aoti_torch_get_data_ptr(tensor.Get(), &data[count_ + i]) != 0 ||
                abi.torch_tensor_to_pyobject(tensor.Get(), nullptr, &object) != 0) {
                throw std::runtime_error(op_ + ": PyTorch cannot allocate the result");
            }
            made[i] = static_cast<PyObject*>(object);
        }
        const bool isSmall = remembered.bytes <= SMALL_BYTES;
        uint32_t threads = 1;
        if (!isSmall) {
            abi.torch_get_num_threads(&threads);
        }
        static const KernelLibrary library;
        const TorchThreads shared(library, threads);
        if (!(isSmall ? RunLocked(remembered.launch, data) : binding::Run(remembered.launch, data))) {
            throw py::error_already_set();
        }
        if (outputs == 1) {
            return py::reinterpret_steal<py::object>(std::exchange(made[0], nullptr));
        }
        py::tuple results(outputs);
        for (size_t i = 0; i < outputs; ++i) {
            PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i), std::exchange(made[i], nullptr));
        }
        return results;
    }

    static bool RunLocked(const PreparedPointer& launch, void* const* data)
    {
        std::array<char, ERROR_BYTES> error;
        return Succeeded(MsAscendOpsRun(launch.get(), data, error.data(), error.size()), error.data());
    }

    static int64_t Count(const int64_t* sizes, int64_t rank)
    {
        return std::accumulate(sizes, sizes + rank, int64_t{1}, std::multiplies<int64_t>());
    }

    const char* NameOf(int32_t dtype) const
    {
        for (const auto& [number, name] : torch_->dtypes) {
            if (number == dtype) {
                return name;
            }
        }
        return nullptr;
    }

    int32_t NumberOf(const char* name) const
    {
        for (const auto& [number, known] : torch_->dtypes) {
            if (std::strcmp(known, name) == 0) {
                return number;
            }
        }
        return -1;
    }

    std::shared_ptr<Remembered> Find(const std::vector<int64_t>& key)
    {
        if (last_ != nullptr && key == lastKey_) {
            return last_;
        }
        const auto found = remembered_.find(key);
        if (found == remembered_.end()) {
            return nullptr;
        }
        last_ = found->second;
        lastKey_ = key;
        return last_;
    }

    // After a run that went well.
    void Remember(std::vector<int64_t> key, PyObject* const* arguments, size_t tensors, size_t variant)
    {
        const torch_abi::Functions& abi = *torch_->abi;
        PythonCall call(op_, py::dict(attributes_(variants_[variant])));
        auto made = std::make_shared<Remembered>();
        for (size_t i = 0; i < count_; ++i) {
            if (i >= tensors || arguments[i] == Py_None) {
                call.AddAbsent();
                continue;
            }
            TensorHandle tensor(abi);
            int64_t rank = 0;
            int64_t* sizes = nullptr;
            int32_t dtype = 0;
            if (abi.torch_tensor_from_pyobject(arguments[i], tensor.Address()) != 0 ||
                abi.aoti_torch_get_dim(tensor.Get(), &rank) != 0 ||
                abi.aoti_torch_get_sizes(tensor.Get(), &sizes) != 0 ||
                abi.aoti_torch_get_dtype(tensor.Get(), &dtype) != 0) {
                return;
            }
            call.Add(PyShape(sizes, sizes + rank), NameOf(dtype));
            made->bytes += MOST_ELEMENT_BYTES * Count(sizes, rank);
        }
        struct Context {
            const DirectCall& call;
            Remembered& made;
        } context{*this, *made};
        call.Invoke([&](const MsAscendCall* cCall) {
            const auto visit = [](void* pointer, const char* name, const int64_t* shape, int32_t rank) {
                auto& into = *static_cast<Context*>(pointer);
                Output output{into.call.NumberOf(name), PyShape(shape, shape + rank), PyShape(rank, 1)};
                for (int32_t i = rank - 1; i > 0; --i) {
                    output.strides[i - 1] = output.strides[i] * std::max<int64_t>(shape[i], 1);
                }
                into.made.bytes += MOST_ELEMENT_BYTES * Count(shape, rank);
                into.made.outputs.push_back(std::move(output));
            };
            MsAscendPrepared* launch = nullptr;
            const MsAscendStatus status = MsAscendOpsPrepare(cCall, visit, &context, &launch);
            made->launch = PreparedPointer(launch);
            return status;
        });
        if (remembered_.size() >= MOST_REMEMBERED) {
            remembered_.clear();
        }
        remembered_[std::move(key)] = std::move(made);
    }

    std::shared_ptr<Torch> torch_;
    std::string op_;
    size_t count_;    // of all inputs
    bool isLowered_;  // to the dtype of autocast
    py::object run_;  // the same for any tensor, with every check
    py::object runOnDevice_;
    py::object attributes_;  // by name, of a tuple of values
    AttributeVariants variants_;
    std::unordered_map<std::vector<int64_t>, std::shared_ptr<Remembered>, Hash> remembered_;
    std::shared_ptr<Remembered> last_;
    std::vector<int64_t> lastKey_;
    std::vector<int64_t> key_;
};

py::object MakeDirectCall(std::shared_ptr<Torch> torch, std::string op, size_t count, bool isLowered, py::object run,
                          py::object runOnDevice, py::object attributes)
{
    auto call = std::make_unique<DirectCall>(std::move(torch), std::move(op), count, isLowered, std::move(run),
                                             std::move(runOnDevice), std::move(attributes));
    return FunctionOf(std::move(call), "direct_call", "Run the kernel, or return NotImplemented.");
}

}  // namespace

void BindTorchCall(py::module_& module)
{
    using Pairs = std::vector<std::pair<py::object, py::object>>;
    using Flags = std::vector<std::tuple<py::dict, py::str, py::object>>;
    py::class_<Torch, std::shared_ptr<Torch>>(
        module, "Torch",
        "What tells whether somebody but a kernel has to see a call, and PyTorch's stable ABI in `library`.\n\n"
        "`types`: of tensors that are nothing but memory. `idle`: functions, and what they return where nobody looks "
        "on; `casts`: whether there is autocast. `plain`: attributes of a tensor that is nothing but memory, without "
        "that ABI. `flags`: dicts of variables, a name, and the value where nobody looks on.")
        .def(py::init<py::tuple, Pairs, py::object, Pairs, Flags, py::object, py::object, py::object,
                      const std::string&>(),
             py::arg("types"), py::arg("idle"), py::arg("casts"), py::arg("plain"), py::arg("flags"),
             py::arg("is_recording"), py::arg("is_negative"), py::arg("requires_gradient"), py::arg("library"))
        .def_property_readonly("has_abi", [](const Torch& torch) { return torch.abi != nullptr; });
    module.def("direct_call", &MakeDirectCall, py::arg("torch"), py::arg("op"), py::arg("count"), py::arg("is_lowered"),
               py::arg("run"), py::arg("run_on_device"), py::arg("attributes"),
               "A kernel as a function of tensors and attributes, past PyTorch's dispatcher.\n\n"
               "It returns NotImplemented where that will not do. `count` is the number of all inputs; `is_lowered` "
               "tells whether tensors go to the dtype of autocast; `run` is the same "
               "for any tensor, which checks everything; `run_on_device` that for tensors that are not on a CPU; "
               "`attributes` makes a dict of a tuple of values.");
}

}  // namespace ms_ascend_ops::binding
