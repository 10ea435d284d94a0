/*!
 * Included before the tilings: a cast of an integer that does not fit in the type it is cast to throws.
 */
#ifndef TESTS_KERNELS_ASCEND_CHECKED_CAST_H
#define TESTS_KERNELS_ASCEND_CHECKED_CAST_H

#include <stdexcept>
#include <string>
#include <type_traits>

namespace checked {

template <typename TO, typename FROM>
constexpr TO CheckedCast(FROM&& from)
{
    using Source = std::decay_t<FROM>;
    if constexpr (std::is_integral_v<TO> && std::is_integral_v<Source>) {
        const TO to = (TO)from;
        if ((Source)to != from || (to < TO{}) != (from < Source{})) {
            throw std::logic_error(std::to_string(from) + " was narrowed to " + std::to_string(to));
        }
        return to;
    } else {
        return (TO)from;
    }
}

}  // namespace checked

#define static_cast ::checked::CheckedCast

#endif  // TESTS_KERNELS_ASCEND_CHECKED_CAST_H
