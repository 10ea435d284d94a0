/*!
 * A vector clock per pipe of a core says what the pipe knows to be complete.
 *
 * Calls of a core are numbered in program order. knows[p][q] is the last call on pipe q that has ended for certain
 * before the next call on pipe p begins.
 */
#ifndef ASCENDC_HOST_CHECKED_ORDER_H
#define ASCENDC_HOST_CHECKED_ORDER_H

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "observed/observer.h"

namespace AscendC {
namespace host {

constexpr uint32_t PIPES = 5;  // S, V, MTE2, MTE3, M (the cube)

constexpr uint32_t IndexOf(pipe_t pipe)
{
    return pipe == PIPE_V ? 1 : (pipe == PIPE_MTE2 ? 2 : (pipe == PIPE_MTE3 ? 3 : (pipe == PIPE_M ? 4 : 0)));
}
constexpr pipe_t PipeOf(uint32_t index)
{
    constexpr pipe_t pipes[] = {PIPE_S, PIPE_V, PIPE_MTE2, PIPE_MTE3, PIPE_M};
    return pipes[index];
}

using Clock = std::array<uint32_t, PIPES>;

class Order {
public:
    // Numbers a call and remembers it for messages.
    uint32_t Number(const Event& event)
    {
        calls_.push_back(event);
        return static_cast<uint32_t>(calls_.size());
    }
    const Event& Call(uint32_t number) const { return calls_[number - 1]; }
    uint32_t Now() const { return static_cast<uint32_t>(calls_.size()); }

    bool Knows(pipe_t pipe, pipe_t other, uint32_t number) const
    {
        return knows_[IndexOf(pipe)][IndexOf(other)] >= number;
    }
    // Returns what a flag that is set on `pipe` now will tell.
    Clock Arrive(pipe_t pipe) const
    {
        Clock clock = knows_[IndexOf(pipe)];
        clock[IndexOf(pipe)] = Now();
        return clock;
    }
    void Wait(pipe_t pipe, const Clock& clock)
    {
        Clock& mine = knows_[IndexOf(pipe)];
        for (uint32_t q = 0; q < PIPES; ++q) {
            mine[q] = clock[q] > mine[q] ? clock[q] : mine[q];
        }
    }
    // All calls so far have ended, for every pipe.
    void Barrier()
    {
        for (Clock& clock : knows_) {
            clock.fill(Now());
        }
    }
    void Barrier(pipe_t pipe) { Wait(pipe, Arrive(pipe)); }
    // Returns up to which call of `pipe` both copy pipes and the cube know.
    uint32_t KnownToCopies(pipe_t pipe) const
    {
        const uint32_t q = IndexOf(pipe);
        return std::min({knows_[IndexOf(PIPE_MTE2)][q], knows_[IndexOf(PIPE_MTE3)][q], knows_[IndexOf(PIPE_M)][q]});
    }
    // The cube begins: the message that starts it follows all copies to global memory.
    void StartProduct() { Wait(PIPE_M, Arrive(PIPE_MTE3)); }
    // The scalar unit waits for the cube, and everything issued after it follows it.
    void WaitForProducts()
    {
        for (uint32_t p = 0; p < PIPES; ++p) {
            Wait(PipeOf(p), Arrive(PIPE_M));
        }
    }

private:
    std::vector<Event> calls_;
    std::array<Clock, PIPES> knows_{};
};

}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_CHECKED_ORDER_H
