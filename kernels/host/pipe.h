/*!
 * TPipe, TQue, TBuf, and the synchronisation of pipes and cores.
 *
 * This core runs its instructions in order, so queues hand buffers on and flags and pipe barriers have nothing to do.
 */
#ifndef ASCENDC_HOST_PIPE_H
#define ASCENDC_HOST_PIPE_H

#include "launch.h"
#include "tensor.h"

namespace AscendC {

constexpr uint32_t MAX_QUEUE_BUFFERS = 8;  // of one TPosition: the chip has 8 event ids per pair of pipes

template <TPosition SRC, TPosition DST, int32_t DEPTH>
class TQueBind {
public:
    template <typename T>
    LocalTensor<T> AllocTensor()
    {
        char* buffer = start_ + static_cast<uint64_t>(cursor_) * bufferBytes_;
        cursor_ = cursor_ + 1 == bufferCount_ ? 0 : cursor_ + 1;
        return LocalTensor<T>(buffer, bufferBytes_, SRC, &stream_);
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& tensor)
    {
        host::Core::Current().Discard(tensor.Address(), bufferBytes_);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor)
    {
        queue_[tail_] = tensor.Address();
        tail_ = (tail_ + 1) % MAX_QUEUE_BUFFERS;
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue()
    {
        char* buffer = queue_[head_];
        head_ = (head_ + 1) % MAX_QUEUE_BUFFERS;
        return LocalTensor<T>(buffer, bufferBytes_, DST);
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
};

template <TPosition POSITION, int32_t DEPTH>
class TQue : public TQueBind<POSITION == TPosition::VECOUT ? TPosition::VECOUT : POSITION,
                             POSITION == TPosition::VECOUT ? TPosition::GM : TPosition::VECCALC, DEPTH> {};

template <TPosition POSITION = TPosition::VECCALC>
class TBuf {
public:
    template <typename T>
    LocalTensor<T> Get()
    {
        return LocalTensor<T>(start_, bytes_, POSITION);
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t length)
    {
        return LocalTensor<T>(start_, length * static_cast<uint32_t>(sizeof(T)), POSITION);
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t offsetBytes)
    {
        return LocalTensor<T>(start_ + offsetBytes, size * static_cast<uint32_t>(sizeof(T)), POSITION);
    }

private:
    friend class TPipe;

    char* start_ = nullptr;
    uint32_t bytes_ = 0;
};

// Hands out the Unified Buffer from its start on.
class TPipe {
public:
    template <class QUEUE>
    bool InitBuffer(QUEUE& queue, uint8_t num, uint32_t len)
    {
        queue.bufferBytes_ = RoundUp(len);
        queue.bufferCount_ = num;
        queue.start_ = Take(queue.bufferBytes_ * num);
        return true;
    }
    template <TPosition POSITION>
    bool InitBuffer(TBuf<POSITION>& buffer, uint32_t len)
    {
        buffer.bytes_ = RoundUp(len);
        buffer.start_ = Take(buffer.bytes_);
        return true;
    }
    void Reset() { used_ = 0; }
    template <HardEvent EVENT>
    TEventID FetchEventID()
    {
        return 0;
    }
    TEventID FetchEventID(HardEvent) { return 0; }
    template <HardEvent EVENT>
    TEventID AllocEventID()
    {
        return 0;
    }
    template <HardEvent EVENT>
    void ReleaseEventID(TEventID)
    {}

private:
    static uint32_t RoundUp(uint32_t bytes) { return (bytes + ONE_BLK_SIZE - 1) / ONE_BLK_SIZE * ONE_BLK_SIZE; }
    char* Take(uint32_t bytes)
    {
        char* start = host::Core::Current().UnifiedBuffer() + used_;
        used_ += bytes;
        if (used_ > host::UB_BYTES) {
            host::Fail("TPipe::InitBuffer: %u bytes of Unified Buffer asked for, a core has %u", used_, host::UB_BYTES);
        }
        return start;
    }

    uint32_t used_ = 0;
};

template <HardEvent EVENT>
void SetFlag(int32_t)
{}

template <HardEvent EVENT>
void WaitFlag(int32_t)
{}

template <pipe_t PIPE>
void PipeBarrier()
{}

inline int64_t GetBlockIdx()
{
    return host::Core::Current().BlockIdx();
}

inline int64_t GetBlockNum()
{
    return host::Core::Current().BlockNum();
}

// Aborts the kernel: the launch fails.
[[noreturn]] inline void Trap()
{
    throw host::Trapped{};
}

// Waits until every core of the launch is here; what each wrote to global memory before is then visible to all.
template <bool IS_AIV_ONLY = true>
void SyncAll()
{
    host::Core::Current().Settle();
    host::WaitForAllBlocks();
}

}  // namespace AscendC

#endif  // ASCENDC_HOST_PIPE_H
