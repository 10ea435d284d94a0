/*!
 * This is ms_ascend_ops._pynative. It calls an aclnn function in MindSpore's PyNative pipeline, as MindSpore does for
 * its own operators. The caller goes on at once; the pipeline's threads allocate, prepare and launch.
 */
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "binding/mindspore_pynative.h"

namespace py = pybind11;

namespace ms_ascend_ops::binding {
namespace {

// Holds functions of CANN by their addresses, and its numbers of dtypes and layouts.
struct Cann {
    void* (*createTensor)(const int64_t*, uint64_t, int32_t, const int64_t*, int64_t, int32_t, const int64_t*, uint64_t,
                          void*);
    int32_t (*destroyTensor)(const void*);
    const char* (*lastError)();
    std::vector<std::pair<int, int32_t>> dtypes;  // by MindSpore's numbers
    int32_t layout;

    int32_t Dtype(int type) const
    {
        for (const auto& [own, cann] : dtypes) {
            if (own == type) {
                return cann;
            }
        }
        throw std::runtime_error("CANN has no number for the dtype " + std::to_string(type) + " of MindSpore");
    }
};

// This generated function of the kernel library calls the aclnn function (codegen/host.py).
using Prepare = int (*)(void*, std::vector<void*>, std::vector<void*>, uint64_t*, void**);
using Launch = int (*)(void*, uint64_t, void*, void*);

// Holds an operator with its attributes.
struct Function {
    std::shared_ptr<const Cann> cann;
    std::string operatorName;
    std::string aclnnName;
    Prepare prepare;
    void* getWorkspaceSize;
    Launch launch;
    std::vector<bool> isGiven;  // of the operator's inputs
    std::vector<int64_t> integers;
    std::vector<double> reals;
    std::vector<std::pair<char, size_t>> attributes;  // 'i' or 'r', and where

    void Check(int status, const char* part) const
    {
        if (status != 0) {
            const char* const reason = cann->lastError();
            const std::string text = reason == nullptr ? "" : reason;
            const size_t end = text.find_last_not_of(" \n");
            throw std::runtime_error(operatorName + ": " + aclnnName + part + " returned " + std::to_string(status) +
                                     (end == std::string::npos ? "" : ": " + text.substr(0, end + 1)));
        }
    }
};

class Call final : public ms::pynative::PyboostRunner {
public:
    explicit Call(std::shared_ptr<const Function> function)
        : PyboostRunner(function->aclnnName), function_(std::move(function))
    {}
    ~Call() override { Destroy(); }

    size_t CalcWorkspace() override
    {
        std::vector<void*> inputs;
        std::vector<void*> outputs;
        size_t next = 0;
        for (const bool isGiven : function_->isGiven) {
            inputs.push_back(isGiven ? Create(inputs_[next++]) : nullptr);
        }
        for (const ms::Tensor& tensor : outputs_) {
            outputs.push_back(Create(tensor));
        }
        for (const auto& [kind, place] : function_->attributes) {
            const void* const value = kind == 'i' ? static_cast<const void*>(&function_->integers[place])
                                                  : static_cast<const void*>(&function_->reals[place]);
            inputs.push_back(const_cast<void*>(value));
        }
        function_->Check(function_->prepare(function_->getWorkspaceSize, inputs, outputs, &bytes_, &executor_),
                         "GetWorkspaceSize");
        return bytes_;
    }

    void LaunchKernel() override
    {
        const int status = function_->launch(workspace_, bytes_, executor_, stream_);
        Destroy();
        function_->Check(status, "");
    }

private:
    void* Create(const ms::Tensor& tensor)
    {
        const std::vector<int64_t>& shape = tensor.shape();
        const std::vector<int64_t> strides = tensor.stride();
        int64_t reach = 1;  // the tensor reaches so far in the memory
        for (size_t i = 0; i < shape.size() && reach > 0; ++i) {
            reach = shape[i] == 0 ? 0 : reach + (shape[i] - 1) * strides[i];
        }
        void* const made =
            function_->cann->createTensor(shape.data(), shape.size(), function_->cann->Dtype(tensor.data_type()),
                                          strides.data(), 0, function_->cann->layout, &reach, 1, tensor.GetDataPtr());
        if (made == nullptr) {
            throw std::runtime_error(function_->operatorName + ": CANN makes no tensor (aclCreateTensor)");
        }
        tensors_.push_back(made);
        return made;
    }

