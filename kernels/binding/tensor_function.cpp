#include "binding/tensor_function.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "binding/output_memory.h"
#include "binding/python_call.h"

namespace ms_ascend_ops::binding {
namespace {

// Combinations of shapes and dtypes that are remembered for one function.
constexpr size_t MOST_PLANS = 4096;

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

struct Plan {
    PlanPointer plan;
    std::vector<Output> outputs;
    std::vector<py::object> dtypes;  // of the inputs: while they live, nothing else has their addresses
};

class TensorFunction {
public:
    TensorFunction(std::shared_ptr<Framework> framework, std::string op, py::dict attributes, std::vector<bool> writes,
                   py::object check)
        : framework_(std::move(framework)),
          op_(std::move(op)),
          attributes_(std::move(attributes)),
          writes_(std::move(writes)),
          check_(std::move(check))
    {}

    // Waits for what MindSpore still computes of the tensors, then runs. None where only MindSpore can: a tensor to be
    // written to that is not contiguous.
    py::object operator()(const py::args& tensors)
    {
        if (tensors.size() != writes_.size()) {
            throw py::type_error(op_ + ": expects " + std::to_string(writes_.size()) + " tensors, got " +
                                 std::to_string(tensors.size()));
        }
        const std::shared_ptr<Plan> plan = FindPlan(tensors);
        std::vector<void*> data(tensors.size() + plan->outputs.size());
        std::vector<py::object> copies;
        for (size_t i = 0; i < tensors.size(); ++i) {
            py::handle tensor = tensors[i];
            if (!Method(tensor, framework_->isContiguous).cast<bool>()) {
                if (writes_[i]) {
                    return py::none();
                }
                copies.push_back(Method(tensor, framework_->contiguous));
                tensor = copies.back();
            }
            data[i] = PyLong_AsVoidPtr(Method(tensor, framework_->dataPointer).ptr());
        }
        py::tuple results(plan->outputs.size());
        for (size_t i = 0; i < plan->outputs.size(); ++i) {
            auto [tensor, memory] = plan->outputs[i].Make(*framework_);
            results[i] = std::move(tensor);
            data[tensors.size() + i] = memory;
        }
        if (!Run(plan->plan, data.data())) {
            throw py::error_already_set();
        }
        return results.size() == 1 ? py::object(results[0]) : py::object(std::move(results));
    }

private:
    static py::object Method(py::handle object, const py::str& name)
    {
        PyObject* result = PyObject_CallMethodNoArgs(object.ptr(), name.ptr());
        if (result == nullptr) {
            throw py::error_already_set();
        }
        return py::reinterpret_steal<py::object>(result);
    }

    std::shared_ptr<Plan> FindPlan(const py::args& tensors)
    {
        std::string key;
        const auto append = [&key](int64_t value) { key.append(reinterpret_cast<const char*>(&value), sizeof(value)); };
        std::vector<py::object> dtypes;
        key.reserve(256);  // enough for most
        dtypes.reserve(tensors.size());
        for (const py::handle tensor : tensors) {
            if (PyObject_TypeCheck(tensor.ptr(), reinterpret_cast<PyTypeObject*>(framework_->tensorType.ptr())) == 0) {
                check_(*tensors);
                throw py::type_error(op_ + ": takes tensors only");
            }
            const py::tuple shape = tensor.attr(framework_->shape);
            append(static_cast<int64_t>(shape.size()));
            for (const py::handle size : shape) {
                append(PyLong_AsLongLong(size.ptr()));
            }
            dtypes.push_back(tensor.attr(framework_->dtype));
            append(reinterpret_cast<int64_t>(dtypes.back().ptr()));
        }
        const auto found = plans_.find(key);
        if (found != plans_.end()) {
            return found->second;
        }
        check_(*tensors);
        std::shared_ptr<Plan> plan = MakePlan(tensors, std::move(dtypes));
        if (plans_.size() >= MOST_PLANS) {
            plans_.clear();
        }
        plans_[key] = plan;
        return plan;
    }

    std::shared_ptr<Plan> MakePlan(const py::args& tensors, std::vector<py::object> dtypes) const
    {
        PythonCall call(op_, attributes_);
        for (size_t i = 0; i < tensors.size(); ++i) {
            auto name = py::cast<std::string>(py::str(dtypes[i]));
            std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
            call.Add(py::cast<PyShape>(tensors[i].attr(framework_->shape)), name);
        }
        auto plan = std::make_shared<Plan>();
        plan->dtypes = std::move(dtypes);
        struct Context {
            const Framework& framework;
            std::vector<Output>& outputs;
        } context{*framework_, plan->outputs};
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
            MsAscendPlan* made = nullptr;
            const MsAscendStatus status = MsAscendOpsPlan(cCall, visit, &context, &made);
            plan->plan.reset(made);
            return status;
        });
        return plan;
    }

    std::shared_ptr<Framework> framework_;
    std::string op_;
    py::dict attributes_;
    std::vector<bool> writes_;  // for every input, whether the kernel changes it
    py::object check_;
    std::unordered_map<std::string, std::shared_ptr<Plan>> plans_;
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
        "`writes` says for every input whether the kernel changes it. `check` is called with the "
        "tensors once for each combination of shapes and dtypes, and raises.")
        .def(py::init<std::shared_ptr<Framework>, std::string, py::dict, std::vector<bool>, py::object>(),
             py::arg("framework"), py::arg("op"), py::arg("attributes"), py::arg("writes"), py::arg("check"))
        .def("__call__", &TensorFunction::operator());
}

}  // namespace ms_ascend_ops::binding
