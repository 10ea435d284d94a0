#include "package_executor.h"

#include <algorithm>

#include "device/runtime_api.h"

namespace ms_ascend_ops {
namespace device {
namespace {

std::unique_ptr<aclTensor> CopyOf(const aclTensor* tensor)
{
    return tensor == nullptr ? nullptr : std::make_unique<aclTensor>(*tensor);
}

std::string Names(const std::vector<std::string>& names)
{
    std::string text;
    for (const std::string& name : names) {
        text += (text.empty() ? "" : ", ") + name;
    }
    return text;
}

}  // namespace

PackageExecutor::PackageExecutor(const char* type, size_t inputs, size_t outputs, size_t attributes)
    : type_(type), inputs_(inputs), outputs_(outputs), attributes_(attributes)
{}

void PackageExecutor::SetInput(size_t index, const aclTensor* tensor, bool asIs)
{
    inputs_.at(index).tensor = CopyOf(tensor);
    inputs_[index].asIs = asIs;
}

void PackageExecutor::SetOutput(size_t index, const aclTensor* tensor)
{
    outputs_.at(index).tensor = CopyOf(tensor);
}

void PackageExecutor::SetName(size_t index, const char* name, bool isInput)
{
    (isInput ? inputs_ : outputs_).at(index).name = name;
}

void PackageExecutor::SetReference(size_t input, size_t output)
{
    inputs_.at(input).reference = static_cast<int64_t>(output);
    outputs_.at(output).reference = static_cast<int64_t>(input);
}

void PackageExecutor::SetAttribute(size_t index, MsAscendHostAttribute value)
{
    attributes_.at(index) = value;
}

void PackageExecutor::SetSupport(const std::vector<std::string>& chips, std::vector<std::vector<SupportedTypes>> types)
{
    chips_ = chips;
    support_ = std::move(types);
}

const aclTensorList* PackageExecutor::Strided()
{
    strided_.tensors.clear();
    stridedInputs_.clear();
    for (size_t i = 0; i < inputs_.size(); ++i) {
        const Parameter& input = inputs_[i];
        if (input.tensor != nullptr && !input.asIs && !input.tensor->IsContiguous()) {
            strided_.tensors.push_back(input.tensor.get());
            stridedInputs_.push_back(i);
        }
    }
    return strided_.tensors.empty() ? nullptr : &strided_;
}

void PackageExecutor::SetCopies(CopyExecutor* copies, uint64_t bytes)
{
    copies_.reset(copies);
    copiesBytes_ = bytes;
}

bool PackageExecutor::StridedReferences(const aclTensorList** strided, const aclTensorList** copies)
{
    references_.tensors.clear();
    referenceCopies_.tensors.clear();
    for (size_t i = 0; i < stridedInputs_.size(); ++i) {
        if (inputs_[stridedInputs_[i]].reference >= 0) {
            references_.tensors.push_back(strided_.tensors[i]);
            referenceCopies_.tensors.push_back(copies_->Target(i));
        }
    }
    const bool found = !references_.tensors.empty();
    *strided = found ? &references_ : nullptr;
    *copies = found ? &referenceCopies_ : nullptr;
    return found;
}

std::string PackageExecutor::Name(const Parameter& parameter, size_t index) const
{
    return parameter.name.empty() ? "tensor " + std::to_string(index) : parameter.name;
}

// The row of the first combination of dtypes that fits.
aclnnStatus PackageExecutor::MatchTypes(const std::string& chip)
{
    const auto place = std::find(chips_.begin(), chips_.end(), chip);
    if (place == chips_.end()) {
        return Refuse(ACLNN_ERR_PARAM_INVALID,
                      type_ + ": its aclnn function was made for " + Names(chips_) + ", but this chip is " + chip);
    }
    const std::vector<SupportedTypes>& rows = support_[static_cast<size_t>(place - chips_.begin())];
    const auto fits = [](const std::vector<Parameter>& parameters, const std::vector<int32_t>& types) {
        return std::equal(parameters.begin(), parameters.end(), types.begin(), types.end(),
                          [](const Parameter& parameter, int32_t dtype) {
                              return parameter.tensor == nullptr || parameter.tensor->dtype == dtype;
                          });
    };
    const auto row = std::find_if(rows.begin(), rows.end(), [&](const SupportedTypes& types) {
        return fits(inputs_, types.inputs) && fits(outputs_, types.outputs);
    });
    if (row != rows.end()) {
        row_ = static_cast<size_t>(row - rows.begin());
        return ACLNN_SUCCESS;
    }
    std::string given;
    size_t index = 0;
    for (const auto* const parameters : {&inputs_, &outputs_}) {
        for (const Parameter& parameter : *parameters) {
            given += (given.empty() ? "" : ", ") + Name(parameter, index++) + " " +
                     (parameter.tensor == nullptr ? "(absent)" : NameOfType(parameter.tensor->dtype));
        }
    }
    return Refuse(ACLNN_ERR_PARAM_INVALID,
                  type_ + ": none of the combinations of dtypes that it takes on " + chip + " is: " + given);
}

// An empty output is written by nobody.
bool PackageExecutor::IsEmpty() const
{
    return std::all_of(outputs_.begin(), outputs_.end(),
                       [](const Parameter& output) { return output.tensor == nullptr || output.tensor->IsEmpty(); });
}

aclnnStatus PackageExecutor::CheckOutputs(const MsAscendHostCall& call)
{
    std::vector<MsAscendHostShape> shapes(outputs_.size());
    if (package_->host.inferShape(&call, shapes.data()) != 0) {
        return Refuse(ACLNN_ERR_INNER_INFERSHAPE_ERROR, type_ + ": " + package_->host.inferenceReason());
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
        const aclTensor* const given = outputs_[i].tensor.get();
        const std::vector<int64_t> inferred(shapes[i].sizes, shapes[i].sizes + shapes[i].rank);
        if (given == nullptr) {
            return Refuse(ACLNN_ERR_PARAM_NULLPTR, type_ + ": the output " + Name(outputs_[i], i) + " is missing");
        }
        if (given->shape != inferred) {
            return Refuse(ACLNN_ERR_PARAM_INVALID, type_ + ": " + Name(outputs_[i], i) + ".shape must be " +
                                                       ToText(inferred) + ", got " + ToText(given->shape));
        }
        if (outputs_[i].reference < 0 && !given->IsContiguous()) {
            return Refuse(ACLNN_ERR_PARAM_INVALID,
                          type_ + ": " + Name(outputs_[i], i) + " must be contiguous: a kernel writes it in one piece");
        }
    }
    return ACLNN_SUCCESS;
}

aclnnStatus PackageExecutor::Tile(const MsAscendHostCall& call)
{
    const MsAscendDeviceChip& chip = *MsAscendDeviceGetChip();
    const MsAscendHostChip sizes{chip.vectorCores, chip.ubBytes};
    tiling_ = std::make_unique<MsAscendHostTiling>();
    if (package_->host.tile(&call, &sizes, tiling_.get()) != 0) {
        return Refuse(ACLNN_ERR_INNER_TILING_ERROR, type_ + ": " + package_->host.tilingReason());
    }
    return ACLNN_SUCCESS;
}

aclnnStatus PackageExecutor::Prepare(uint64_t* workspaceBytes)
{
    *workspaceBytes = 0;
    const MsAscendDeviceChip* const chip = MsAscendDeviceGetChip();
    if (chip == nullptr) {
        return Refuse(ACLNN_ERR_RUNTIME_ERROR, type_ + ": no device was set (aclrtSetDevice)");
    }
    if (const aclnnStatus status = MatchTypes(chip->computeUnit); status != ACLNN_SUCCESS) {
        return status;
    }
    std::string searched;
    package_ = FindPackage(type_, chip->computeUnit, searched);
    if (package_ == nullptr) {
        return Refuse(ACLNN_ERR_INNER_FIND_KERNEL_ERROR,
                      type_ + ": no package has it for " + chip->computeUnit + "; ASCEND_CUSTOM_OPP_PATH and " +
                          "$ASCEND_OPP_PATH/vendors name " + (searched.empty() ? "no folder" : searched));
    }
    if (package_->host.tile == nullptr) {  // of CANN: its computation is known by name
        return ACLNN_SUCCESS;
    }
    if (package_->host.inferShape == nullptr) {
        return Refuse(ACLNN_ERR_INNER_INFERSHAPE_ERROR,
                      type_ + ": the package at " + package_->folder + " has no libcust_opsproto_rt2.0.so in op_proto");
    }
    std::vector<MsAscendHostTensor> tensors;
    for (const Parameter& input : inputs_) {
        const aclTensor* const tensor = input.tensor.get();
        tensors.push_back(
            tensor == nullptr
                ? MsAscendHostTensor{0, -1, nullptr}
                : MsAscendHostTensor{tensor->dtype, static_cast<int32_t>(tensor->shape.size()), tensor->shape.data()});
    }
    const MsAscendHostCall call{type_.c_str(), tensors.data(), tensors.size(), attributes_.data(), attributes_.size()};
    if (!IsEmpty()) {
        if (const aclnnStatus status = Tile(call); status != ACLNN_SUCCESS) {
            return status;
        }
        *workspaceBytes = tiling_->workspaceBytes;
    }
    return CheckOutputs(call);
}

// Returns where the kernel finds a tensor: a copy, if it has strides.
TensorView PackageExecutor::ViewOf(const aclTensor& tensor) const
{
    const aclTensor* used = &tensor;
    for (size_t i = 0; i < strided_.tensors.size() && copies_ != nullptr; ++i) {
        const Parameter& input = inputs_[stridedInputs_[i]];
        const bool isReference =
            input.reference >= 0 && outputs_[static_cast<size_t>(input.reference)].tensor.get() == &tensor;
        if (strided_.tensors[i] == &tensor || isReference) {
            used = copies_->Target(i);
        }
    }
    TensorView view = used->View();
    view.address = reinterpret_cast<uint64_t>(used->Begin());
    view.offset = 0;
    return view;
}

void PackageExecutor::Write(CallWriter& call, const Parameter& parameter) const
{
    if (parameter.tensor == nullptr) {
        call.None();
    } else {
        call.Tensor(ViewOf(*parameter.tensor));
    }
}

aclnnStatus PackageExecutor::Launch(void* stream, void* workspace, uint64_t workspaceBytes)
{
    if (IsEmpty()) {
        return ACLNN_SUCCESS;
    }
    const uint64_t needed = tiling_ == nullptr ? 0 : tiling_->workspaceBytes;
    if (workspaceBytes > 0 && workspace == nullptr) {
        return Refuse(ACLNN_ERR_PARAM_NULLPTR, type_ + ": the workspace must not be a null pointer");
    }
    if (workspaceBytes < needed) {
        return Refuse(ACLNN_ERR_PARAM_INVALID, type_ + ": the workspace must have " + std::to_string(needed) +
                                                   " bytes, got " + std::to_string(workspaceBytes));
    }
    CallWriter call(tiling_ == nullptr ? type_ : "kernel");
    if (tiling_ != nullptr) {
        call.String(type_);
        call.Int(static_cast<int64_t>(row_));
        call.Int(tiling_->blockDim);
        call.Int(static_cast<int64_t>(tiling_->tilingKey));
        call.Blob(tiling_->data, tiling_->dataBytes);
        call.Int(static_cast<int64_t>(reinterpret_cast<uint64_t>(workspace)));
        call.Int(static_cast<int64_t>(needed));
    }
    for (const Parameter& input : inputs_) {
        Write(call, input);
    }
    for (const Parameter& output : outputs_) {
        Write(call, output);
    }
    return MsAscendDeviceCall(stream, call.Bytes().data(), call.Bytes().size()) == 0 ? ACLNN_SUCCESS
                                                                                     : ACLNN_ERR_RUNTIME_ERROR;
}

// Numbers them as CANN does: outputs that are inputs, too, count among the outputs.
std::vector<aclTensor*> PackageExecutor::Tensors(Side side)
{
    std::vector<aclTensor*> tensors;
    for (const auto* const parameters : {&inputs_, &outputs_}) {
        if (side == Side::BOTH || (parameters == &inputs_) == (side == Side::INPUTS)) {
            for (const Parameter& parameter : *parameters) {
                tensors.push_back(parameter.tensor.get());
            }
        }
    }
    return tensors;
}

void PackageExecutor::SetAddress(aclTensor& own, void* address)
{
    own.data = address;
    for (const Parameter& input : inputs_) {
        if (input.tensor.get() == &own && input.reference >= 0) {
            outputs_[static_cast<size_t>(input.reference)].tensor->data = address;
        }
    }
}

}  // namespace device
}  // namespace ms_ascend_ops
