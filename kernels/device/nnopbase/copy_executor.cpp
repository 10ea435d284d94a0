#include "copy_executor.h"

#include "device/runtime_api.h"

namespace ms_ascend_ops {
namespace device {
namespace {

constexpr uint64_t ALIGNMENT = 512;  // as CANN aligns device memory

}  // namespace

CopyExecutor::CopyExecutor(const std::vector<aclTensor*>& sources)
{
    for (aclTensor* source : sources) {
        auto target = std::make_unique<aclTensor>(*source);
        target->offset = 0;
        target->storage = target->shape;
        int64_t stride = 1;
        for (size_t axis = target->shape.size(); axis > 0; --axis) {
            target->strides[axis - 1] = stride;
            stride *= target->shape[axis - 1];
        }
        places_.push_back(bytes_);
        bytes_ += (target->Bytes() + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
        copies_.emplace_back(source, target.get());
        own_.push_back(std::move(target));
    }
}

CopyExecutor::CopyExecutor(const std::vector<aclTensor*>& sources, const std::vector<aclTensor*>& targets)
{
    for (size_t i = 0; i < sources.size(); ++i) {
        copies_.emplace_back(sources[i], targets[i]);
    }
}

CopyExecutor* CopyExecutor::Frozen() const
{
    auto* const frozen = new CopyExecutor({}, {});
    for (const auto& [source, target] : copies_) {
        frozen->own_.push_back(std::make_unique<aclTensor>(*source));
        frozen->own_.push_back(std::make_unique<aclTensor>(*target));
        frozen->copies_.emplace_back(frozen->own_[frozen->own_.size() - 2].get(), frozen->own_.back().get());
    }
    return frozen;
}

aclnnStatus CopyExecutor::Launch(void* stream, void* workspace)
{
    for (size_t i = 0; i < places_.size(); ++i) {
        copies_[i].second->data = static_cast<char*>(workspace) + places_[i];
    }
    for (const auto& [source, target] : copies_) {
        CallWriter call("aclnnInplaceCopy");
        call.Tensor(target->View());
        call.Tensor(source->View());
        if (MsAscendDeviceCall(stream, call.Bytes().data(), call.Bytes().size()) != 0) {
            return ACLNN_ERR_RUNTIME_ERROR;
        }
    }
    return ACLNN_SUCCESS;
}

}  // namespace device
}  // namespace ms_ascend_ops

namespace dev = ms_ascend_ops::device;

// Looked up by NnopbaseGetApiFunc, as CANN's own are in libopapi.
extern "C" {

aclnnStatus MsAscendContiguousGetWorkspaceSize(const aclTensorList* tensors, uint64_t* bytes, aclOpExecutor** executor)
{
    auto* const copies = new dev::CopyExecutor(tensors->tensors);
    *bytes = copies->WorkspaceBytes();
    *executor = copies;
    return ACLNN_SUCCESS;
}

// The executor belongs to that of the operator.
aclnnStatus MsAscendContiguous(void* workspace, uint64_t, aclOpExecutor* executor, void* stream)
{
    return static_cast<dev::CopyExecutor*>(executor)->Launch(stream, workspace);
}

aclnnStatus MsAscendViewCopyGetWorkspaceSize(const aclTensorList* sources, const aclTensorList* targets,
                                             uint64_t* bytes, aclOpExecutor** executor)
{
    *bytes = 0;
    *executor = new dev::CopyExecutor(sources->tensors, targets->tensors);
    return ACLNN_SUCCESS;
}

// The executor is used once (PackageExecutor::TakeViewCopies).
aclnnStatus MsAscendViewCopy(void*, uint64_t, aclOpExecutor* executor, void* stream)
{
    const std::unique_ptr<dev::CopyExecutor> copies(static_cast<dev::CopyExecutor*>(executor));
    return copies->Launch(stream, nullptr);
}

}  // extern "C"
