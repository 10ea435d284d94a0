/*!
 * Implements the observer of the traced build, which keeps every call of every core, for the timing model in
 * ms_ascend_ops/profiler.
 */
#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "observed/observer.h"
#include "observed/settings.h"
#include "runtime/launch.h"

namespace AscendC {
namespace host {
namespace {

constexpr uint32_t MAX_RANGES = 4;

enum class Kind : uint8_t { VECTOR, COPY, SCALAR, QUEUE, SYNC, SETTING, INIT, PRODUCT, OPERAND };

// Records one call. ms_ascend_ops/profiler/trace.py has the same layout (EVENT), and says what each field means.
struct TraceRecord {
    Kind kind = Kind::SETTING;
    uint8_t pipe = PIPE_S;
    uint8_t call = 0;
    uint8_t producer = PIPE_S;
    uint8_t consumer = PIPE_S;
    uint8_t elementBytes = 0;
    uint8_t written = 0;
    uint8_t isLocal = 0;
    uint32_t name = 0;
    uint32_t place = 0;
    uint32_t repeats = 0;
    uint32_t repeatLanes = 0;
    uint64_t elements = 0;
    uint32_t pieces = 0;
    uint32_t pieceBytes = 0;
    int64_t stride = 0;
    uint64_t offset = 0;
    int32_t argument = NO_ARGUMENT;
    uint32_t buffer = 0;
    int32_t id = 0;
    uint32_t ranges[MAX_RANGES][2] = {};
};
static_assert(sizeof(TraceRecord) == 104, "as EVENT in ms_ascend_ops/profiler/trace.py");

// Numbers texts.
class Texts {
public:
    uint32_t NumberOf(const std::string& text)
    {
        const auto [entry, isNew] = numbers_.emplace(text, static_cast<uint32_t>(texts_.size()));
        if (isNew) {
            texts_.push_back(text);
        }
        return entry->second;
    }
    const std::vector<std::string>& All() const { return texts_; }

private:
    std::map<std::string, uint32_t> numbers_;
    std::vector<std::string> texts_;
};

// Returns the bytes of the Unified Buffer between the first and the last that an operand touches.
std::pair<uint32_t, uint32_t> RangeOf(const Access& access)
{
    const uint32_t size = SizeOf(access.dtype);
    if (access.indirect) {
        return {access.offset, access.offset + access.bytes};
    }
    if (access.repeats == 0 || access.lanes == 0) {
        return {access.offset, access.offset};
    }
    const uint32_t blockLanes = ONE_BLK_SIZE / size;
    const uint32_t blocks = (access.lanes + blockLanes - 1) / blockLanes;
    const int64_t gapless = static_cast<int64_t>(access.lanes) * size;
    const int64_t repeat = access.BlocksAdjoin() ? gapless : access.BlockAt(blocks - 1) + ONE_BLK_SIZE;
    const int64_t stride = access.repeatStride < 0 ? gapless : access.repeatStride;
    return {access.offset, static_cast<uint32_t>(access.offset + (access.repeats - 1) * stride + repeat)};
}

std::string Quoted(const std::string& text)
{
    std::string quoted = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            quoted += '\\';
        }
        quoted += c;
    }
    return quoted + "\"";
}

std::string List(const std::vector<std::string>& texts)
{
    std::string list = "[";
    for (const std::string& text : texts) {
        list += (list.size() > 1 ? "," : "") + Quoted(text);
    }
    return list + "]";
}

class Recorder : public Observer {
public:
    void LaunchBegin(const LaunchInfo& launch) override
    {
        cores_.assign(launch.blockDim, {});
        usedBytes_ = 0;
        products_.assign(launch.blockDim, 0);
        pending_.assign(launch.blockDim, {});
        json_ = "{\"kernel\":" + Quoted(launch.op) + ",\"workspace_bytes\":" + std::to_string(launch.workspaceBytes) +
                ",\"arguments\":[";
        for (const Argument& argument : launch.arguments) {
            json_ += (json_.back() == '[' ? "" : ",");
            json_ += "{\"name\":" + Quoted(argument.name) + ",\"bytes\":" + std::to_string(argument.bytes) +
                     ",\"dtype\":" + Quoted(NameOf(argument.dtype)) +
                     ",\"output\":" + (argument.output ? "true}" : "false}");
        }
        json_ += "]";
    }
    void LaunchEnd() override
    {
        json_ += ",\"ub_used_bytes\":" + std::to_string(usedBytes_) + ",\"names\":" + List(names_.All()) +
                 ",\"places\":" + List(places_.All()) + "}";
    }

