/*!
 * Waits for a 32-bit word of memory that several processes share.
 */
#ifndef MS_ASCEND_OPS_DEVICE_PROTOCOL_FUTEX_H
#define MS_ASCEND_OPS_DEVICE_PROTOCOL_FUTEX_H

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <climits>
#include <cstdint>

namespace ms_ascend_ops {
namespace device {

using Word = std::atomic<uint32_t>;

// Returns when the word is not `seen`, after a wake, after the time, or for no reason.
inline void FutexWait(Word& word, uint32_t seen, uint32_t milliseconds)
{
    timespec time{milliseconds / 1000, static_cast<long>(milliseconds % 1000) * 1000000};
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &time, nullptr, 0);
}

inline void FutexWake(Word& word)
{
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

constexpr uint32_t PATIENCE = 100;  // until somebody asks whether the other side still lives

// A counter that one side advances and others wait for; it may wrap around.
struct Progress {
    Word value;
    Word waiters;

    bool Reached(uint32_t number) const
    {
        return static_cast<int32_t>(value.load(std::memory_order_seq_cst) - number) >= 0;
    }
    void Set(uint32_t number)
    {
        value.store(number, std::memory_order_seq_cst);
        Wake();
    }
    void Wake()
    {
        if (waiters.load(std::memory_order_seq_cst) > 0) {
            FutexWake(value);
        }
    }
    // `patience()` is asked now and then: how many milliseconds to wait, 0: no longer. Returns whether the number was
    // reached.
    template <typename Patience>
    bool Wait(uint32_t number, const Patience& patience)
    {
        waiters.fetch_add(1, std::memory_order_seq_cst);
        bool reached;
        for (;;) {
            const uint32_t seen = value.load(std::memory_order_seq_cst);
            reached = static_cast<int32_t>(seen - number) >= 0;
            const uint32_t milliseconds = reached ? 0 : patience();
            if (milliseconds == 0) {
                break;
            }
            FutexWait(value, seen, milliseconds);
        }
        waiters.fetch_sub(1, std::memory_order_seq_cst);
        return reached;
    }
};

}  // namespace device
}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_DEVICE_PROTOCOL_FUTEX_H
