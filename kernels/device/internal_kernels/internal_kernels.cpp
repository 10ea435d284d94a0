/*!
 * Implements MindSpore's own fused kernels for inference (libms_kernels_internal.so of its wheel: products with several
 * weights, attention over pages, writing into a cache ...) on the emulated device: a launch becomes a call of the
 * device (protocol/call.h), which ms_ascend_ops/device/operators/internal_kernels.py computes.
 *
 * Compiled when a program first asks for the device, against the headers of the MindSpore that is installed: they say
 * what each kernel is told, and differ between its versions. The call is named "internal:" and the kernel; its values
 * are two lists of tensors, inputs and outputs, each with its count before it, then names and values of parameters.
 */
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "call.h"
#include "include/internal.h"
#include "runtime_api.h"

namespace mindspore {
namespace internal {
namespace {

using ms_ascend_ops::device::CallWriter;
using ms_ascend_ops::device::TensorView;

constexpr size_t TILING_BYTES = 8;  // nothing is in them, but MindSpore keeps none without memory

int32_t AclDataType(DataType type)
{
    switch (type) {
        case kTypeFloat32:
            return 0;
        case kTypeFloat16:
            return 1;
        case kTypeInt8:
            return 2;
        case kTypeInt32:
            return 3;
        case kTypeUint8:
            return 4;
        case kTypeInt16:
            return 6;
        case kTypeUint16:
            return 7;
        case kTypeUint32:
            return 8;
        case kTypeInt64:
            return 9;
        case kTypeUint64:
            return 10;
        case kTypeFloat64:
            return 11;
        case kTypeBool:
            return 12;
        case kTypeBF16:
            return 27;
        case kTypeInt4:
            return 29;
        default:
            return -1;
    }
}

void WriteTensor(CallWriter& call, const ArgImmutableInfo& info, const ShapeInfo& shape, const void* address)
{
    const int32_t dtype = AclDataType(info.GetDtype());
    if (dtype < 0 || address == nullptr) {  // an optional one that is absent
        call.None();
        return;
    }
    TensorView view;
    view.address = reinterpret_cast<uint64_t>(address);
    view.dtype = dtype;
    view.shape = shape;
    view.strides.assign(shape.size(), 1);
    for (size_t axis = shape.size(); axis-- > 1;) {
        view.strides[axis - 1] = view.strides[axis] * shape[axis];
    }
    view.storageElements = 1;
    for (const int64_t size : shape) {
        view.storageElements *= static_cast<uint64_t>(size);
    }
    call.Tensor(view);
}

void WriteTensors(CallWriter& call, const std::vector<ArgImmutableInfo>& infos, const ShapeInfoList& shapes,
                  const std::vector<void*>& addresses)
{
    call.Int(static_cast<int64_t>(infos.size()));
    for (size_t i = 0; i < infos.size(); ++i) {
        WriteTensor(call, infos[i], i < shapes.size() ? shapes[i] : ShapeInfo{},
                    i < addresses.size() ? addresses[i] : nullptr);
    }
}

// Names and values of the parameters of a kernel.
struct Parameters {
    CallWriter& call;

    Parameters& Int(const char* name, int64_t value)
    {
        call.String(name);
        call.Int(value);
        return *this;
    }
    Parameters& Real(const char* name, double value)
    {
        call.String(name);
        call.Real(value);
        return *this;
    }
    template <typename T>
    Parameters& Ints(const char* name, const std::vector<T>& values)
    {
        call.String(name);
        call.Ints(std::vector<int64_t>(values.begin(), values.end()));
        return *this;
    }
};

struct NoParam {};

void Write(Parameters, const NoParam&) {}
void Write(Parameters out, const AxesParam& p)
{
    out.Ints("axes", p.axes);
}
void Write(Parameters out, const SwiGLUParam& p)
{
    out.Int("axis", p.axis);
}
void Write(Parameters out, const MatmulParam& p)
{
    out.Int("transpose_a", p.transpose_a).Int("transpose_b", p.transpose_b);
    out.Int("with_relu", p.with_relu).Int("with_gelu", p.with_gelu);
    out.Int("with_fast_gelu", p.with_fastgelu || p.with_bias_fastgelu);
    out.Int("with_bias", p.with_bias || p.with_bias_fastgelu).Int("with_sigmoid_add", p.with_sigmoid_add);
}
void Write(Parameters out, const MultiWeightMatmulParam& p)
{
    out.Ints("sizes", std::vector<int64_t>{p.n0_len, p.n1_len, p.n2_len});
    out.Int("transpose_a", p.transpose_a).Int("transpose_b", p.transpose_b).Int("silu_position", p.silu_position);
    out.Int("with_bias", p.with_bias).Int("fused", p.fused).Int("split_two", p.split_two);
}
void Write(Parameters out, const TransBMMTransParam& p)
{
    out.Ints("perm_in", p.perm_in).Ints("perm_out", p.perm_out);
    out.Int("transpose_a", p.transpose_a).Int("transpose_b", p.transpose_b);
}
void Write(Parameters out, const NormParam& p)
{
    out.Real("eps", p.eps);
}
void Write(Parameters out, const ApplyRotaryPosEmbParam& p)
{
    out.Int("cos_format", p.cos_format);
}
void Write(Parameters out, const FlashAttentionScoreParam& p)
{
    out.Int("heads", p.head_num).Real("scale", p.tor).Int("layout", p.input_layout);
    out.Int("before", p.pre_tokens).Int("after", p.next_tokens).Int("mode", p.sparse_mode);
    out.Ints("query_lengths", p.q_seq_len).Ints("key_lengths", p.kv_seq_len);
}
void Write(Parameters out, const PagedAttentionParam& p)
{
    out.Int("heads", p.head_num).Int("key_heads", p.kv_head_num).Real("scale", p.tor);
    out.Ints("query_lengths", p.has_q_seq_lens ? p.q_seq_len : std::vector<int32_t>{});
    out.Int("value_size", p.mla_v_dim).Int("quantized", p.kv_cache_quant_mode).Int("mask_type", p.mask_type);
}
void Write(Parameters out, const FusedAddTopkDivParam& p)
{
    out.Int("groups", p.group_num).Int("group_k", p.group_topk).Int("best", p.n).Int("k", p.k);
    out.Int("activation", p.activate_type).Int("normalize", p.is_norm).Real("scale", p.scale);
    out.Int("mapped", p.enableExpertMapping);
}

template <typename Param>
class Kernel : public InternalOp {
public:
    Kernel(const InputsImmutableInfoList& inputs, const OutputsImmutableInfoList& outputs, Param param,
           const std::string& name, const char* kernel)
        : InternalOp(inputs, outputs, name), param_(std::move(param)), kernel_(kernel)
    {}

