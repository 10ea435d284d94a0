/*!
 * From a tensor of torch_npu to an aclnn function of the package, and into the stream that is current.
 *
 * An operator of a package has two functions: aclnnXGetWorkspaceSize takes tensors and attributes, and prepares a
 * launch; aclnnX puts it into a stream.
 */
#ifndef EXAMPLES_TORCH_NPU_LAUNCH_H
#define EXAMPLES_TORCH_NPU_LAUNCH_H

#include <torch/extension.h>

#include "aclnn/acl_meta.h"
#include "torch_npu/csrc/core/npu/NPUStream.h"

// CANN's description of a tensor, which owns no memory.
class Described {
public:
    explicit Described(const at::Tensor& tensor)
    {
        TORCH_CHECK(tensor.device().is_privateuseone(), "the tensor must be on an NPU, it is on ", tensor.device());
        const auto sizes = tensor.sizes();
        const auto strides = tensor.strides();
        int64_t reach = tensor.numel() == 0 ? 0 : 1;  // as much of the memory as the tensor reaches
        for (size_t axis = 0; axis < sizes.size() && reach > 0; ++axis) {
            reach += (sizes[axis] - 1) * strides[axis];
        }
        made_ = aclCreateTensor(sizes.data(), sizes.size(), Type(tensor), strides.data(), 0, ACL_FORMAT_ND, &reach, 1,
                                tensor.data_ptr());
        TORCH_CHECK(made_ != nullptr, "aclCreateTensor makes no tensor of ", sizes);
    }
    ~Described() { aclDestroyTensor(made_); }
    Described(const Described&) = delete;
    Described& operator=(const Described&) = delete;

    aclTensor* Get() const { return made_; }

private:
    static aclDataType Type(const at::Tensor& tensor)
    {
        switch (tensor.scalar_type()) {
            case at::kFloat:
                return ACL_FLOAT;
            case at::kHalf:
                return ACL_FLOAT16;
            case at::kBFloat16:
                return ACL_BF16;
            default:
                TORCH_CHECK(false, "the dtype must be of floats, it is ", tensor.dtype());
        }
    }

    aclTensor* made_;
};

inline aclTensor* Argument(const Described& tensor)
{
    return tensor.Get();
}
template <typename T>
T Argument(const T& value)
{
    return value;
}

// Launches an operator in the stream of the tensor's device that is current. Arguments are as aclnnXGetWorkspaceSize
// has them. The workspace goes back to PyTorch's allocator, which keeps the order of the stream.
template <typename Prepare, typename Launch, typename... Arguments>
void Run(const char* name, Prepare prepare, Launch launch, const at::Tensor& where, const Arguments&... arguments)
{
    uint64_t bytes = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus prepared = prepare(Argument(arguments)..., &bytes, &executor);
    TORCH_CHECK(prepared == 0, name, "GetWorkspaceSize returned ", prepared);
    const at::Tensor workspace = at::empty({static_cast<int64_t>(bytes)}, where.options().dtype(at::kByte));
    // torch_npu puts its own operators into the stream from a queue; stream() waits until that is empty.
    const aclrtStream stream = c10_npu::getCurrentNPUStream(where.device().index()).stream();
    const aclnnStatus launched = launch(bytes > 0 ? workspace.data_ptr() : nullptr, bytes, executor, stream);
    TORCH_CHECK(launched == 0, name, " returned ", launched);
}

#endif  // EXAMPLES_TORCH_NPU_LAUNCH_H
