/*!
 * Packs parts of a matrix together as floats, for vector_unit.cpp only: a library's product then reads them without
 * gaps, from the cache.
 */
#ifndef ASCENDC_HOST_SIMD_PANELS_UNIT_H
#define ASCENDC_HOST_SIMD_PANELS_UNIT_H

#include <algorithm>

#include "simd/simd.h"
#include "simd/squares.h"
#include "simd/vector_unit.h"

namespace AscendC {
namespace host {
namespace HOST_ISA {

template <typename T>
HOST_INLINE const T* LineOf(const Panel& panel, uint32_t line)
{
    return reinterpret_cast<const T*>(panel.src) + line * panel.srcStride;
}

template <typename T>
void CopyLines(const Panel& panel)
{
    for (uint32_t line = 0; line < panel.lines; ++line) {
        const T* const from = LineOf<T>(panel, line);
        float* const to = panel.dst + line * panel.dstStride;
        uint32_t i = 0;
#pragma GCC unroll 4
        for (; i + W <= panel.length; i += W) {
            Store(to + i, Load(from + i));
        }
        if (i < panel.length) {
            StorePartial(to + i, LoadPartial(from + i, panel.length - i), panel.length - i);
        }
    }
}

constexpr uint32_t SQUARE = 8;
constexpr uint32_t SQUARES = 16;  // elements of a line at a time: whole vectors on every machine

// Transposes `lines` lines of `length` elements, SQUARE x SQUARES at most, by way of a copy: at the edges, and if they
// have 16 bits.
template <typename T>
HOST_INLINE void TransposePart(const Panel& panel, uint32_t line, uint32_t at, uint32_t lines, uint32_t length)
{
    float rows[SQUARE * SQUARES] = {};
    float columns[SQUARES * SQUARE];
    for (uint32_t i = 0; i < lines; ++i) {
        const T* const from = LineOf<T>(panel, line + i) + at;
        for (uint32_t j = 0; j < length; j += W) {
            const uint32_t left = length - j;
            Store(rows + i * SQUARES + j, left < W ? LoadPartial(from + j, left) : Load(from + j));
        }
    }
    for (uint32_t j = 0; j < SQUARES; j += SQUARE) {
        TransposeSquare(reinterpret_cast<uint32_t*>(columns + j * SQUARE), SQUARE,
                        reinterpret_cast<const uint32_t*>(rows + j), SQUARES);
    }
    for (uint32_t j = 0; j < length; ++j) {
        std::copy_n(columns + j * SQUARE, lines, panel.dst + (at + j) * panel.dstStride + line);
    }
}

template <typename T>
void TransposeLines(const Panel& panel)
{
    for (uint32_t line = 0; line < panel.lines; line += SQUARE) {
        const uint32_t lines = std::min(SQUARE, panel.lines - line);
        for (uint32_t at = 0; at < panel.length; at += SQUARES) {
            const uint32_t length = std::min(SQUARES, panel.length - at);
            if constexpr (sizeof(T) == sizeof(float)) {
                if (lines == SQUARE && length == SQUARES) {
                    for (uint32_t j = 0; j < SQUARES; j += SQUARE) {
                        TransposeSquare(reinterpret_cast<uint32_t*>(panel.dst + (at + j) * panel.dstStride + line),
                                        static_cast<uint32_t>(panel.dstStride),
                                        reinterpret_cast<const uint32_t*>(LineOf<T>(panel, line) + at + j),
                                        panel.srcStride);
                    }
                    continue;
                }
            }
            TransposePart<T>(panel, line, at, lines, length);
        }
    }
}

template <typename T>
void PackPanel(const Panel& panel)
{
    panel.transposes ? TransposeLines<T>(panel) : CopyLines<T>(panel);
}

}  // namespace HOST_ISA
}  // namespace host
}  // namespace AscendC

#endif  // ASCENDC_HOST_SIMD_PANELS_UNIT_H