    void OnVector(const VectorEvent& event) override
    {
        TraceRecord& record = Add(Kind::VECTOR, event);
        record.repeats = event.repeats;
        record.repeatLanes = event.repeatLanes;
        record.elements = event.elements;
        record.elementBytes = static_cast<uint8_t>(ONE_REPEAT_BYTE_SIZE / event.repeatLanes);
        for (uint32_t i = 0; i < event.accessCount && i < MAX_RANGES; ++i) {
            const auto [begin, end] = RangeOf(event.accesses[i]);
            record.ranges[i][0] = begin;
            record.ranges[i][1] = end;
        }
    }
    void OnCopy(const CopyEvent& event) override
    {
        TraceRecord& record = Add(Kind::COPY, event);
        record.written = event.toLocal ? 0 : (event.atomicAdd ? 2 : 1);
        record.pieces = event.rows;
        record.pieceBytes = event.rowBytes;
        record.stride = event.globalStride;
        record.offset = event.global.offset;
        record.argument = event.global.argument;
    }
    // Behind a product come its operands, A and B, and its result, as copies would tell of them.
    void OnProduct(const ProductEvent& event) override
    {
        if (event.call == ProductCall::ITERATE) {
            return;  // GetTensorC tells of the block
        }
        const bool runs = event.call == ProductCall::ITERATE_ALL || event.call == ProductCall::GET_TENSOR_C;
        TraceRecord& record = Add(Kind::PRODUCT, event);
        record.call = static_cast<uint8_t>(runs ? ProductCall::ITERATE_ALL : event.call);
        std::map<const MatmulState*, int32_t>& pending = pending_[event.core];
        if (event.call == ProductCall::WAIT) {
            const auto found = pending.find(event.matmul);
            record.id = found == pending.end() ? NO_PRODUCT : found->second;
        }
        if (!runs) {
            return;
        }
        const MatmulLimits& limits = event.matmul->limits;
        const Product& product = event.product;
        record.id = products_[event.core]++;
        pending[event.matmul] = record.id;
        record.isLocal = event.sync ? 1 : 0;
        record.elementBytes = static_cast<uint8_t>(limits.form.elementBytes);
        const uint32_t sizes[MAX_RANGES][2] = {{product.m, product.n},
                                               {product.k, limits.form.wholeLoads ? 1u : 0u},
                                               {limits.baseM, limits.baseN},
                                               {limits.baseK, 0}};
        std::memcpy(record.ranges, sizes, sizeof(sizes));
        const uint32_t resultBytes =
            product.resultType == ElementType::FLOAT || product.resultType == ElementType::INT32 ? sizeof(float)
                                                                                                 : sizeof(uint16_t);
        AddOperand(event, "A", event.matmul->a, product.a, product.m, product.k, limits.form.elementBytes);
        AddOperand(event, "B", event.matmul->b, product.b, product.k, product.n, limits.form.elementBytes);
        AddOperand(event, "C", event.result, product.c, product.m, product.n, resultBytes).written =
            product.accumulate ? 2 : 1;
    }
    void OnScalar(const ScalarEvent& event) override
    {
        TraceRecord& record = Add(Kind::SCALAR, event);
        record.written = event.written ? 1 : 0;
        record.isLocal = event.isLocal ? 1 : 0;
        record.argument = event.isLocal ? NO_ARGUMENT : event.global.argument;
    }
    void OnQueue(const QueueEvent& event) override
    {
        if (event.buffer == 0) {
            return;  // the checked build reports the error
        }
        const Buffer& buffer = BufferOf(event.core, event.buffer);
        TraceRecord& record = Add(Kind::QUEUE, event);
        record.call = static_cast<uint8_t>(event.call);
        record.producer = static_cast<uint8_t>(buffer.producer);
        record.consumer = static_cast<uint8_t>(buffer.consumer);
        record.buffer = event.buffer;
    }
    void OnSync(const SyncEvent& event) override
    {
        TraceRecord& record = Add(Kind::SYNC, event);
        record.call = static_cast<uint8_t>(event.call);
        record.id = event.id;
        if (event.call == SyncCall::PIPE_BARRIER) {
            record.pipe = static_cast<uint8_t>(event.barrier);
        } else if (event.call != SyncCall::SYNC_ALL) {
            record.producer = static_cast<uint8_t>(ProducerOf(event.event));
            record.consumer = static_cast<uint8_t>(ConsumerOf(event.event));
        }
    }
    void OnSetting(const SettingEvent& event) override { Add(Kind::SETTING, event); }
    void OnInit(const InitEvent& event) override
    {
        Add(Kind::INIT, event);
        usedBytes_ = event.usedBytes > usedBytes_ ? event.usedBytes : usedBytes_;
    }

