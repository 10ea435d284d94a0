/*!
 * An observed build of the host layer reports launches here: the checked and the traced build each define one Observer
 * and return it from TheObserver().
 *
 * Order of calls. LaunchBegin; then every core's calls in program order, CoreBegin first and CoreEnd last; LaunchEnd.
 * Cores run one at a time: core 0 to its first SyncAll or its end, then core 1, and so on; when all wait in SyncAll,
 * PhaseEnd, and core 0 goes on. Nothing is called at the same time from two threads, but each core has a thread of its
 * own: keep state by event.core, not in thread-local variables.
 *
 * Every event comes before the call takes effect, and after all earlier calls of that core have: an observer may read
 * the Unified Buffer (UnifiedBuffer(core)) and global memory to see an instruction's inputs.
 *
 * Pipes. An event's `pipe` is where the chip would run it. V, MTE2 and MTE3 run their own instructions in order and
 * wait for each other only where a QueueEvent or a SyncEvent makes them. The scalar unit (S) issues everything in
 * program order; a ScalarEvent also waits for what it reads.
 */
#ifndef ASCENDC_HOST_OBSERVED_OBSERVER_H
#define ASCENDC_HOST_OBSERVED_OBSERVER_H

#include <cstdint>
#include <vector>

#include "cube/product.h"
#include "observed/calls.h"

namespace AscendC {
namespace host {

constexpr uint32_t SizeOf(Dtype dtype)
{
    constexpr uint32_t bytes[] = {1, 1, 2, 2, 2, 2, 4, 4, 4, 8, 8};
    return bytes[static_cast<uint32_t>(dtype)];
}
const char* NameOf(Dtype dtype);  // "float", "half", "int32_t" ...
const char* NameOf(TPosition position);
const char* NameOf(HardEvent event);
const char* NameOf(pipe_t pipe);  // "V", "MTE2" ...

// ---- launch

struct Argument {
    const char* name;
    const char* address;
    uint64_t bytes;
    Dtype dtype;
    bool output;
};

constexpr int32_t WORKSPACE = -1;  // as GlobalOperand::argument
constexpr int32_t NO_ARGUMENT = -2;

struct LaunchInfo {
    const char* op;                   // "rms_norm_grad"; null if the caller did not say
    std::vector<Argument> arguments;  // in the order of the kernel's parameters; empty if the caller did not say
    uint32_t blockDim;                // vector cores
    uint32_t group;                   // so many of them share a cube core
    const char* workspace;
    uint64_t workspaceBytes;
    const void* tiling;  // the kernel's TilingData; null if the caller did not say
    uint64_t tilingBytes;
};

// ---- buffers of a core

// Describes one buffer of a TQue (InitBuffer with `num` makes num of them, numbered consecutively) or a TBuf.
struct Buffer {
    uint32_t offset;  // in the Unified Buffer
    uint32_t bytes;   // rounded up to 32
    TPosition position;
    bool isQueue;
    uint32_t queue;   // the first buffer's number names the queue
    uint32_t slot;    // index among the queue's buffers
    uint32_t count;   // of the queue's buffers
    int32_t depth;    // of the queue
    pipe_t producer;  // the pipe that writes between AllocTensor and EnQue
    pipe_t consumer;  // the pipe that reads between DeQue and FreeTensor
    Where where;      // InitBuffer
    uint32_t use;     // AllocTensor calls so far
    bool live;        // false after TPipe::Reset, or when another TPipe has begun
};

const Buffer& BufferOf(uint32_t core, uint32_t number);
uint32_t BufferCount(uint32_t core);  // numbers are 1 to this
const char* UnifiedBuffer(uint32_t core);

// ---- operands

struct LocalOperand {
    uint32_t offset = 0;  // in the Unified Buffer
    uint32_t bytes = 0;   // from there to the tensor's end
    Dtype dtype = Dtype::FLOAT;
    TPosition position = TPosition::VECCALC;
    Origin origin;
};

struct GlobalOperand {
    const char* address = nullptr;
    int32_t argument = NO_ARGUMENT;  // index in LaunchInfo::arguments, or WORKSPACE
    uint64_t offset = 0;             // in the argument
    uint64_t bytes = 0;              // from there to the end that SetGlobalBuffer gave; 0: it gave none
    Dtype dtype = Dtype::FLOAT;
};

// A UB operand of a vector instruction, and the bytes it touches: `repeats` times `lanes` elements (`lastLanes` the
// last time); repeats begin `repeatStride` bytes apart, the 32-byte blocks of a repeat `blockStride` bytes apart, or
// pairs of them, with `pairStride` bytes from the first to the second of a pair.
constexpr uint32_t ALL_LANES = ~0u;  // while a call is being reported: as many as the request says

struct Access : LocalOperand {
    bool written = false;
    uint32_t repeats = 1;
    uint32_t lanes = ALL_LANES;
    uint32_t lastLanes = ALL_LANES;
    int64_t repeatStride = 0;
    int64_t blockStride = ONE_BLK_SIZE;
    int64_t pairStride = 0;  // 0: there are no pairs
    // The call gave them in blocks of 32 bytes or in elements; they are 0 for instructions on the first n elements.
    uint32_t blkStride = 0;
    uint32_t repStride = 0;
    bool indirect = false;  // Gather's source: any bytes of the tensor may be read; then lanes is 0

