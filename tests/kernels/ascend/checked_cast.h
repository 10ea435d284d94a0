/*!
 * Included before the tilings: a cast of an integer that does not fit in the type it is cast to throws.
 */
#ifndef STAND_IN_CHECKED_CAST_H
#define STAND_IN_CHECKED_CAST_H

#include <stdexcept>
#include <string>
#include <type_traits>

namespace stand_in {

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

}  // namespace stand_in

#define static_cast ::stand_in::CheckedCast

#endif  // STAND_IN_CHECKED_CAST_H
