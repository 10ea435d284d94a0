#include "builtin_api.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "device/runtime_api.h"
#include "executor.h"

extern "C" {
int aclrtSynchronizeStream(void* stream);
int aclrtMemcpy(void* to, size_t room, const void* from, size_t bytes, int kind);
}

namespace ms_ascend_ops {
namespace device {
namespace {

constexpr int DEVICE_TO_HOST = 2;
constexpr size_t SHAPE_SIZES = 9;  // what the device writes of an output's shape: the rank, and up to eight sizes

// An operator of CANN itself: its arguments, of which tensors stay as they are while others are in the call.
class BuiltinExecutor : public aclOpExecutor {
public:
    explicit BuiltinExecutor(const char* function) : function_(function) {}

    aclnnStatus Add(const MsAscendArgument& argument);
    aclnnStatus Launch(void* workspace, void* stream);
    size_t WorkspaceBytes() const { return dynamic_.size() * SHAPE_SIZES * sizeof(int64_t); }

    std::vector<aclTensor*> Tensors(Side) override;
    std::vector<aclTensor*> List(Side, size_t argument) override;
    aclTensor* OwnOf(const aclTensor* given) override;

private:
    struct Value {
        MsAscendArgumentKind kind;
        std::vector<std::unique_ptr<aclTensor>> tensors;
        std::vector<const aclTensor*> given;
        aclScalar scalar;
        std::vector<int64_t> integers;
        std::vector<double> reals;
        std::string text;
        bool isAbsent = false;
    };

    void Keep(Value& value, const aclTensor* tensor);
    static void Write(CallWriter& call, const Value& value);
    aclnnStatus TakeShapes(const void* workspace, void* stream);

    const std::string function_;
    std::vector<Value> values_;
    std::vector<aclTensor*> dynamic_;  // the caller's tensors whose shapes the device tells; null: absent
};

double RealOf(const aclScalar& scalar);

void BuiltinExecutor::Keep(Value& value, const aclTensor* tensor)
{
    value.given.push_back(tensor);
    value.tensors.push_back(std::make_unique<aclTensor>(*tensor));
}

aclnnStatus BuiltinExecutor::Add(const MsAscendArgument& argument)
{
    Value value{};
    value.kind = argument.kind;
    if (argument.dynamic) {
        dynamic_.push_back(static_cast<aclTensor*>(const_cast<void*>(argument.object)));
    }
    const bool isObject = argument.kind != MS_ASCEND_INT && argument.kind != MS_ASCEND_REAL;
    if (isObject && argument.object == nullptr) {
        if (!argument.optional) {
            return Refuse(ACLNN_ERR_PARAM_NULLPTR, function_ + ": " + argument.name + " must not be a null pointer");
        }
        value.isAbsent = true;
        values_.push_back(std::move(value));
        return ACLNN_SUCCESS;
    }
    switch (argument.kind) {
        case MS_ASCEND_TENSOR:
            Keep(value, static_cast<const aclTensor*>(argument.object));
            break;
        case MS_ASCEND_TENSORS:
            for (const aclTensor* tensor : static_cast<const aclTensorList*>(argument.object)->tensors) {
                Keep(value, tensor);
            }
            break;
        case MS_ASCEND_SCALAR:
            value.scalar = *static_cast<const aclScalar*>(argument.object);
            break;
        case MS_ASCEND_SCALARS:
            for (const aclScalar* scalar : static_cast<const aclScalarList*>(argument.object)->scalars) {
                value.reals.push_back(RealOf(*scalar));
            }
            break;
        case MS_ASCEND_INTS:
            value.integers = static_cast<const aclIntArray*>(argument.object)->values;
            break;
        case MS_ASCEND_BOOLS: {
            const auto& flags = static_cast<const aclBoolArray*>(argument.object)->values;
            value.integers.assign(flags.begin(), flags.end());
            break;
        }
        case MS_ASCEND_FLOATS: {
            const auto& floats = static_cast<const aclFloatArray*>(argument.object)->values;
            value.reals.assign(floats.begin(), floats.end());
            break;
        }
        case MS_ASCEND_TEXT:
            value.text = static_cast<const char*>(argument.object);
            break;
        case MS_ASCEND_INT:
            value.integers = {argument.integer};
            break;
        case MS_ASCEND_REAL:
            value.reals = {argument.real};
            break;
    }
    values_.push_back(std::move(value));
    return ACLNN_SUCCESS;
}

void BuiltinExecutor::Write(CallWriter& call, const Value& value)
{
    if (value.isAbsent) {
        call.None();
        return;
    }
    std::vector<TensorView> views;
    switch (value.kind) {
        case MS_ASCEND_TENSOR:
            call.Tensor(value.tensors[0]->View());
            break;
        case MS_ASCEND_TENSORS:
            for (const auto& tensor : value.tensors) {
                views.push_back(tensor->View());
            }
            call.Tensors(views);
            break;
        case MS_ASCEND_SCALAR:
            call.Scalar(value.scalar.dtype, value.scalar.value);
            break;
        case MS_ASCEND_SCALARS:
        case MS_ASCEND_FLOATS:
            call.Reals(value.reals);
            break;
        case MS_ASCEND_INTS:
        case MS_ASCEND_BOOLS:
            call.Ints(value.integers);
            break;
        case MS_ASCEND_TEXT:
            call.String(value.text);
            break;
        case MS_ASCEND_INT:
            call.Int(value.integers[0]);
            break;
        case MS_ASCEND_REAL:
            call.Real(value.reals[0]);
            break;
    }
}

aclnnStatus BuiltinExecutor::Launch(void* workspace, void* stream)
{
    CallWriter call(function_);
    for (const Value& value : values_) {
        Write(call, value);
    }
    if (!dynamic_.empty()) {
        call.Int(reinterpret_cast<int64_t>(workspace));
    }
    if (MsAscendDeviceCall(stream, call.Bytes().data(), call.Bytes().size()) != 0) {
        return ACLNN_ERR_RUNTIME_ERROR;
    }
    return dynamic_.empty() ? ACLNN_SUCCESS : TakeShapes(workspace, stream);
}

aclnnStatus BuiltinExecutor::TakeShapes(const void* workspace, void* stream)
{
    std::vector<int64_t> told(dynamic_.size() * SHAPE_SIZES);
    if (aclrtSynchronizeStream(stream) != 0 ||
        aclrtMemcpy(told.data(), WorkspaceBytes(), workspace, WorkspaceBytes(), DEVICE_TO_HOST) != 0) {
        return ACLNN_ERR_RUNTIME_ERROR;
    }
    for (size_t i = 0; i < dynamic_.size(); ++i) {
        if (dynamic_[i] != nullptr) {
            const auto sizes = told.begin() + static_cast<ptrdiff_t>(i * SHAPE_SIZES);
            dynamic_[i]->shape.assign(sizes + 1, sizes + 1 + *sizes);
        }
    }
    return ACLNN_SUCCESS;
}

std::vector<aclTensor*> BuiltinExecutor::Tensors(Side)
{
    std::vector<aclTensor*> tensors;
    for (const Value& value : values_) {
        for (const auto& tensor : value.tensors) {
            tensors.push_back(tensor.get());
        }
    }
    return tensors;
}

std::vector<aclTensor*> BuiltinExecutor::List(Side, size_t argument)
{
    std::vector<aclTensor*> tensors;
    if (argument < values_.size()) {
        for (const auto& tensor : values_[argument].tensors) {
            tensors.push_back(tensor.get());
        }
    }
    return tensors;
}

// CANN's own operators go by the caller's tensor and do not look at its number.
aclTensor* BuiltinExecutor::OwnOf(const aclTensor* given)
{
    for (const Value& value : values_) {
        for (size_t i = 0; i < value.given.size(); ++i) {
            if (value.given[i] == given) {
                return value.tensors[i].get();
            }
        }
    }
    return nullptr;
}

double RealOf(const aclScalar& scalar)
{
    const auto as = [&scalar](auto value) {
        __builtin_memcpy(&value, scalar.value, sizeof(value));
        return static_cast<double>(value);
    };
    switch (scalar.dtype) {
        case 0:
            return as(float{});
        case 2:
            return as(int8_t{});
        case 3:
            return as(int32_t{});
        case 4:
        case 12:
            return as(uint8_t{});
        case 6:
            return as(int16_t{});
        case 9:
            return as(int64_t{});
        case 11:
            return as(double{});
        default:
            throw std::invalid_argument(std::string("a list of scalars of ") + NameOfType(scalar.dtype));
    }
}

}  // namespace
}  // namespace device
}  // namespace ms_ascend_ops

