/*!
 * Implements TPipe, TQue, TBuf, and the synchronisation of pipes and cores.
 *
 * This core runs its instructions in order, so queues hand buffers on and flags and pipe barriers have nothing to do.
 */
#ifndef ASCENDC_HOST_API_PIPE_H
#define ASCENDC_HOST_API_PIPE_H

#include <utility>

#include "api/tensor.h"
#include "observed/observe.h"
#include "runtime/launch.h"

namespace AscendC {

constexpr uint32_t MAX_QUEUE_BUFFERS = 8;  // of one TPosition: the chip has 8 event ids per pair of pipes

template <TPosition SRC, TPosition DST, int32_t DEPTH>
class TQueBind {
public:
    static constexpr TPosition srcPosition = SRC;
    static constexpr TPosition dstPosition = DST;
    static constexpr int32_t depth = DEPTH;

    template <typename T>
    LocalTensor<T> AllocTensor(HOST_WHERE_ONLY)
    {
        if (start_ == nullptr) {
            host::Fail("TQue::AllocTensor: the queue has no buffers: TPipe::InitBuffer was not called");
        }
        char* buffer = start_ + static_cast<uint64_t>(cursor_) * bufferBytes_;
        cursor_ = cursor_ + 1 == bufferCount_ ? 0 : cursor_ + 1;
        HOST_OBSERVED(const host::Origin origin =
                          host::ObserveQueue(where, host::QueueCall::ALLOC, tag_, buffer, host::DtypeOf<T>()));
        return LocalTensor<T>(buffer, bufferBytes_, SRC, &stream_ HOST_OBSERVED(, origin));
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& tensor HOST_WHERE)
    {
        HOST_OBSERVED(host::ObserveQueue(where, host::QueueCall::FREE, tag_, tensor));
        host::Core::Current().Discard(tensor.Address(), bufferBytes_);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor HOST_WHERE)
    {
        HOST_OBSERVED(host::ObserveQueue(where, host::QueueCall::ENQUE, tag_, tensor));
        queue_[tail_] = tensor.Address();
        tail_ = (tail_ + 1) % MAX_QUEUE_BUFFERS;
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue(HOST_WHERE_ONLY)
    {
        char* buffer = std::exchange(queue_[head_], nullptr);
        head_ = (head_ + 1) % MAX_QUEUE_BUFFERS;
        HOST_OBSERVED(const host::Origin origin =
                          host::ObserveQueue(where, host::QueueCall::DEQUE, tag_, buffer, host::DtypeOf<T>()));
        if (buffer == nullptr) {
            host::Fail("TQue::DeQue: there is nothing in the queue: EnQue was not called");
        }
        return LocalTensor<T>(buffer, bufferBytes_, DST HOST_OBSERVED(, nullptr, origin));
    }

private:
    friend class TPipe;

    char* start_ = nullptr;
    uint32_t bufferBytes_ = 0;
    uint8_t bufferCount_ = 0;
    uint8_t cursor_ = 0;
    uint8_t head_ = 0;
    uint8_t tail_ = 0;
    host::Stream stream_;
    char* queue_[MAX_QUEUE_BUFFERS] = {};
    HOST_OBSERVED(host::Tag tag_;)
};

template <TPosition POSITION, int32_t DEPTH>
class TQue : public TQueBind<POSITION == TPosition::VECOUT ? TPosition::VECOUT : POSITION,
                             POSITION == TPosition::VECOUT ? TPosition::GM : TPosition::VECCALC, DEPTH> {};

template <TPosition POSITION = TPosition::VECCALC>
class TBuf {
public:
    static constexpr TPosition srcPosition = POSITION;
    static constexpr TPosition dstPosition = POSITION;
    static constexpr int32_t depth = 0;  // no queue

    template <typename T>
    LocalTensor<T> Get()
    {
        return LocalTensor<T>(start_, bytes_, POSITION HOST_OBSERVED(, nullptr, host::OriginOf(tag_)));
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t length)
    {
        return LocalTensor<T>(start_, length * static_cast<uint32_t>(sizeof(T)),
                              POSITION HOST_OBSERVED(, nullptr, host::OriginOf(tag_)));
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offsetBytes)
    {
        return LocalTensor<T>(start_ + offsetBytes, size * static_cast<uint32_t>(sizeof(T)),
                              POSITION HOST_OBSERVED(, nullptr, host::OriginOf(tag_)));
    }

private:
    friend class TPipe;

