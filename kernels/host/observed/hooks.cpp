#include "observed/hooks.h"

#include "observed/run.h"

namespace AscendC {
namespace host {
namespace {

// Returns the state of the hooks for the core on this thread.
ObservedCore& Self()
{
    return CoreState(Core::Current().BlockIdx());
}

// Everything before this call takes effect first.
template <class EVENT>
EVENT Begin(Where where, const char* name, pipe_t pipe)
{
    Core::Current().Fence();
    EVENT event{};
    event.core = Core::Current().BlockIdx();
    event.name = name;
    event.where = where;
    event.pipe = pipe;
    return event;
}

constexpr uint32_t RoundUp(uint32_t bytes)
{
    return (bytes + ONE_BLK_SIZE - 1) / ONE_BLK_SIZE * ONE_BLK_SIZE;
}

// Returns the queue's buffer at this offset; 0: none.
uint32_t NumberAt(uint32_t first, uint32_t offset)
{
    if (first == 0) {
        return 0;
    }
    const Buffer& queue = Self().buffers[first - 1];
    if (offset < queue.offset || queue.bytes == 0 || offset - queue.offset >= queue.bytes * queue.count) {
        return 0;
    }
    return first + (offset - queue.offset) / queue.bytes;
}

}  // namespace

uint32_t OffsetInUnifiedBuffer(const char* address)
{
    return static_cast<uint32_t>(address - Core::Current().UnifiedBuffer());
}

Origin GlobalOrigin(const void* address)
{
    const LaunchInfo& launch = CurrentLaunch();
    const auto* byte = static_cast<const char*>(address);
    const auto in = [byte](const char* begin, uint64_t bytes) { return byte >= begin && byte < begin + bytes; };
    if (in(launch.workspace, launch.workspaceBytes)) {
        return {static_cast<uint32_t>(WORKSPACE), 1};
    }
    auto origin = static_cast<uint32_t>(NO_ARGUMENT);
    for (uint32_t i = 0; i < launch.arguments.size(); ++i) {
        const Argument& argument = launch.arguments[i];
        if (in(argument.address, argument.bytes)) {
            origin = i;
            if (argument.output) {  // of one that lies on an input, the output may be written
                break;
            }
        }
    }
    return {origin, 1};
}

GlobalOperand GlobalAt(const char* address, Origin origin, uint64_t bytes, Dtype dtype)
{
    GlobalOperand operand;
    operand.address = address;
    operand.argument = origin.use == 0 ? NO_ARGUMENT : static_cast<int32_t>(origin.buffer);
    operand.bytes = bytes;
    operand.dtype = dtype;
    if (operand.argument != NO_ARGUMENT) {
        const LaunchInfo& launch = CurrentLaunch();
        const char* start =
            operand.argument == WORKSPACE ? launch.workspace : launch.arguments[operand.argument].address;
        operand.offset = static_cast<uint64_t>(address - start);
    }
    return operand;
}

void ReportVector(Where where, const char* name, const Request& request, Access* accesses, uint32_t count)
{
    VectorEvent event = Begin<VectorEvent>(where, name, PIPE_V);
    const MaskState& mask = Core::Current().mask;
    uint32_t widest = 1;
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t bytes = SizeOf(accesses[i].dtype);
        widest = bytes > widest ? bytes : widest;
    }
    event.request = request;
    event.maskMode = mask.mode;
    event.maskRegister = mask.count;
    event.repeatLanes = ONE_REPEAT_BYTE_SIZE / widest;
    uint32_t lanes = event.repeatLanes;
    uint32_t lastLanes = lanes;
    const auto whole = [&](uint64_t elements) {
        event.elements = elements;
        event.repeats = static_cast<uint32_t>((elements + event.repeatLanes - 1) / event.repeatLanes);
        lastLanes = event.repeats == 0 ? 0 : static_cast<uint32_t>(elements - (event.repeats - 1) * uint64_t{lanes});
    };
    if (request.form == Form::FIRST) {
        whole(request.mask > 0 ? static_cast<uint64_t>(request.mask) : 0);
    } else if (mask.mode == MaskMode::COUNTER) {
        whole(request.form == Form::MASK ? static_cast<uint64_t>(request.mask) : mask.count);
    } else {
        lanes = request.form == Form::MASK ? static_cast<uint32_t>(request.mask) : mask.count;
        lastLanes = lanes;
        event.repeats = request.repeatTimes > 0 ? static_cast<uint32_t>(request.repeatTimes) : 0;
        event.elements = uint64_t{event.repeats} * lanes;
    }
    event.accessCount = count;
    for (uint32_t i = 0; i < count; ++i) {
        Access& access = event.accesses[i];
        access = accesses[i];
        const bool fixed = access.repeats == 0;
        access.repeats = fixed ? 1 : event.repeats;
        if (access.lanes == ALL_LANES) {
            access.lanes = event.repeats == 1 ? lastLanes : lanes;
            access.lastLanes = lastLanes;
        }
        if (access.repeatStride < 0) {
            access.repeatStride = static_cast<int64_t>(event.repeatLanes) * SizeOf(access.dtype);
        }
    }
    TheObserver().OnVector(event);
}

void ReportCopy(const CopySite& site, bool toLocal, const LocalOperand& local, const GlobalOperand& global,
                const CopyShape& shape)
{
    CopyEvent event = Begin<CopyEvent>(site.where, site.name, toLocal ? PIPE_MTE2 : PIPE_MTE3);
    event.request = site.request;
    event.toLocal = toLocal;
    event.atomicAdd = !toLocal && Core::Current().atomicAdd;
    event.local = local;
    event.global = global;
    event.rows = shape.rows;
    event.rowBytes = shape.rowBytes;
    event.localStride = toLocal ? shape.dstStride : shape.srcStride;
    event.globalStride = toLocal ? shape.srcStride : shape.dstStride;
    event.paddedBytes = shape.rowBytes;
    if (toLocal && site.request.form == CopyForm::PAD) {
        event.leftBytes = site.request.isPad ? site.request.leftPadding * SizeOf(local.dtype) : 0;
        event.rightBytes = site.request.isPad ? site.request.rightPadding * SizeOf(local.dtype) : 0;
        event.local.offset -= event.leftBytes;
        event.local.bytes += event.leftBytes;
        event.paddedBytes = RoundUp(event.leftBytes + shape.rowBytes + event.rightBytes);
    }
    TheObserver().OnCopy(event);
}

void ReportScalar(Where where, const char* name, bool written, const LocalOperand* local, const GlobalOperand* global)
{
    ScalarEvent event = Begin<ScalarEvent>(where, name, PIPE_S);
    event.isLocal = local != nullptr;
    event.written = written;
    if (local != nullptr) {
        event.local = *local;
    } else {
        event.global = *global;
    }
    TheObserver().OnScalar(event);
}

void ReportWrongIndex(Where where, bool isUnassigned, uint32_t offset, uint32_t bytes)
{
    const Event event = Begin<Event>(where, "operator[]", PIPE_S);
    if (isUnassigned) {
        TheObserver().OnUnassigned(event);
    } else {
        TheObserver().OnIndexBeyond(event, offset, bytes);
    }
}

void ReportProduct(Where where, ProductCall call, MatmulState& matmul, const Product* product,
                   const GlobalOperand* result, bool sync, bool willWait)
{
    constexpr const char* names[] = {"REGIST_MATMUL_OBJ", "IterateAll", "WaitIterateAll", "End",
                                     "Iterate",           "GetTensorC"};
    const bool runs = result != nullptr;
    ProductEvent event = Begin<ProductEvent>(where, names[static_cast<uint32_t>(call)], runs ? PIPE_M : PIPE_S);
    event.call = call;
    event.matmul = &matmul;
    event.sync = sync;
    event.willWait = willWait;
    if (product != nullptr) {
        event.product = *product;
    }
    if (runs) {
        event.result = *result;
    }
    TheObserver().OnProduct(event);
    matmul.waits += runs && !sync && willWait ? 1 : 0;
    matmul.waits -= call == ProductCall::WAIT && matmul.waits > 0 ? 1 : 0;
}

void ObserveSetting(Where where, const char* name, SettingCall call, Dtype dtype, uint64_t high, uint64_t low,
                    bool isCounter)
{
    SettingEvent event = Begin<SettingEvent>(where, name, PIPE_S);
    event.call = call;
    event.dtype = dtype;
    event.high = high;
    event.low = low;
    event.isCounter = isCounter;
    TheObserver().OnSetting(event);
}

void ObserveSync(Where where, SyncCall call)
{
    SyncEvent event = Begin<SyncEvent>(where, "SyncAll", PIPE_S);
    event.call = call;
    TheObserver().OnSync(event);
}

void ObserveSync(Where where, SyncCall call, HardEvent hardEvent, int32_t id)
{
    const bool sets = call == SyncCall::SET_FLAG;
    SyncEvent event =
        Begin<SyncEvent>(where, sets ? "SetFlag" : "WaitFlag", sets ? ProducerOf(hardEvent) : ConsumerOf(hardEvent));
    event.call = call;
    event.event = hardEvent;
    event.id = id;
    TheObserver().OnSync(event);
}

void ObserveSync(Where where, SyncCall call, pipe_t barrier)
{
    SyncEvent event = Begin<SyncEvent>(where, "PipeBarrier", barrier);
    event.call = call;
    event.barrier = barrier;
    TheObserver().OnSync(event);
}

// Hands ids out as a core does: FetchEventID gives the first free one and keeps nothing, AllocEventID takes it.
TEventID ObserveEvent(Where where, EventCall call, HardEvent hardEvent, int32_t id)
{
    constexpr const char* names[] = {"FetchEventID", "AllocEventID", "ReleaseEventID"};
    EventIdEvent event = Begin<EventIdEvent>(where, names[static_cast<uint32_t>(call)], PIPE_S);
    uint32_t& taken = Self().eventIds[static_cast<uint32_t>(hardEvent)];
    event.call = call;
    event.event = hardEvent;
    event.id = call == EventCall::RELEASE ? id : __builtin_ctz(~taken);
    TheObserver().OnEventId(event);
    if (call == EventCall::ALLOC) {
        taken |= 1u << event.id;
    } else if (call == EventCall::RELEASE) {
        taken &= ~(1u << (id & 31));
    }
    return static_cast<TEventID>(event.id);
}

Origin ReportQueue(Where where, QueueCall call, Tag tag, const LocalOperand& local)
{
    constexpr const char* names[] = {"AllocTensor", "EnQue", "DeQue", "FreeTensor"};
    QueueEvent event = Begin<QueueEvent>(where, names[static_cast<uint32_t>(call)], PIPE_S);
    const bool gives = call == QueueCall::ALLOC || call == QueueCall::DEQUE;
    event.call = call;
    event.queue = tag.firstBuffer;
    event.local = local;
    event.buffer = gives ? NumberAt(tag.firstBuffer, local.offset) : local.origin.buffer;
    if (gives && event.buffer != 0) {
        Buffer& buffer = Self().buffers[event.buffer - 1];
        event.local.bytes = buffer.bytes;
        event.local.position = buffer.position;
        event.local.origin = {event.buffer, buffer.use + (call == QueueCall::ALLOC ? 1 : 0)};
    }
    TheObserver().OnQueue(event);
    if (call == QueueCall::ALLOC && event.buffer != 0) {
        ++Self().buffers[event.buffer - 1].use;
    }
    return event.local.origin;
}

Tag ReportInit(Where where, const Buffer& kind, uint32_t count, uint32_t askedBytes, uint32_t offset)
{
    InitEvent event = Begin<InitEvent>(where, "InitBuffer", PIPE_S);
    std::vector<Buffer>& buffers = Self().buffers;
    event.first = static_cast<uint32_t>(buffers.size()) + 1;
    event.count = count;
    event.askedBytes = askedBytes;
    event.usedBytes = offset + RoundUp(askedBytes) * count;
    for (uint32_t slot = 0; slot < count; ++slot) {
        Buffer buffer = kind;
        buffer.bytes = RoundUp(askedBytes);
        buffer.offset = offset + slot * buffer.bytes;
        buffer.queue = event.first;
        buffer.slot = slot;
        buffer.count = count;
        buffer.where = where;
        buffer.live = true;
        buffers.push_back(buffer);
    }
    TheObserver().OnInit(event);
    return {event.first};
}

void ObserveReset(Where where)
{
    const Event event = Begin<Event>(where, "TPipe", PIPE_S);
    TheObserver().OnReset(event);
    for (Buffer& buffer : Self().buffers) {
        buffer.live = false;
    }
}

}  // namespace host
}  // namespace AscendC
