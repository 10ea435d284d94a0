/*!
 * The generated code registers a kernel so: by its signature, and by a call of the instantiation for the dtypes at
 * hand.
 */
#ifndef MS_ASCEND_OPS_BINDING_OP_H
#define MS_ASCEND_OPS_BINDING_OP_H

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "binding/signature.h"
#include "interface/launch_config.h"

namespace ms_ascend_ops::binding {

// Calls a tiling function, whose errors begin with the operator's name then.
template <typename TILING>
LaunchConfig Tiled(const char* op, TILING&& tiling)
{
    try {
        return tiling();
    } catch (const std::invalid_argument& error) {
        throw std::invalid_argument(std::string(op) + ": " + error.what());
    }
}

// Tools and tests read tiling values in this form.
struct TilingField {
    const char* name;
    bool isReal;
    int64_t integer;
    double real;
};

template <typename T>
TilingField MakeTilingField(const char* name, T value)
{
    return {name, std::is_floating_point_v<T>, static_cast<int64_t>(value), static_cast<double>(value)};
}

// CANN passes this to a launch of an entry of its package.
struct EntryLaunch {
    void* const* tensors;  // inputs, outputs, once more the inputs that are changed
    void* workspace;
    void* tiling;
};
using EntryFn = void (*)(void* launch, uint8_t* workspace);  // as BlockFn of runtime/launch.h

// An operator of the package has these entries, by rows of `types`.
struct PackageEntries {
    std::vector<EntryFn> rows;
    bool paired = false;  // a launch counts cube cores, each of which has two vector cores
    bool meet = true;     // cores wait for each other
};

struct KernelDef {
    std::string entry;             // RmsNormGrad: the symbol MindSpore looks up
    std::set<std::string> writes;  // inputs that the kernel changes in place
    std::string json;              // the signature, for ms_ascend_ops._C

    // Runs the instantiation of row `types[row]`. `params` are inputs, then outputs, which lie in `memory`.
    void (*launch)(size_t row, void* const* params, const TensorDesc* inputs, const AttributeValue* attributes,
                   const LaunchMemory& memory);
    LaunchConfig (*tiling)(const TensorDesc* inputs, const AttributeValue* attributes, const Platform& platform,
                           std::vector<TilingField>& fields);
    std::string rules;       // of values that make the kernel stop itself
    PackageEntries entries;  // none in op_host
    // Names the library of this host that answers instead of the kernel; empty: none does. Null: none ever does.
    std::string (*library)(const TensorDesc* inputs, const AttributeValue* attributes) = nullptr;
};

class Op : public Signature {
public:
    Op(SignatureDef signature, KernelDef kernel);

    const KernelDef& Kernel() const { return kernel_; }

    // Inputs come first in `descs`. Nothing is launched when every output is empty.
    void Launch(void* const* params, const TensorDesc* descs, const std::vector<AttributeValue>& values) const;
    // Tells an observed build of the next launch of this thread.
    void Describe(void* const* params, const TensorDesc* descs) const;

private:
    friend class PreparedLaunch;

    // A launch needs these dtypes and shapes of its tensors.
    struct Form {
        size_t row;  // of `types`
        uint64_t bytes[MAX_TENSORS];
        uint64_t outputBytes;  // of all outputs
    };
    Form FormOf(const TensorDesc* descs) const;  // throws TypeError
    void Launch(const Form& form, void* const* params, const TensorDesc* descs, const AttributeValue* values) const;

    KernelDef kernel_;
    std::vector<std::vector<DataType>> inputTypes_;  // per row
};

// Prepares a kernel for tensors of certain dtypes and shapes: all that can be looked up before a launch is looked up
// once for many of them.
class PreparedLaunch {
public:
    // Inputs come first in `descs`. Throws TypeError.
    PreparedLaunch(const Op& op, std::vector<TensorDesc> descs, std::vector<AttributeValue> values);

    const std::string& Name() const { return op_.Def().name; }
    void Run(void* const* params) const { op_.Launch(form_, params, descs_.data(), values_.data()); }

private:
    const Op& op_;
    const std::vector<TensorDesc> descs_;
    const std::vector<AttributeValue> values_;
    const Op::Form form_;
};

DataType ParseDataType(std::string_view name);  // throws TypeError
const char* NameOf(DataType dtype);

// Registration happens while the library is loaded, and nowhere else.
const Op& Register(SignatureDef signature, KernelDef kernel);
const std::map<std::string, Op>& Registry();
const Op& FindOp(const std::string& name);  // throws std::invalid_argument

}  // namespace ms_ascend_ops::binding

#endif  // MS_ASCEND_OPS_BINDING_OP_H