    InternalStatus UpdateParam(const void* param) override
    {
        param_ = *static_cast<const Param*>(param);
        return kInternalOk;
    }
    size_t GetTilingSize() const override { return TILING_BYTES; }
    std::vector<size_t> GetWorkspaceSize() const override { return {}; }
    std::string DumpTiling(const RawHostAddr) const override { return {}; }
    ShapeInfoList InferShape(const ShapeInfoList&) const override { return {}; }
    OpType GetOpType() override { return kOpTypeAICore; }

protected:
    InternalStatus TilingImpl(RawHostAddr host, HostRunInfoPtr* run) override
    {
        std::memset(host, 0, TILING_BYTES);
        SetHostRunInfoComm(HostRunInfoComm(1), run);
        return kInternalOk;
    }
    InternalStatus LaunchImpl(const InputsAddrList& inputs, const OutputsAddrList& outputs, const WsAddrList&,
                              void* stream) override
    {
        CallWriter call(std::string("internal:") + kernel_);
        WriteTensors(call, inputs_ii_, inputs_shape_, inputs);
        WriteTensors(call, outputs_ii_, outputs_shape_, outputs);
        Write(Parameters{call}, param_);
        const std::vector<uint8_t>& bytes = call.Bytes();
        return MsAscendDeviceCall(stream, bytes.data(), bytes.size()) == 0 ? kInternalOk : kInternalError;
    }

private:
    Param param_;
    const char* kernel_;
};

template <typename Param>
InternalOpPtr Make(const char* kernel, const InputsImmutableInfoList& inputs, const OutputsImmutableInfoList& outputs,
                   const Param& param, const std::string& name)
{
    return std::make_shared<Kernel<Param>>(inputs, outputs, param, name, kernel);
}

// The kernels that the device computes, by the names that MindSpore asks for.
constexpr const char* KERNELS[] = {kInternalMatMulOpName,
                                   kInternalMultiWeightMatmulOpName,
                                   kInternalTransBMMTransOpName,
                                   kInternalPagedAttentionOpName,
                                   kInternalFlashAttentionScoreOpName,
                                   kInternalReshapeAndCacheOpName,
                                   kInternalAddRmsNormOpName,
                                   kInternalApplyRotaryPosEmbOpName,
                                   kInternalSwiGLUOpName,
                                   kInternalSwishOpName,
                                   kInternalFastGeLUOpName,
                                   kInternalSoftmaxOpName,
                                   kInternalAddLayerNormOpName,
                                   kInternalFusedAddTopkDivOpName};

}  // namespace

HostRunInfoComm::HostRunInfoComm(uint32_t blocks) : block_dim_(blocks) {}
uint32_t HostRunInfoComm::GetBlockDim() const
{
    return block_dim_;
}

InternalOp::InternalOp(const InputsImmutableInfoList& inputs, const OutputsImmutableInfoList& outputs,
                       const std::string& name)
    : inputs_ii_(inputs), outputs_ii_(outputs), op_name_(name)
{}
InternalStatus InternalOp::Init()
{
    return InitImpl();
}
InternalStatus InternalOp::InitImpl()
{
    return kInternalOk;
}
InternalStatus InternalOp::UpdateShape(const ShapeInfoList& inputs, const ShapeInfoList& outputs)
{
    inputs_shape_ = inputs;
    outputs_shape_ = outputs;
    return kInternalOk;
}
void InternalOp::SetTilingInfo(const TilingInfoPtr& tiling)
{
    tiling_device_addr_ = tiling->tiling_addr_;
    host_run_info_comm_ptr_ = std::dynamic_pointer_cast<HostRunInfoComm>(tiling->host_run_info_);
}
void InternalOp::SetHostRunInfoComm(const HostRunInfoComm& info, HostRunInfoPtr* run)
{
    host_run_info_comm_ptr_ = std::make_shared<HostRunInfoComm>(info);
    *run = host_run_info_comm_ptr_;
}
InternalStatus InternalOp::Tiling(RawHostAddr host, HostRunInfoPtr* run)
{
    return TilingImpl(host, run);
}
InternalStatus InternalOp::TilingFromTuning(const RawDeviceAddr)
{
    return kInternalError;
}
bool InternalOp::IsSupported(const InputDataTypes&)
{
    return true;
}
InternalStatus InternalOp::Launch(const InputsAddrList& inputs, const OutputsAddrList& outputs,
                                  const WsAddrList& workspace, void* stream, const std::string&)
{
    return LaunchImpl(inputs, outputs, workspace, stream);
}
InternalStatus InternalOp::LaunchWithProfiling(const InputsAddrList& inputs, const OutputsAddrList& outputs,
                                               const WsAddrList& workspace, void* stream, const std::string&)
{
    return LaunchImpl(inputs, outputs, workspace, stream);
}

// The kernels of the chip take floats of 16 bits; with others MindSpore takes CANN's operator, where there is one.
bool IsInternalKernelDtypesSupported(const std::string name, InputDataTypes inputs, InputDataTypes)
{
    for (const char* kernel : KERNELS) {
        if (name == kernel) {
            const DataType first = inputs.empty() ? kTypeUnknown : inputs.front();
            const bool cached = name == kInternalReshapeAndCacheOpName && first == kTypeInt8;
            return first == kTypeFloat16 || first == kTypeBF16 || cached ||
                   (first == kTypeFloat32 && name == kInternalFusedAddTopkDivOpName);
        }
    }
    return false;
}

void SetLogFunction(LogFuncPtr) {}

#define DEFINE_KERNEL(FUNCTION, NAME)                                                                      \
    InternalOpPtr FUNCTION(const InputsImmutableInfoList& inputs, const OutputsImmutableInfoList& outputs, \
                           const std::string& name)                                                        \
    {                                                                                                      \
        return Make(NAME, inputs, outputs, NoParam{}, name);                                               \
    }
#define DEFINE_KERNEL_WITH(FUNCTION, NAME, PARAM)                                                          \
    InternalOpPtr FUNCTION(const InputsImmutableInfoList& inputs, const OutputsImmutableInfoList& outputs, \
                           const PARAM& param, const std::string& name)                                    \
    {                                                                                                      \
        return Make(NAME, inputs, outputs, param, name);                                                   \
    }

DEFINE_KERNEL(CreateSwishOp, kInternalSwishOpName)
DEFINE_KERNEL(CreateFastGeLUOp, kInternalFastGeLUOpName)
DEFINE_KERNEL(CreateReshapeAndCacheOp, kInternalReshapeAndCacheOpName)
DEFINE_KERNEL_WITH(CreateMatmulOp, kInternalMatMulOpName, MatmulParam)
DEFINE_KERNEL_WITH(CreateMultiWeightMatmulOp, kInternalMultiWeightMatmulOpName, MultiWeightMatmulParam)
DEFINE_KERNEL_WITH(CreateTransposeBatchMatmulTransposeOp, kInternalTransBMMTransOpName, TransBMMTransParam)
DEFINE_KERNEL_WITH(CreatePagedAttentionOp, kInternalPagedAttentionOpName, PagedAttentionParam)
DEFINE_KERNEL_WITH(CreateFlashAttentionScoreOp, kInternalFlashAttentionScoreOpName, FlashAttentionScoreParam)
DEFINE_KERNEL_WITH(CreateAddRmsNormOp, kInternalAddRmsNormOpName, NormParam)
DEFINE_KERNEL_WITH(CreateAddLayerNormOp, kInternalAddLayerNormOpName, NormParam)
DEFINE_KERNEL_WITH(CreateApplyRotaryPosEmbOp, kInternalApplyRotaryPosEmbOpName, ApplyRotaryPosEmbParam)
DEFINE_KERNEL_WITH(CreateSwiGLUOp, kInternalSwiGLUOpName, SwiGLUParam)
DEFINE_KERNEL_WITH(CreateSoftmaxOp, kInternalSoftmaxOpName, SoftmaxParam)
DEFINE_KERNEL_WITH(CreateFusedAddTopkDivOp, kInternalFusedAddTopkDivOpName, FusedAddTopkDivParam)

}  // namespace internal
}  // namespace mindspore