namespace dev = ms_ascend_ops::device;

#pragma GCC visibility push(default)
extern "C" {

int MsAscendBuiltinPrepare(const char* function, const MsAscendArgument* arguments, size_t count,
                           uint64_t* workspaceBytes, aclOpExecutor** executor)
{
    if (workspaceBytes == nullptr || executor == nullptr) {
        return dev::Refuse(ACLNN_ERR_PARAM_NULLPTR,
                           std::string(function) + ": workspaceSize and executor must not be null pointers");
    }
    auto made = std::make_unique<dev::BuiltinExecutor>(function);
    try {
        for (size_t i = 0; i < count; ++i) {
            if (const aclnnStatus status = made->Add(arguments[i]); status != ACLNN_SUCCESS) {
                return status;
            }
        }
    } catch (const std::exception& error) {
        return dev::Refuse(ACLNN_ERR_PARAM_INVALID, std::string(function) + ": " + error.what());
    }
    *workspaceBytes = made->WorkspaceBytes();
    *executor = made.release();
    return ACLNN_SUCCESS;
}

int MsAscendBuiltinLaunch(void* workspace, uint64_t workspaceBytes, aclOpExecutor* executor, void* stream)
{
    if (executor == nullptr) {
        return dev::Refuse(ACLNN_ERR_PARAM_NULLPTR, "the executor of an aclnn function is a null pointer");
    }
    auto* const launched = static_cast<dev::BuiltinExecutor*>(executor);
    const bool fits = workspaceBytes >= launched->WorkspaceBytes();
    const aclnnStatus status =
        fits ? launched->Launch(workspace, stream)
             : dev::Refuse(ACLNN_ERR_PARAM_INVALID, "the workspace of an aclnn function is too small");
    if (!launched->repeatable) {
        delete launched;
    }
    return status;
}

}  // extern "C"
#pragma GCC visibility pop
