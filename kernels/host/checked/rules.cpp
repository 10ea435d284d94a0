#include "checked/rules.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <sstream>
#include <tuple>

namespace AscendC {
namespace host {
namespace {

// Documents are named by their title in CANN's Ascend C guide and API reference.
constexpr RuleText RULES[] = {
    {"block-dim", "a launch has 1 to as many blocks as the chip has cores", "设置合适的核数和算子Kernel类型"},
    {"tiling-size", "TilingData is a multiple of 8 bytes", "限制TilingData结构大小"},
    {"deadlock", "every core of the launch reaches every SyncAll", "SyncAll"},
    {"ub-capacity", "the buffers of a TPipe fit the Unified Buffer", "NPU架构版本2201, InitBuffer"},
    {"buffer-count", "a kernel has at most 64 buffers", "InitBuffer"},
    {"queue-buffers", "the queues of one TPosition have at most 8 buffers in all, one event id each", "TQue简介"},
    {"ub-bounds", "an operand stays inside its tensor and its buffer", "InitBuffer, LocalTensor"},
    {"ub-freed", "a tensor is used between AllocTensor and FreeTensor, while its TPipe lives", "FreeTensor"},
    {"ub-index", "a tensor is indexed below its length", "LocalTensor"},
    {"ub-unassigned", "a tensor that is indexed has been assigned one with a buffer", "LocalTensor"},
    {"ub-uninitialized", "what is stored, summed or rearranged comes from bytes that were written", "AllocTensor"},
    {"alignment", "operands in the Unified Buffer begin at a multiple of 32 bytes", "通用说明和约束"},
    {"dtype", "the instruction exists for this data type on Atlas A2", "the instruction's page, 数据类型"},
    {"round-mode", "Cast has this rounding for these data types on Atlas A2", "Cast"},
    {"repeat-times", "a vector instruction repeats 0 to 255 times", "高维切分"},
    {"mask", "the mask names 1 to as many lanes as fill a repeat", "掩码"},
    {"mask-state", "the mask register holds what SetVectorMask gave it", "掩码, SetVectorMask"},
    {"stride", "strides are within their range", "高维切分"},
    {"overlap", "source and destination are the same or apart; no repeat reads what an earlier one wrote",
     "通用说明和约束"},
    {"gather-offset", "Gather's offsets are multiples of the element and inside the source", "Gather"},
    {"copy-length", "DataCopy moves whole blocks of 32 bytes: the rest would be dropped", "DataCopy"},
    {"copy-params", "block count, length and alignment of a copy are within their range", "DataCopy, DataCopyPad"},
    {"padding", "each padding is at most 32 bytes, needs isPad, and fills the block", "DataCopyPad"},
    {"copy-position", "DataCopyPad fills tensors of VECIN or VECOUT", "DataCopyPad"},
    {"queue-alloc", "AllocTensor finds a free buffer, the next one in turn", "AllocTensor"},
    {"queue-enque", "EnQue takes a tensor that this queue has allocated", "EnQue"},
    {"queue-depth", "no more tensors are queued than the queue's depth", "TQue简介"},
    {"queue-deque", "DeQue finds a queued tensor", "DeQue"},
    {"queue-free", "FreeTensor takes a tensor of this queue that is allocated and not queued", "FreeTensor"},
    {"queue-leak", "every allocated tensor is freed when the kernel ends", "FreeTensor"},
    {"pipe-hazard", "pipes that touch the same bytes are ordered by a queue, a flag or a barrier",
     "核内同步/关键特性说明"},
    {"mte-overlap", "copies of one pipe to overlapping destinations need a PipeBarrier", "PipeBarrier"},
    {"flag-pair", "SetFlag and WaitFlag come in pairs, and a flag is not set twice", "SetFlag/WaitFlag"},
    {"event-id", "event ids are 0 to 7", "SetFlag/WaitFlag"},
    {"barrier-pipe", "PipeBarrier<PIPE_S> does not exist", "PipeBarrier"},
    {"gm-bounds", "an access stays inside the kernel's argument and the GlobalTensor", "GlobalTensor"},
    {"gm-input", "a kernel does not write to its inputs", "核函数"},
    {"gm-uninitialized",
     "what is read from an output, the workspace, or memory of an emulated device was written before", "workspace"},
    {"gm-race", "cores that touch the same bytes, one of them writing, are ordered by SyncAll", "SyncAll"},
    {"gm-unwritten", "a kernel writes all of its outputs", "核函数"},
    {"atomic-dtype", "SetAtomicAdd is set for the data type that is copied", "SetAtomicAdd"},
    {"atomic-order", "float sums do not depend on the order of cores", "原子操作/关键特性说明"},
    {"atomic-left", "SetAtomicNone follows SetAtomicAdd", "SetAtomicAdd"},
    {"matmul-init", "a Matmul object is registered with its tiling before it is used", "REGIST_MATMUL_OBJ"},
    {"matmul-shape", "a product is at most as large as its tiling's singleCoreM, N and K", "SetSingleShape"},
    {"matmul-stride", "a row of an operand or result is at most as long as the shape SetOrgShape gave", "SetOrgShape"},
    {"matmul-transpose", "an operand is transposed only if its MatmulType says that it may be", "SetTensorA"},
    {"matmul-capacity",
     "the base blocks of a product fit L0A, L0B and L0C, two of each, and L1, those of a bias its table",
     "TCubeTiling结构体"},
    {"matmul-base",
     "base blocks are whole fractals: 16 rows, 16 columns, 32 bytes and 16 elements of K; of floats singleCoreK, too",
     "TCubeTiling结构体"},
    {"cube-range", "what copies to L1 (ND2NZ), LoadData, Mmad and Fixpipe are told is within their range",
     "DataCopy（ND2NZ）, LoadData, Mmad, Fixpipe"},
    {"matmul-bias", "SetBias needs a tiling with isBias", "SetBias"},
    {"matmul-wait", "each IterateAll<false> that announces WaitIterateAll gets one, and no other call waits",
     "WaitIterateAll"},
    {"matmul-block", "each Iterate that finds a block is followed by one GetTensorC, and no other call gets one",
     "GetTensorC"},
    {"note-shared-block", "two cores write into one block of 32 bytes", "避免同地址访问"},
    {"note-shared-line", "two cores write into one line of 512 bytes, which serialises them", "避免同地址访问"},
    {"note-small-copy", "a piece of a copy is shorter than 512 bytes", "尽量一次搬运较大的数据块"},
    {"note-mask-left", "the kernel ends in counter mode", "SetMaskCount"},
    {"note-undefined-lanes", "calculates on lanes that hold no value; harmless while nobody uses the results",
     "AllocTensor"},
    {"note-unknown", "the checked build has no table entry for this instruction", "-"},
};
static_assert(sizeof(RULES) / sizeof(RULES[0]) == static_cast<size_t>(Rule::COUNT));

// Counts the notes of this process, by rule and place.
class Notes {
public:
    ~Notes()
    {
        const char* path = std::getenv("MS_ASCEND_OPS_CHECK_NOTES");
        FILE* file = path == nullptr || counts_.empty() ? nullptr : std::fopen(path, "a");
        if (file == nullptr) {
            return;
        }
        for (const auto& [key, count] : counts_) {
            const auto& [rule, place, line, name] = key;
            std::fprintf(file, "%s:%u: %s: %s (%s), %lu times\n", ShortPath(place), line, name, TextOf(rule).id,
                         TextOf(rule).says, static_cast<unsigned long>(count));
        }
        std::fclose(file);
    }
    void Add(Rule rule, const Event& event) { ++counts_[{rule, event.where.file, event.where.line, event.name}]; }

private:
    std::map<std::tuple<Rule, const char*, uint32_t, const char*>, uint64_t> counts_;
};

}  // namespace

const RuleText& TextOf(Rule rule)
{
    return RULES[static_cast<uint32_t>(rule)];
}

const char* ShortPath(const char* file)
{
    for (const char* folder : {"/tests/kernels/", "/kernels/"}) {
        const char* found = nullptr;
        for (const char* at = std::strstr(file, folder); at != nullptr; at = std::strstr(at + 1, folder)) {
            found = at;
        }
        if (found != nullptr) {
            return found + 1;
        }
    }
    return file;
}

DeviceHooks& TheDeviceHooks()
{
    static DeviceHooks hooks;
    return hooks;
}

void Violation(Rule rule, const Event& event, const char* format, ...)
{
    const RuleText& broken = TextOf(rule);
    const LaunchInfo& launch = CurrentLaunch();
    char found[1024];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(found, sizeof(found), format, arguments);
    va_end(arguments);
    std::ostringstream text;
    text << ShortPath(event.where.file) << ":" << event.where.line << ": " << event.name << " on core " << event.core
         << " breaks the rule " << broken.id << "\n  rule: " << broken.says << "  [" << broken.document
         << "]\n  found: " << found << "\n  launch: " << (launch.op == nullptr ? "?" : launch.op) << " on "
         << launch.blockDim << " cores, " << launch.workspaceBytes << " bytes of workspace\n";
    for (const Argument& argument : launch.arguments) {
        text << "    " << (argument.output ? "output " : "input ") << argument.name << ": " << NameOf(argument.dtype)
             << ", " << argument.bytes << " bytes\n";
    }
    if (TheDeviceHooks().violation != nullptr) {
        TheDeviceHooks().violation(text.str().c_str());
    }
    std::fputs(text.str().c_str(), stderr);
    std::fflush(stderr);
    _exit(VIOLATION_STATUS);
}

void Note(Rule rule, const Event& event)
{
    static Notes notes;
    notes.Add(rule, event);
}

}  // namespace host
}  // namespace AscendC

extern "C" __attribute__((visibility("default"))) void MsAscendCheckSetHooks(
    void (*violation)(const char* text), uint64_t (*written)(const void* address, uint64_t bytes),
    void (*writes)(const void* address, uint64_t bytes))
{
    AscendC::host::TheDeviceHooks() = {violation, written, writes};
}
