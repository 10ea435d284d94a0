/*!
 * Executes copies between tensors on the device, one of each two with strides: what CANN calls aclnnContiguous and
 * aclnnViewCopy.
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_COPY_EXECUTOR_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_COPY_EXECUTOR_H

#include <memory>
#include <utility>
#include <vector>

#include "executor.h"

namespace ms_ascend_ops {
namespace device {

class CopyExecutor : public aclOpExecutor {
public:
    // Into new tensors without strides, which lie in the workspace of a launch.
    explicit CopyExecutor(const std::vector<aclTensor*>& sources);
    CopyExecutor(const std::vector<aclTensor*>& sources, const std::vector<aclTensor*>& targets);

    uint64_t WorkspaceBytes() const { return bytes_; }
    aclTensor* Target(size_t index) const { return copies_[index].second; }
    // Returns a copy with descriptions of the tensors of its own, as they are now.
    CopyExecutor* Frozen() const;
    aclnnStatus Launch(void* stream, void* workspace);

    std::vector<aclTensor*> Tensors(Side) override { return {}; }
    std::vector<aclTensor*> List(Side, size_t) override { return {}; }

private:
    std::vector<std::pair<aclTensor*, aclTensor*>> copies_;  // from, to
    std::vector<std::unique_ptr<aclTensor>> own_;
    std::vector<uint64_t> places_;  // of new tensors in the workspace
    uint64_t bytes_ = 0;
};

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_COPY_EXECUTOR_H