    uint32_t CoreCount() const { return static_cast<uint32_t>(cores_.size()); }
    const std::vector<TraceRecord>& Records(uint32_t core) const { return cores_[core]; }
    const std::string& Json() const { return json_; }

private:
    static constexpr int32_t NO_PRODUCT = -1;

    TraceRecord& AddOperand(const ProductEvent& event, const char* name, const GlobalOperand& operand,
                            const Matrix& matrix, uint32_t rows, uint32_t cols, uint32_t elementBytes)
    {
        TraceRecord& record = Add(Kind::OPERAND, event);
        record.name = names_.NumberOf(name);
        record.elementBytes = static_cast<uint8_t>(elementBytes);
        record.pieces = matrix.transposed ? cols : rows;
        record.pieceBytes = (matrix.transposed ? rows : cols) * elementBytes;
        record.stride = matrix.stride * elementBytes;
        record.offset = operand.offset;
        record.argument = operand.argument;
        record.isLocal = matrix.transposed ? 1 : 0;
        return record;
    }

    TraceRecord& Add(Kind kind, const Event& event)
    {
        TraceRecord& record = cores_[event.core].emplace_back();
        record.kind = kind;
        record.pipe = static_cast<uint8_t>(event.pipe);
        record.name = names_.NumberOf(event.name);
        const char* slash = std::strrchr(event.where.file, '/');
        record.place = places_.NumberOf((slash == nullptr ? event.where.file : slash + 1) + std::string(":") +
                                        std::to_string(event.where.line));
        return record;
    }

    std::vector<std::vector<TraceRecord>> cores_;
    uint32_t usedBytes_ = 0;
    std::vector<int32_t> products_;                               // of each core, so far
    std::vector<std::map<const MatmulState*, int32_t>> pending_;  // the last one of each object
    Texts names_;
    Texts places_;
    std::string json_;
};

Recorder g_recorder;

}  // namespace

Observer& TheObserver()
{
    return g_recorder;
}

}  // namespace host
}  // namespace AscendC

// ms_ascend_ops/profiler/worker.py calls these, beside binding/c_api.h.
#pragma GCC visibility push(default)
extern "C" {

// Sets the platform that tiling functions see, and overruled values. 0: as it is.
void MsAscendTraceSetPlatform(uint32_t coreNum, uint32_t ubBytes, uint32_t minBytesPerCore, uint32_t queueBuffers)
{
    AscendC::host::Settings& settings = AscendC::host::TheSettings();
    settings.coreNum = coreNum;
    settings.ubBytes = ubBytes;
    settings.minBytesPerCore = minBytesPerCore;
    settings.queueBuffers = queueBuffers;
    settings.tiling.clear();
}

// 0: launches only count, and leave memory alone.
void MsAscendTraceSetExecutes(int executes)
{
    AscendC::host::TheSettings().executes = executes != 0;
}

void MsAscendTraceSetTiling(const char* field, int64_t value)
{
    AscendC::host::TheSettings().tiling[field] = value;
}

// These tell of the last launch.
uint32_t MsAscendTraceCoreCount(void)
{
    return AscendC::host::g_recorder.CoreCount();
}

const void* MsAscendTraceRecords(uint32_t core, uint64_t* count)
{
    const std::vector<AscendC::host::TraceRecord>& records = AscendC::host::g_recorder.Records(core);
    *count = records.size();
    return records.data();
}

const char* MsAscendTraceJson(void)
{
    return AscendC::host::g_recorder.Json().c_str();
}

}  // extern "C"
#pragma GCC visibility pop