    void Destroy()
    {
        for (const void* const tensor : tensors_) {
            function_->cann->destroyTensor(tensor);
        }
        tensors_.clear();
    }

    std::shared_ptr<const Function> function_;
    std::vector<void*> tensors_;
    uint64_t bytes_ = 0;
    void* executor_ = nullptr;
};

std::vector<py::object> Run(const std::shared_ptr<const Function>& function, const py::tuple& tensors,
                            const std::vector<std::pair<int, std::vector<int64_t>>>& results)
{
    std::vector<ms::Tensor> inputs;
    std::vector<ms::Tensor> outputs;
    for (const py::handle tensor : tensors) {
        const auto found = mindspore::tensor::ConvertToTensor(tensor);
        inputs.emplace_back(std::reinterpret_pointer_cast<mindspore::Value>(found));
    }
    {
        const py::gil_scoped_release release;
        // Earlier calls may still be on their way to where this one goes at once.
        mindspore::runtime::Pipeline::Get().WaitFrontend();
        for (const auto& [type, shape] : results) {
            outputs.emplace_back(static_cast<mindspore::TypeId>(type), shape);
        }
        std::make_shared<Call>(function)->Run(inputs, outputs);
    }
    std::vector<py::object> made;
    for (const ms::Tensor& output : outputs) {
        made.push_back(py::reinterpret_steal<py::object>(mindspore::tensor::PackTensor(output.tensor(), false)));
    }
    return made;
}

std::shared_ptr<Function> MakeFunction(std::shared_ptr<Cann> cann, const std::string& operatorName,
                                       const std::string& aclnnName, const std::vector<uintptr_t>& addresses,
                                       const std::vector<bool>& isGiven, const py::tuple& attributes)
{
    auto made = std::make_shared<Function>();
    made->cann = std::move(cann);
    made->operatorName = operatorName;
    made->aclnnName = aclnnName;
    made->prepare = reinterpret_cast<Prepare>(addresses.at(0));
    made->getWorkspaceSize = reinterpret_cast<void*>(addresses.at(1));
    made->launch = reinterpret_cast<Launch>(addresses.at(2));
    made->isGiven = isGiven;
    for (const py::handle value : attributes) {
        const bool isReal = py::isinstance<py::float_>(value);
        made->attributes.emplace_back(isReal ? 'r' : 'i', isReal ? made->reals.size() : made->integers.size());
        if (isReal) {
            made->reals.push_back(value.cast<double>());
        } else {
            made->integers.push_back(value.cast<int64_t>());
        }
    }
    return made;
}

std::shared_ptr<Cann> MakeCann(const std::vector<uintptr_t>& addresses,
                               const std::vector<std::pair<int, int32_t>>& dtypes, int32_t layout)
{
    auto made = std::make_shared<Cann>();
    made->createTensor = reinterpret_cast<decltype(made->createTensor)>(addresses.at(0));
    made->destroyTensor = reinterpret_cast<decltype(made->destroyTensor)>(addresses.at(1));
    made->lastError = reinterpret_cast<decltype(made->lastError)>(addresses.at(2));
    made->dtypes = dtypes;
    made->layout = layout;
    return made;
}

}  // namespace
}  // namespace ms_ascend_ops::binding

PYBIND11_MODULE(_pynative, module)
{
    using namespace ms_ascend_ops::binding;
    module.doc() = "Calls of aclnn functions in MindSpore's PyNative pipeline.";
    py::class_<Cann, std::shared_ptr<Cann>>(module, "Cann").def(py::init(&MakeCann));
    py::class_<Function, std::shared_ptr<Function>>(module, "Function")
        .def(py::init(&MakeFunction))
        .def("__call__", [](const std::shared_ptr<Function>& function, const py::tuple& tensors,
                            const std::vector<std::pair<int, std::vector<int64_t>>>& results) {
            return Run(function, tensors, results);
        });
}
