#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binding/output_memory.h"
#include "binding/python_call.h"
#include "binding/torch_threads.h"

namespace ms_ascend_ops::binding {
namespace {

// One function remembers so many combinations of shapes and dtypes.
constexpr size_t MOST_PREPARED = 4096;

// Holds what is needed of MindSpore or PyTorch, so that this module can do without either.
struct Framework {
    py::object tensorType;
    py::object fromNumpy;   // shares the memory. None: the framework allocates
    py::object empty;       // a tensor of a shape and `dtype=`, where the framework allocates
    py::object emptyLike;   // and one like another: it takes half of the time
    py::object getThreads;  // returns how many PyTorch's operators use; None: as many as the process is set to
    py::dict dtypes;        // name: NumPy's dtype, bfloat16 is MindSpore's own; or the framework's
    py::str dataPointer;    // the method
    py::str shape = "shape";
    py::str dtype = "dtype";
    py::str isContiguous = "is_contiguous";
    py::str contiguous = "contiguous";
    py::tuple dtypeKeyword = py::make_tuple("dtype");
};

py::object CallMethod(py::handle object, const py::str& method)
{
    PyObject* result = PyObject_CallMethodNoArgs(object.ptr(), method.ptr());
    if (result == nullptr) {
        throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(result);
}

void* DataOf(py::handle tensor, const Framework& framework)
{
    return PyLong_AsVoidPtr(CallMethod(tensor, framework.dataPointer).ptr());
}

struct Output {
    py::object dtype;
    py::tuple shape;
    size_t bytes;  // of those that are made here
    size_t like;   // the first of the given inputs that has this shape and dtype, or NONE

    static constexpr size_t NONE = SIZE_MAX;

    // Holds a tensor and its memory. `inputs` are those that are given, contiguous.
    std::pair<py::object, void*> Make(const Framework& framework, const std::vector<PyObject*>& inputs) const
    {
        return framework.fromNumpy.is_none() ? Allocate(framework, inputs) : FromMemory(framework);
    }

private:
    std::pair<py::object, void*> Allocate(const Framework& framework, const std::vector<PyObject*>& inputs) const
    {
        PyObject* const arguments[] = {shape.ptr(), dtype.ptr()};
        PyObject* made = like != NONE
                             ? PyObject_CallOneArg(framework.emptyLike.ptr(), inputs[like])
                             : PyObject_Vectorcall(framework.empty.ptr(), arguments, 1, framework.dtypeKeyword.ptr());
        if (made == nullptr) {
            throw py::error_already_set();
        }
        auto tensor = py::reinterpret_steal<py::object>(made);
        void* data = DataOf(tensor, framework);
        return {std::move(tensor), data};
    }

    std::pair<py::object, void*> FromMemory(const Framework& framework) const
    {
        const auto dtype = py::reinterpret_borrow<py::dtype>(this->dtype);
        const auto shape = py::cast<PyShape>(this->shape);
        if (bytes == 0) {
            return {framework.fromNumpy(py::array(dtype, shape)), nullptr};
        }
        struct Block {
            void* data;
            size_t bytes;
        };
        auto block = std::make_unique<Block>(Block{OutputMemory::Get().Take(bytes), bytes});
        void* data = block->data;
        const py::capsule owner(block.release(), [](void* pointer) {
            const std::unique_ptr<Block> dead(static_cast<Block*>(pointer));
            OutputMemory::Get().GiveBack(dead->data, dead->bytes);
        });
        return {framework.fromNumpy(py::array(dtype, shape, data, owner)), data};
    }
};

struct Prepared {
    PreparedPointer launch;
    std::vector<Output> outputs;
    std::vector<py::object> dtypes;  // of the inputs: while they live, nothing else has their addresses
};

class TensorFunction {
public:
    TensorFunction(std::shared_ptr<Framework> framework, std::string op, py::dict attributes,
                   const std::vector<std::string>& names, const std::set<std::string>& writes,
                   const std::set<std::string>& absent, py::object check, const std::shared_ptr<KernelLibrary>& library)
        : library_(library ? *library : KernelLibrary{}),
          framework_(std::move(framework)),
          op_(std::move(op)),
          attributes_(std::move(attributes)),
          count_(names.size()),
          check_(std::move(check))
    {
        for (size_t i = 0; i < names.size(); ++i) {
            if (absent.count(names[i]) == 0) {
                given_.push_back({i, names[i], writes.count(names[i]) > 0});
            }
        }
    }

    // Waits for what the framework still computes of the tensors, then runs. None where it cannot: a tensor to be
    // written to that is not contiguous.
    py::object Call(PyObject* const* tensors, size_t count)
    {
        if (count != given_.size()) {
            throw py::type_error(op_ + ": expects " + std::to_string(given_.size()) + " tensors, got " +
                                 std::to_string(count));
        }
        const std::shared_ptr<Prepared> prepared = FindPrepared(tensors);
        std::vector<void*> data(count_ + prepared->outputs.size());  // null where an input is absent
        std::vector<PyObject*> inputs(tensors, tensors + count);
        std::vector<py::object> copies;
        for (size_t i = 0; i < count; ++i) {
            if (CallMethod(inputs[i], framework_->isContiguous).ptr() != Py_True) {
                if (given_[i].isWritten) {
                    return py::none();
                }
                copies.push_back(CallMethod(inputs[i], framework_->contiguous));
                inputs[i] = copies.back().ptr();
            }
            data[given_[i].position] = DataOf(inputs[i], *framework_);
        }
        py::tuple results(prepared->outputs.size());
        for (size_t i = 0; i < prepared->outputs.size(); ++i) {
            auto [tensor, memory] = prepared->outputs[i].Make(*framework_, inputs);
            results[i] = std::move(tensor);
            data[count_ + i] = memory;
        }
        std::optional<TorchThreads> threads;
        if (!framework_->getThreads.is_none()) {
            const py::object threadCount = framework_->getThreads();
            threads.emplace(library_, py::cast<uint32_t>(threadCount));
        }
        if (!Run(prepared->launch, data.data(), library_)) {
            throw py::error_already_set();
        }
        return results.size() == 1 ? py::object(results[0]) : py::object(std::move(results));
    }

private:
    static py::object Attribute(py::handle object, const py::str& name)
    {
        PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
        if (value == nullptr) {
            throw py::error_already_set();
        }
        return py::reinterpret_steal<py::object>(value);
    }

    struct Input {
        size_t position;  // among all
        std::string name;
        bool isWritten;  // by the kernel
    };

    std::shared_ptr<Prepared> FindPrepared(PyObject* const* tensors)
    {
        std::string key;
        const auto append = [&key](int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
        std::vector<py::object> dtypes;
        key.reserve(256);  // enough for most
        dtypes.reserve(given_.size());
        for (size_t i = 0; i < given_.size(); ++i) {
            const py::handle tensor = tensors[i];
            if (PyObject_TypeCheck(tensor.ptr(), reinterpret_cast<PyTypeObject*>(framework_->tensorType.ptr())) == 0) {
                throw py::type_error(op_ + ": " + given_[i].name + " must be a Tensor, got " +
                                     py::cast<std::string>(py::type::handle_of(tensor).attr("__name__")));
            }
            const py::object shape = Attribute(tensor, framework_->shape);
            const Py_ssize_t rank = PyTuple_Size(shape.ptr());
            append(rank);
            for (Py_ssize_t axis = 0; axis < rank; ++axis) {
                append(PyLong_AsLongLong(PyTuple_GET_ITEM(shape.ptr(), axis)));
            }
            dtypes.push_back(Attribute(tensor, framework_->dtype));
            append(reinterpret_cast<int64_t>(dtypes.back().ptr()));
        }
        const auto found = prepared_.find(key);
        if (found != prepared_.end()) {
            return found->second;
        }
        std::shared_ptr<Prepared> prepared = Prepare(tensors, std::move(dtypes));
        if (!check_.is_none()) {
            py::list shapes(count_);
            for (size_t i = 0; i < count_; ++i) {
                shapes[i] = py::none();
            }
            for (size_t i = 0; i < given_.size(); ++i) {
                shapes[given_[i].position] = py::tuple(Attribute(tensors[i], framework_->shape));
            }
            check_(shapes, attributes_);
        }
        if (prepared_.size() >= MOST_PREPARED) {
            prepared_.clear();
        }
        prepared_[key] = prepared;
        return prepared;
    }

    std::shared_ptr<Prepared> Prepare(PyObject* const* tensors, std::vector<py::object> dtypes) const
    {
        PythonCall call(op_, attributes_);
        std::vector<PyShape> shapes;  // of what is given
        std::vector<std::string> names;
        for (size_t i = 0, position = 0; position < count_; ++position) {
            if (i == given_.size() || given_[i].position != position) {
                call.AddAbsent();
                continue;
            }
            auto name = py::cast<std::string>(py::str(dtypes[i]));  // Float32, torch.float32
            name.erase(0, name.rfind('.') + 1);
            std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
            call.Add(shapes.emplace_back(py::cast<PyShape>(Attribute(tensors[i++], framework_->shape))),
                     names.emplace_back(name));
        }
        auto prepared = std::make_shared<Prepared>();
        prepared->dtypes = std::move(dtypes);
        struct Context {
            const Framework& framework;
            std::vector<Output>& outputs;
            const std::vector<PyShape>& shapes;
            const std::vector<std::string>& names;
        } context{*framework_, prepared->outputs, shapes, names};
        call.Invoke([&](const MsAscendCall* cCall) {
            const auto visit = [](void* pointer, const char* name, const int64_t* shape, int32_t rank) {
                auto& into = *static_cast<Context*>(pointer);
                const PyShape sizes(shape, shape + rank);
                Output output{into.framework.dtypes[name], py::tuple(py::cast(sizes)), 0, Output::NONE};
                for (size_t i = into.shapes.size(); i-- > 0;) {
                    output.like = into.shapes[i] == sizes && into.names[i] == name ? i : output.like;
                }
                if (!into.framework.fromNumpy.is_none()) {
                    const auto dtype = py::dtype::from_args(output.dtype);
                    output.bytes = static_cast<size_t>(dtype.itemsize());
                    for (int32_t i = 0; i < rank; ++i) {
                        output.bytes *= static_cast<size_t>(shape[i]);
                    }
                    output.dtype = dtype;
                }
                into.outputs.push_back(std::move(output));
            };
            MsAscendPrepared* made = nullptr;
            const MsAscendStatus status = library_.prepare(cCall, visit, &context, &made);
            prepared->launch = PreparedPointer(made, {library_.freePrepared});
            return status;
        });
        return prepared;
    }

    KernelLibrary library_;
    std::shared_ptr<Framework> framework_;
    std::string op_;
    py::dict attributes_;
    size_t count_;              // of all inputs
    std::vector<Input> given_;  // those that are not absent
    py::object check_;
    std::unordered_map<std::string, std::shared_ptr<Prepared>> prepared_;
};

py::object MakeTensorFunction(std::shared_ptr<Framework> framework, std::string op, py::dict attributes,
                              const std::vector<std::string>& names, const std::set<std::string>& writes,
                              const std::set<std::string>& absent, py::object check,
                              const std::shared_ptr<KernelLibrary>& library)
{
    auto function = std::make_unique<TensorFunction>(std::move(framework), std::move(op), std::move(attributes), names,
                                                     writes, absent, std::move(check), library);
    return FunctionOf(std::move(function), "tensor_function", "Run the kernel on tensors.");
}

}  // namespace

void BindTensorFunction(py::module_& module)
{
    py::class_<Framework, std::shared_ptr<Framework>>(
        module, "Framework",
        "The type of tensors, and how their memory is found and made.\n\n"
        "Results are made of NumPy arrays, by `from_numpy`; or where that "
        "is None by `empty(shape, dtype=...)` and `empty_like(tensor)`. `dtypes` are NumPy's or the "
        "framework's, by name. `get_threads`, if given, tells before each "
        "run how many threads it may use.")
        .def(py::init([](py::object tensorType, py::object fromNumpy, py::dict dtypes, py::str dataPointer,
                         py::object empty, py::object emptyLike, py::object getThreads) {
                 return std::make_shared<Framework>(
                     Framework{std::move(tensorType), std::move(fromNumpy), std::move(empty), std::move(emptyLike),
                               std::move(getThreads), std::move(dtypes), std::move(dataPointer)});
             }),
             py::arg("tensor_type"), py::arg("from_numpy"), py::arg("dtypes"), py::arg("data_pointer"),
             py::arg("empty") = py::none(), py::arg("empty_like") = py::none(), py::arg("get_threads") = py::none());
    module.def(
        "tensor_function", &MakeTensorFunction, py::arg("framework"), py::arg("op"), py::arg("attributes"),
        py::arg("names"), py::arg("writes"), py::arg("absent"), py::arg("check"), py::arg("library") = py::none(),
        "A kernel with its attributes, as a function of tensors.\n\n"
        "`names` are those of all inputs, `writes` of those that the kernel changes, `absent` of optional ones "
        "that it does not take. `check`, or None, is called with shapes and attributes once for each combination "
        "of shapes and dtypes, and raises. `library`: another version than this module's own.");
}

}  // namespace ms_ascend_ops::binding