    bool BlocksAdjoin() const { return blockStride == ONE_BLK_SIZE && pairStride == 0; }
    // Returns where a block of a repeat is, from its beginning.
    int64_t BlockAt(uint32_t block) const
    {
        return pairStride == 0 ? block * blockStride : block / 2 * blockStride + block % 2 * pairStride;
    }
};

// ---- events

struct Event {
    uint32_t core = 0;
    const char* name = "";  // the API function: "Add", "DataCopyPad", "EnQue"
    Where where;
    pipe_t pipe = PIPE_S;
};

constexpr uint32_t MAX_ACCESSES = 4;

struct VectorEvent : Event {
    Request request;        // as called
    MaskMode maskMode;      // of the mask register
    uint64_t maskRegister;  // lanes (normal) or elements (counter) that it names
    uint32_t repeatLanes;   // elements that fill a repeat: 256 bytes of the widest operand
    uint32_t repeats;       // as carried out
    uint64_t elements;      // active lanes in all repeats
    uint32_t accessCount;
    Access accesses[MAX_ACCESSES];  // [0] is the destination
};

// Copies from GM to UB run on MTE2, those from UB to GM on MTE3.
struct CopyEvent : Event {
    CopyRequest request;
    bool toLocal;
    bool atomicAdd;  // to global memory
    LocalOperand local;
    GlobalOperand global;
    uint32_t rows;        // pieces
    uint32_t rowBytes;    // of a piece
    int64_t localStride;  // bytes from a piece's start to the next
    int64_t globalStride;
    // DataCopyPad to UB: a piece's data begins `leftBytes` after `local`, and `paddedBytes` in all are written, of
    // which those that are neither data nor the padding of the call are undefined.
    uint32_t leftBytes;
    uint32_t rightBytes;
    uint32_t paddedBytes;
};

// Holds the tiling of a Matmul object, as far as it limits the products, and its type.
struct MatmulLimits {
    bool initialised = false;
    uint32_t singleM = 0;
    uint32_t singleN = 0;
    uint32_t singleK = 0;
    uint32_t baseM = 0;
    uint32_t baseN = 0;
    uint32_t baseK = 0;
    MatmulForm form;
    bool biased = false;
};

// Describes a Matmul object as the hooks know it.
struct MatmulState {
    MatmulLimits limits;
    GlobalOperand a;
    GlobalOperand b;
    GlobalOperand bias;
    bool transposed = false;  // an operand is, though its type does not say that it may be
    uint32_t waits = 0;       // products whose WaitIterateAll is still to come
    uint32_t blocks = 0;      // blocks that Iterate has found and GetTensorC not taken
};

// A call of a Matmul object. ITERATE_ALL runs on the cube (PIPE_M), after all copies to global memory that the core has
// made: the message that starts it goes their way. The scalar unit waits for it in the call itself (`sync`) or in WAIT.
// GET_TENSOR_C is a product of its own, of one block; `matmul` has the operands of the block then.
struct ProductEvent : Event {
    ProductCall call;
    const MatmulState* matmul;
    Product product;  // ITERATE: the whole one
    GlobalOperand result;
    bool sync;
    bool willWait;  // WaitIterateAll was announced
};

// Reports GetValue and SetValue, whose element is `local` or `global`.
struct ScalarEvent : Event {
    bool isLocal;
    bool written;
    LocalOperand local;
    GlobalOperand global;
};

// The call takes or gives this tensor. ENQUE and DEQUE carry the queue's synchronisation from producer to consumer,
// FREE and ALLOC that from consumer to producer. A call that the state of the queue forbids is reported like any other.
struct QueueEvent : Event {
    QueueCall call;
    uint32_t queue;   // Buffer::queue of the TQue whose function it is
    uint32_t buffer;  // number; 0: none (DeQue of an empty queue, a tensor that belongs to no buffer)
    LocalOperand local;
};

struct SyncEvent : Event {
    SyncCall call;
    HardEvent event;  // flags: from one pipe to another; SetFlag runs on the first, WaitFlag on the second
    int32_t id;       // flags
    pipe_t barrier;   // PIPE_BARRIER
};

struct EventIdEvent : Event {
    EventCall call;
    HardEvent event;
    int32_t id;
};

struct SettingEvent : Event {
    SettingCall call;
    Dtype dtype;    // ATOMIC_ADD, VECTOR_MASK
    uint64_t high;  // VECTOR_MASK
    uint64_t low;
    bool isCounter;
};

// Reports a TQue's or TBuf's InitBuffer: buffers `first` to `first + count - 1`.
struct InitEvent : Event {
    uint32_t first;
    uint32_t count;
    uint32_t askedBytes;  // of each
    uint32_t usedBytes;   // of the Unified Buffer, with these
};

pipe_t ProducerOf(HardEvent event);
pipe_t ConsumerOf(HardEvent event);

class Observer {
public:
    virtual ~Observer() = default;

