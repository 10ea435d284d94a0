/*!
 * Finds the tiles of a core, for kernels with the tiling of primitives/flat_tiling.h.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_FLAT_H
#define MS_ASCEND_OPS_PRIMITIVES_FLAT_H

#include "kernel_operator.h"
#include "primitives/tile.h"

namespace ms_ascend_ops {

// Calls kernel.Tile(offset, count) for every tile of this core: elements [offset, offset + count).
template <class TILING, class KERNEL>
__aicore__ inline void ForTiles(const TILING& tiling, KERNEL& kernel)
{
    const uint64_t first = tiling.tilesPerCore * AscendC::GetBlockIdx();
    const uint64_t last = first + tiling.tilesPerCore < tiling.tiles ? first + tiling.tilesPerCore : tiling.tiles;
    for (uint64_t index = first; index < last; ++index) {
        const uint64_t offset = index * tiling.tileLength;
        const uint64_t left = tiling.size - offset;
        kernel.Tile(offset, left < tiling.tileLength ? static_cast<uint32_t>(left) : tiling.tileLength);
    }
}

// Loads a tile into a queue; any count, at any alignment.
template <typename T, class QUEUE>
__aicore__ inline void LoadTile(QUEUE& queue, const AscendC::GlobalTensor<T>& src, uint32_t count)
{
    AscendC::LocalTensor<T> tile = queue.template AllocTensor<T>();
    LoadRows(tile, src, {1, count, count, count});
    queue.EnQue(tile);
}

// Stores the tile that a queue holds.
template <typename T, class QUEUE>
__aicore__ inline void StoreTile(const AscendC::GlobalTensor<T>& dst, QUEUE& queue, uint32_t count)
{
    AscendC::LocalTensor<T> tile = queue.template DeQue<T>();
    StoreRows(dst, tile, {1, count, count, count});
    queue.FreeTensor(tile);
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_FLAT_H
