#include "binding/op.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "binding/launch_counts.h"
#if defined(ASCENDC_HOST_OBSERVED)
#include "observed/hooks.h"
#endif

namespace ms_ascend_ops::binding {
namespace {

constexpr std::array<std::pair<DataType, const char*>, 6> DTYPE_NAMES = {{{DataType::FLOAT16, "float16"},
                                                                          {DataType::BFLOAT16, "bfloat16"},
                                                                          {DataType::FLOAT32, "float32"},
                                                                          {DataType::INT32, "int32"},
                                                                          {DataType::INT64, "int64"},
                                                                          {DataType::INT8, "int8"}}};

std::map<std::string, Op>& MutableRegistry()
{
    static std::map<std::string, Op> registry;
    return registry;
}

#if defined(ASCENDC_HOST_OBSERVED)
AscendC::host::Dtype DtypeOf(DataType dtype)
{
    using AscendC::host::Dtype;
    constexpr Dtype dtypes[] = {Dtype::HALF, Dtype::BFLOAT16, Dtype::FLOAT, Dtype::INT32, Dtype::INT64, Dtype::INT8};
    return dtypes[static_cast<size_t>(dtype)];
}

}  // namespace

void Op::Describe(void* const* params, const TensorDesc* descs) const
{
    const SignatureDef& def = Def();
    std::vector<AscendC::host::Argument> arguments;
    const auto add = [&](const TensorDef& tensor, size_t i, bool output) {
        arguments.push_back({tensor.name.c_str(), static_cast<const char*>(params[i]),
                             static_cast<uint64_t>(descs[i].Size()) * SizeOf(descs[i].dtype), DtypeOf(descs[i].dtype),
                             output});
    };
    for (size_t i = 0; i < def.inputs.size(); ++i) {
        if (descs[i].IsGiven()) {
            add(def.inputs[i], i, false);
        }
    }
    for (size_t i = 0; i < def.outputs.size(); ++i) {
        add(def.outputs[i], def.inputs.size() + i, true);
    }
    for (size_t i = 0; i < def.inputs.size(); ++i) {
        if (kernel_.writes.count(def.inputs[i].name) > 0) {  // changed in place: an output that lies on an input
            add(def.inputs[i], i, true);
        }
    }
    AscendC::host::DescribeLaunch(def.name.c_str(), std::move(arguments));
}
#else
}  // namespace

void Op::Describe(void* const*, const TensorDesc*) const {}
#endif

Op::Op(SignatureDef signature, KernelDef kernel) : Signature(std::move(signature)), kernel_(std::move(kernel))
{
    for (const auto& row : Def().types) {
        inputTypes_.emplace_back();
        for (const TensorDef& input : Def().inputs) {
            inputTypes_.back().push_back(ParseDataType(Resolve(row, input.dtype)));
        }
    }
}

Op::Form Op::FormOf(const TensorDesc* descs) const
{
    const auto found =
        std::find_if(inputTypes_.begin(), inputTypes_.end(), [descs](const std::vector<DataType>& types) {
            return std::equal(types.begin(), types.end(), descs, [](DataType dtype, const TensorDesc& desc) {
                return !desc.IsGiven() || dtype == desc.dtype;
            });
        });
    const size_t inputs = Def().inputs.size();
    if (found == inputTypes_.end()) {
        std::vector<std::string> dtypes;
        for (size_t i = 0; i < inputs; ++i) {
            dtypes.emplace_back(descs[i].IsGiven() ? NameOf(descs[i].dtype) : "");
        }
        MatchTypes(dtypes);  // throws, and says why
    }
    Form form{};
    form.row = static_cast<size_t>(found - inputTypes_.begin());
    for (size_t i = 0; i < inputs + Def().outputs.size(); ++i) {
        form.bytes[i] = static_cast<uint64_t>(descs[i].Size()) * SizeOf(descs[i].dtype);
        form.outputBytes += i < inputs ? 0 : form.bytes[i];
    }
    return form;
}

void Op::Launch(const Form& form, void* const* params, const TensorDesc* descs, const AttributeValue* values) const
{
    if (form.outputBytes == 0) {
        return;
    }
    LaunchMemory memory;
    memory.tensorCount = static_cast<int32_t>(Def().inputs.size() + Def().outputs.size());
    memory.outputBytes = form.outputBytes;
    for (int32_t i = 0; i < memory.tensorCount; ++i) {
        const char* const begin = static_cast<const char*>(params[i]);
        memory.tensors[i] = {begin, begin + form.bytes[i]};
    }
    Describe(params, descs);
    if (!launchesAreCounted.load(std::memory_order_relaxed)) {
        kernel_.launch(form.row, params, descs, values, memory);
        return;
    }
    const uint64_t bytes = std::accumulate(form.bytes, form.bytes + memory.tensorCount, uint64_t{0});
    Counted(*this, descs, bytes, [&] { kernel_.launch(form.row, params, descs, values, memory); });
}

void Op::Launch(void* const* params, const TensorDesc* descs, const std::vector<AttributeValue>& values) const
{
    Launch(FormOf(descs), params, descs, values.data());
}

PreparedLaunch::PreparedLaunch(const Op& op, std::vector<TensorDesc> descs, std::vector<AttributeValue> values)
    : op_(op), descs_(std::move(descs)), values_(std::move(values)), form_(op.FormOf(descs_.data()))
{}

DataType ParseDataType(std::string_view name)
{
    for (const auto& [dtype, text] : DTYPE_NAMES) {
        if (name == text) {
            return dtype;
        }
    }
    throw TypeError("no operator takes the dtype " + std::string(name));
}

const char* NameOf(DataType dtype)
{
    for (const auto& [known, text] : DTYPE_NAMES) {
        if (known == dtype) {
            return text;
        }
    }
    return "unknown";
}

const Op& Register(SignatureDef signature, KernelDef kernel)
{
    const std::string name = signature.name;
    return MutableRegistry().emplace(name, Op(std::move(signature), std::move(kernel))).first->second;
}

const std::map<std::string, Op>& Registry()
{
    return MutableRegistry();
}

const Op& FindOp(const std::string& name)
{
    const auto found = Registry().find(name);
    if (found == Registry().end()) {
        throw std::invalid_argument("the library has no operator '" + name + "'");
    }
    return found->second;
}

}  // namespace ms_ascend_ops::binding