    virtual void LaunchBegin(const LaunchInfo&) {}
    virtual void LaunchEnd() {}
    virtual void CoreBegin(uint32_t /*core*/) {}
    virtual void CoreEnd(uint32_t /*core*/) {}
    virtual void PhaseEnd() {}  // every core has reached SyncAll

    virtual void OnVector(const VectorEvent&) {}
    virtual void OnCopy(const CopyEvent&) {}
    virtual void OnScalar(const ScalarEvent&) {}
    virtual void OnUnassigned(const Event&) {}  // a LocalTensor without a buffer is indexed
    virtual void OnIndexBeyond(const Event&, uint32_t /*offset*/, uint32_t /*bytes*/) {}  // or one behind its end
    virtual void OnProduct(const ProductEvent&) {}
    virtual void OnQueue(const QueueEvent&) {}
    virtual void OnSync(const SyncEvent&) {}
    virtual void OnEventId(const EventIdEvent&) {}
    virtual void OnSetting(const SettingEvent&) {}
    virtual void OnInit(const InitEvent&) {}
    virtual void OnReset(const Event&) {}  // a TPipe begins, or TPipe::Reset: no buffer is live any more

    // Some cores wait in SyncAll (the last event of each) and the others have ended. Does not return.
    [[noreturn]] virtual void OnDeadlock(const std::vector<uint32_t>& waiting);
};

// Returns the observer of this build.
Observer& TheObserver();

// Returns the running launch.
const LaunchInfo& CurrentLaunch();

// Names the arguments of the launch. It is called before LaunchBlocks, by the same thread.
void DescribeLaunch(const char* op, std::vector<Argument> arguments);

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_OBSERVED_OBSERVER_H
