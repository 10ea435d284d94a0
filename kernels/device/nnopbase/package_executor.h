/*!
 * Declares the executor of an operator of a package, which the functions of its libcust_opapi.so fill (nnopbase.cpp).
 */
#ifndef MS_ASCEND_OPS_DEVICE_NNOPBASE_PACKAGE_EXECUTOR_H
#define MS_ASCEND_OPS_DEVICE_NNOPBASE_PACKAGE_EXECUTOR_H

#include <memory>
#include <string>
#include <vector>

#include "copy_executor.h"
#include "executor.h"
#include "op_host_api.h"
#include "package.h"

namespace ms_ascend_ops {
namespace device {

// A combination of dtypes that an operator takes: of its inputs, then of its outputs.
struct SupportedTypes {
    std::vector<int32_t> inputs;
    std::vector<int32_t> outputs;
};

class PackageExecutor : public aclOpExecutor {
public:
    PackageExecutor(const char* type, size_t inputs, size_t outputs, size_t attributes);

    // Absent: a null pointer. `asIs`: the kernel knows strides.
    void SetInput(size_t index, const aclTensor* tensor, bool asIs);
    void SetOutput(size_t index, const aclTensor* tensor);
    void SetName(size_t index, const char* name, bool isInput);
    void SetReference(size_t input, size_t output);
    void SetAttribute(size_t index, MsAscendHostAttribute value);
    void SetSupport(const std::vector<std::string>& chips, std::vector<std::vector<SupportedTypes>> types);

    // The inputs that are to be copied first, and the copies of those that are outputs, too.
    const aclTensorList* Strided();
    void SetCopies(CopyExecutor* copies, uint64_t bytes);
    CopyExecutor* Copies() const { return copies_.get(); }
    uint64_t CopiesBytes() const { return copiesBytes_; }
    bool StridedReferences(const aclTensorList** strided, const aclTensorList** copies);
    void SetViewCopies(CopyExecutor* copies) { viewCopies_.reset(copies); }
    // One launch carries it out behind the kernel, and owns it; null: there is nothing to copy.
    CopyExecutor* TakeViewCopies() const { return viewCopies_ == nullptr ? nullptr : viewCopies_->Frozen(); }

    aclnnStatus Prepare(uint64_t* workspaceBytes);
    aclnnStatus Launch(void* stream, void* workspace, uint64_t workspaceBytes);

    std::vector<aclTensor*> Tensors(Side side) override;
    std::vector<aclTensor*> List(Side, size_t) override { return {}; }
    void SetAddress(aclTensor& own, void* address) override;

private:
    struct Parameter {
        std::unique_ptr<aclTensor> tensor;
        std::string name;
        bool asIs = false;
        int64_t reference = -1;  // the output that is this input, too
    };

    std::string Name(const Parameter& parameter, size_t index) const;
    aclnnStatus MatchTypes(const std::string& chip);
    aclnnStatus CheckOutputs(const MsAscendHostCall& call);
    aclnnStatus Tile(const MsAscendHostCall& call);
    bool IsEmpty() const;
    TensorView ViewOf(const aclTensor& tensor) const;
    void Write(CallWriter& call, const Parameter& parameter) const;

    const std::string type_;
    std::vector<Parameter> inputs_;
    std::vector<Parameter> outputs_;
    std::vector<MsAscendHostAttribute> attributes_;
    std::vector<std::string> chips_;
    std::vector<std::vector<SupportedTypes>> support_;  // by chips
    aclTensorList strided_;
    std::vector<size_t> stridedInputs_;
    aclTensorList references_;
    aclTensorList referenceCopies_;
    std::unique_ptr<CopyExecutor> copies_;
    std::unique_ptr<CopyExecutor> viewCopies_;
    uint64_t copiesBytes_ = 0;
    const Package* package_ = nullptr;
    size_t row_ = 0;
    std::unique_ptr<MsAscendHostTiling> tiling_;
};

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_NNOPBASE_PACKAGE_EXECUTOR_H
