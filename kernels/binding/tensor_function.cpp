#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binding/output_memory.h"
#include "binding/python_call.h"

namespace ms_ascend_ops::binding {
namespace {

// Combinations of shapes and dtypes that are remembered for one function.
constexpr size_t MOST_PREPARED = 4096;

// What of MindSpore is needed, so that this module can do without it.
struct Framework {
    py::object tensorType;
    py::object fromNumpy;  // shares the memory
    py::dict dtypes;       // name: NumPy's dtype; bfloat16 is MindSpore's own
    py::str shape = "shape";
    py::str dtype = "dtype";
    py::str isContiguous = "is_contiguous";
    py::str contiguous = "contiguous";
    py::str dataPointer = "_data_ptr";
};

struct Output {
    py::dtype dtype;
    PyShape shape;
    size_t bytes;

    // A tensor and its memory.
    std::pair<py::object, void*> Make(const Framework& framework) const
    {
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
                   const std::set<std::string>& absent, py::object check)
        : framework_(std::move(framework)),
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

    // Waits for what MindSpore still computes of the tensors, then runs. None where only MindSpore can: a tensor to be
    // written to that is not contiguous.
    py::object operator()(const py::args& tensors)
    {
        if (tensors.size() != given_.size()) {
            throw py::type_error(op_ + ": expects " + std::to_string(given_.size()) + " tensors, got " +
                                 std::to_string(tensors.size()));
        }
        const std::shared_ptr<Prepared> prepared = FindPrepared(tensors);
        std::vector<void*> data(count_ + prepared->outputs.size());  // null where an input is absent
        std::vector<py::object> copies;
        for (size_t i = 0; i < tensors.size(); ++i) {
            py::handle tensor = tensors[i];
            if (!Method(tensor, framework_->isContiguous).cast<bool>()) {
                if (given_[i].isWritten) {
                    return py::none();
                }
                copies.push_back(Method(tensor, framework_->contiguous));
                tensor = copies.back();
            }
            data[given_[i].position] = PyLong_AsVoidPtr(Method(tensor, framework_->dataPointer).ptr());
        }
        py::tuple results(prepared->outputs.size());
        for (size_t i = 0; i < prepared->outputs.size(); ++i) {
            auto [tensor, memory] = prepared->outputs[i].Make(*framework_);
            results[i] = std::move(tensor);
            data[count_ + i] = memory;
        }
        if (!Run(prepared->launch, data.data())) {
            throw py::error_already_set();
        }
        return results.size() == 1 ? py::object(results[0]) : py::object(std::move(results));
    }

private:
    struct Input {
        size_t position;  // among all
        std::string name;
        bool isWritten;  // by the kernel
    };

    static py::object Method(py::handle object, const py::str& name)
    {
        PyObject* result = PyObject_CallMethodNoArgs(object.ptr(), name.ptr());
        if (result == nullptr) {
            throw py::error_already_set();
        }
        return py::reinterpret_steal<py::object>(result);
    }

    std::shared_ptr<Prepared> FindPrepared(const py::args& tensors)
    {
        std::string key;
        const auto append = [&key](int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
        std::vector<py::object> dtypes;
        key.reserve(256);  // enough for most
        dtypes.reserve(tensors.size());
        for (const py::handle tensor : tensors) {
            if (PyObject_TypeCheck(tensor.ptr(), reinterpret_cast<PyTypeObject*>(framework_->tensorType.ptr())) == 0) {
                throw py::type_error(op_ + ": " + given_[dtypes.size()].name + " must be a Tensor, got " +
                                     py::cast<std::string>(py::type::handle_of(tensor).attr("__name__")));
            }
            const py::tuple shape = tensor.attr(framework_->shape);
            append(static_cast<int64_t>(shape.size()));
            for (const py::handle size : shape) {
                append(PyLong_AsLongLong(size.ptr()));
            }
            dtypes.push_back(tensor.attr(framework_->dtype));
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
            for (size_t i = 0; i < tensors.size(); ++i) {
                shapes[given_[i].position] = tensors[i].attr(framework_->shape);
            }
            check_(shapes, attributes_);
        }
        if (prepared_.size() >= MOST_PREPARED) {
            prepared_.clear();
        }
        prepared_[key] = prepared;
        return prepared;
    }

    std::shared_ptr<Prepared> Prepare(const py::args& tensors, std::vector<py::object> dtypes) const
    {
        PythonCall call(op_, attributes_);
        for (size_t i = 0, position = 0; position < count_; ++position) {
            if (i == given_.size() || given_[i].position != position) {
                call.AddAbsent();
                continue;
            }
            auto name = py::cast<std::string>(py::str(dtypes[i]));
            std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
            call.Add(py::cast<PyShape>(tensors[i++].attr(framework_->shape)), name);
        }
        auto prepared = std::make_shared<Prepared>();
        prepared->dtypes = std::move(dtypes);
        struct Context {
            const Framework& framework;
            std::vector<Output>& outputs;
        } context{*framework_, prepared->outputs};
        call.Invoke([&](const MsAscendCall* cCall) {
            const auto visit = [](void* pointer, const char* name, const int64_t* shape, int32_t rank) {
                auto& into = *static_cast<Context*>(pointer);
                Output output{py::dtype::from_args(into.framework.dtypes[name]), PyShape(shape, shape + rank), 0};
                output.bytes = static_cast<size_t>(output.dtype.itemsize());
                for (const int64_t size : output.shape) {
                    output.bytes *= static_cast<size_t>(size);
                }
                into.outputs.push_back(std::move(output));
            };
            MsAscendPrepared* made = nullptr;
            const MsAscendStatus status = MsAscendOpsPrepare(cCall, visit, &context, &made);
            prepared->launch.reset(made);
            return status;
        });
        return prepared;
    }

    std::shared_ptr<Framework> framework_;
    std::string op_;
    py::dict attributes_;
    size_t count_;              // of all inputs
    std::vector<Input> given_;  // those that are not absent
    py::object check_;
    std::unordered_map<std::string, std::shared_ptr<Prepared>> prepared_;
};

}  // namespace

void BindTensorFunction(py::module_& module)
{
    py::class_<Framework, std::shared_ptr<Framework>>(module, "Framework",
                                                      "The type of tensors, what makes one of an array without a copy, "
                                                      "and NumPy's dtypes by name.")
        .def(py::init([](py::object tensorType, py::object fromNumpy, py::dict dtypes) {
                 return std::make_shared<Framework>(
                     Framework{std::move(tensorType), std::move(fromNumpy), std::move(dtypes)});
             }),
             py::arg("tensor_type"), py::arg("from_numpy"), py::arg("dtypes"));
    py::class_<TensorFunction>(
        module, "TensorFunction",
        "A kernel with its attributes, as a function of tensors.\n\n"
        "`names` are those of all inputs, `writes` of those that the kernel changes, `absent` of optional ones that it "
        "does not take. `check`, or None, is called with shapes and attributes once for each combination of shapes and "
        "dtypes, and raises.")
        .def(py::init<std::shared_ptr<Framework>, std::string, py::dict, std::vector<std::string>,
                      std::set<std::string>, std::set<std::string>, py::object>(),
             py::arg("framework"), py::arg("op"), py::arg("attributes"), py::arg("names"), py::arg("writes"),
             py::arg("absent"), py::arg("check"))
        .def("__call__", &TensorFunction::operator());
}

}  // namespace ms_ascend_ops::binding
