/*!
 * Declares the functions that call an operator in MindSpore's PyNative pipeline, without MindSpore's headers.
 *
 * The classes repeat the layout of include/pynative/utils/pyboost/custom/tensor.h and pyboost_extension.h
 * (MindSpore 2.10, what its CustomOpBuilder compiles against); the functions are those that its libraries export. The
 * wheels are compiled with _GLIBCXX_USE_CXX11_ABI=0: so must this be.
 */
#ifndef MS_ASCEND_OPS_BINDING_MINDSPORE_PYNATIVE_H
#define MS_ASCEND_OPS_BINDING_MINDSPORE_PYNATIVE_H

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#if _GLIBCXX_USE_CXX11_ABI != 0
#error "compile with -D_GLIBCXX_USE_CXX11_ABI=0, as MindSpore's wheels are"
#endif
#pragma GCC visibility push(default)

namespace mindspore {

class Value;
enum TypeId : int {};

namespace tensor {

class Tensor;  // a Value, which is its first base
using TensorPtr = std::shared_ptr<Tensor>;

TensorPtr ConvertToTensor(const pybind11::handle& object);  // waits until it is known what the tensor is
PyObject* PackTensor(const TensorPtr& tensor, bool hasSideEffect);

}  // namespace tensor

namespace device {
class DeviceContext;
}

namespace runtime {

class Pipeline {
public:
    static Pipeline& Get();
    void WaitFrontend();
};

}  // namespace runtime
}  // namespace mindspore

namespace ms {

class Tensor {
public:
    Tensor() = default;
    Tensor(mindspore::TypeId type, const std::vector<int64_t>& shape);
    explicit Tensor(const std::shared_ptr<mindspore::Value>& value);

    mindspore::TypeId data_type() const;
    const std::vector<int64_t>& shape() const;
    std::vector<int64_t> stride() const;
    void SetNeedContiguous(bool flag) const;
    void* GetDataPtr() const;  // of the first element
    const mindspore::tensor::TensorPtr& tensor() const;

private:
    std::shared_ptr<void> holder_;
};

namespace pynative {

class PyboostRunner : public std::enable_shared_from_this<PyboostRunner> {
public:
    explicit PyboostRunner(const std::string& name);
    virtual ~PyboostRunner() = default;

    // Has the functions below called by the threads of the pipeline, in the order of all operators.
    void Run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& outputs);
    virtual size_t CalcWorkspace() { return 0; }  // the tensors have their memory
    virtual void ProcessWithWorkspace() {}
    virtual void LaunchKernel() = 0;

protected:
    virtual void _Run();
    virtual void _PrepareStream();
    virtual void _PrepareDeviceAddress();
    virtual void _MallocDeviceAddress();
    virtual void _MallocWorkspace();
    virtual void _DispatchLaunchTask();

    std::string name_;
    std::vector<Tensor> inputs_;
    std::vector<Tensor> outputs_;
    size_t streamId_{0};
    void* stream_{nullptr};
    mindspore::device::DeviceContext* deviceContext_{nullptr};
    void* workspace_{nullptr};
};

}  // namespace pynative
}  // namespace ms

#pragma GCC visibility pop

#endif  // MS_ASCEND_OPS_BINDING_MINDSPORE_PYNATIVE_H