    char* start_ = nullptr;
    uint32_t bytes_ = 0;
    HOST_OBSERVED(host::Tag tag_;)
};

// Hands out the Unified Buffer from its start on.
class TPipe {
public:
    HOST_OBSERVED(explicit TPipe(HOST_WHERE_ONLY) { host::ObserveReset(where); })
    template <class QUEUE>
    bool InitBuffer(QUEUE& queue, uint8_t num, uint32_t len HOST_WHERE)
    {
        HOST_OBSERVED(num = static_cast<uint8_t>(host::QueueBuffers(num)));
        HOST_OBSERVED(queue.tag_ = host::ObserveInit(where, queue, num, len, used_));
        queue.bufferBytes_ = RoundUp(len);
        queue.bufferCount_ = num;
        queue.start_ = Take(queue.bufferBytes_ * num);
        return true;
    }
    template <TPosition POSITION>
    bool InitBuffer(TBuf<POSITION>& buffer, uint32_t len HOST_WHERE)
    {
        HOST_OBSERVED(buffer.tag_ = host::ObserveInit(where, buffer, 1, len, used_));
        buffer.bytes_ = RoundUp(len);
        buffer.start_ = Take(buffer.bytes_);
        return true;
    }
    void Reset(HOST_WHERE_ONLY)
    {
        HOST_OBSERVED(host::ObserveReset(where));
        used_ = 0;
    }
    template <HardEvent EVENT>
    TEventID FetchEventID(HOST_WHERE_ONLY)
    {
        HOST_OBSERVED(return host::ObserveEvent(where, host::EventCall::FETCH, EVENT));
        return 0;
    }
    TEventID FetchEventID([[maybe_unused]] HardEvent event HOST_WHERE)
    {
        HOST_OBSERVED(return host::ObserveEvent(where, host::EventCall::FETCH, event));
        return 0;
    }
    template <HardEvent EVENT>
    TEventID AllocEventID(HOST_WHERE_ONLY)
    {
        HOST_OBSERVED(return host::ObserveEvent(where, host::EventCall::ALLOC, EVENT));
        return 0;
    }
    template <HardEvent EVENT>
    void ReleaseEventID([[maybe_unused]] TEventID id HOST_WHERE)
    {
        HOST_OBSERVED(host::ObserveEvent(where, host::EventCall::RELEASE, EVENT, id));
    }

private:
    static uint32_t RoundUp(uint32_t bytes) { return (bytes + ONE_BLK_SIZE - 1) / ONE_BLK_SIZE * ONE_BLK_SIZE; }
    char* Take(uint32_t bytes)
    {
        char* start = host::Core::Current().UnifiedBuffer() + used_;
        used_ += bytes;
        if (used_ > host::UB_BYTES) {
            host::Fail("TPipe::InitBuffer: %u bytes of Unified Buffer requested, a core has %u", used_, host::UB_BYTES);
        }
        return start;
    }

    uint32_t used_ = 0;
};

template <HardEvent EVENT>
void SetFlag([[maybe_unused]] int32_t id HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveSync(where, host::SyncCall::SET_FLAG, EVENT, id));
}

template <HardEvent EVENT>
void WaitFlag([[maybe_unused]] int32_t id HOST_WHERE)
{
    HOST_OBSERVED(host::ObserveSync(where, host::SyncCall::WAIT_FLAG, EVENT, id));
}

template <pipe_t PIPE>
void PipeBarrier(HOST_WHERE_ONLY)
{
    HOST_OBSERVED(host::ObserveSync(where, host::SyncCall::PIPE_BARRIER, PIPE));
}

// Counts as vector cores do: a block is a vector core, or where those share cube cores (KERNEL_TYPE_MIX_AIC_1_2) a
// group of a cube core and its vector cores. GetBlockIdx counts vector cores all the same.
inline int64_t GetBlockIdx()
{
    return host::Core::Current().BlockIdx();
}

inline int64_t GetTaskRation()
{
    return host::Core::Current().LaunchedCores().group;
}

inline int64_t GetBlockNum()
{
    const host::Cores cores = host::Core::Current().LaunchedCores();
    return cores.count / cores.group;
}

inline int64_t GetSubBlockNum()
{
    return GetTaskRation();
}

inline int64_t GetSubBlockIdx()
{
    return GetBlockIdx() % GetTaskRation();
}

// Aborts the kernel: the launch fails.
[[noreturn]] inline void Trap()
{
    throw host::Trapped(host::TRAPPED);
}

// Waits until every core of the launch is here; all of them then see the writes of each to global memory.
template <bool IS_AIV_ONLY = true>
void SyncAll(HOST_WHERE_ONLY)
{
    HOST_OBSERVED(host::ObserveSync(where, host::SyncCall::SYNC_ALL));
    host::Core::Current().Synchronize();
}

}  // namespace AscendC

#endif  // ASCENDC_HOST_API_PIPE_H
