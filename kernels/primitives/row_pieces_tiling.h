/*!
 * Cuts a few long rows into pieces that cores share: more cores than there are rows work then. It is plain C++.
 *
 * Whether rows are cut, and where, depends on their number and length and on the machine's Unified Buffer and costs,
 * but not on the number of cores: the values of the pieces are added in order, so results are the same on any number.
 */
#ifndef MS_ASCEND_OPS_PRIMITIVES_ROW_PIECES_TILING_H
#define MS_ASCEND_OPS_PRIMITIVES_ROW_PIECES_TILING_H

#include "primitives/row_plan.h"

namespace ms_ascend_ops {

constexpr uint32_t MAX_PIECES = 240;  // of all rows: five or six for each of 48 or 40 cores; repeats of an instruction
constexpr uint32_t MAX_SHARED_ROWS = 24;  // from here on rows alone keep more than half of 48 cores busy

struct RowPieces {
    uint32_t pieces = 0;  // of a row; 0: rows are not cut
    uint32_t cols = 0;    // of a piece: whole tiles
    uint32_t tileCols = 0;
};

// Returns the Unified Buffer that the values of a row's pieces take (primitives/row_pieces.h), `values` a piece.
constexpr uint32_t PieceBytes(uint32_t values)
{
    return (MAX_PIECES + 8) * values * BLOCK_BYTES;
}

// Is it worth a barrier to share `rows` rows that move so many bytes each? `most`: rows that keep half of the cores of
// a chip busy.
inline bool SharesRows(uint64_t rows, uint64_t rowBytes, const Platform& platform, uint64_t most = MAX_SHARED_ROWS)
{
    return rows > 0 && rows <= most && rowBytes >= platform.minSharedRowBytes;
}

// `sets` of rows, all rows of a set in the same pieces; a set moves `setBytes`, a tile has at most `tileCols` columns.
inline RowPieces CutRows(uint64_t sets, uint64_t cols, uint64_t setBytes, uint64_t tileCols, const Platform& platform)
{
    const uint64_t wanted = std::max<uint64_t>(1, std::min(MAX_PIECES / sets, setBytes / platform.minPieceBytes));
    const uint64_t most = CeilDiv(cols, wanted);
    const uint64_t tiles = CeilDiv(most, tileCols);
    RowPieces cut;
    // Whole repeats, so that lane sums meet the same columns whatever the tile.
    cut.tileCols = static_cast<uint32_t>(RoundUp(CeilDiv(most, tiles), 2 * FLOATS_PER_REPEAT));
    cut.cols = static_cast<uint32_t>(cut.tileCols * tiles);
    cut.pieces = static_cast<uint32_t>(CeilDiv(cols, cut.cols));
    return cut;
}

// Does what CutRows does, and makes the plan of rows that do not fit the Unified Buffer that of their pieces.
inline RowPieces CutPlan(RowPlan& plan, uint64_t sets, uint64_t cols, uint32_t elementBytes, uint64_t setBytes,
                         RowDemand demand, uint32_t values, const Platform& platform)
{
    if (plan.tileCols == cols) {
        return {};
    }
    demand.fixed += PieceBytes(values);
    plan = PlanRows(1, cols, elementBytes, demand, platform);
    const RowPieces cut = CutRows(sets, cols, setBytes, plan.tileCols, platform);
    plan.tileCols = cut.tileCols;
    plan.stride = cut.tileCols;
    return cut;
}

// Returns the pieces of each core if config.blockDim cores with `rowsPerCore` rows each would have an eighth more to do
// than cores that share pieces; else 0.
inline uint64_t SharePieces(uint64_t rows, uint64_t rowsPerCore, uint64_t pieces, uint64_t bytes,
                            const Platform& platform, LaunchConfig& config)
{
    const uint64_t perCore = CeilDiv(rows * pieces, CoresFor(rows * pieces, bytes, platform));
    if (perCore * 9 > rowsPerCore * pieces * 8) {
        return 0;
    }
    config.blockDim = static_cast<uint32_t>(CeilDiv(rows * pieces, perCore));
    return perCore;
}

// Fills the fields of `tiling` that say which rows and pieces a core takes.
template <class TILING>
LaunchConfig ShareRows(const RowPieces& cut, uint64_t rows, uint64_t rowBytes, uint64_t outputRowBytes,
                       uint32_t elementBytes, uint32_t values, const Platform& platform, TILING& tiling)
{
    LaunchConfig config;
    config.blockDim = CoresFor(rows, rows * rowBytes, platform);
    tiling.rowsPerCore = SplitRows(rows, outputRowBytes, elementBytes, config);
    tiling.pieces = cut.pieces;
    tiling.pieceCols = cut.cols;
    if (cut.pieces > 0) {
        tiling.piecesPerCore = SharePieces(rows, tiling.rowsPerCore, cut.pieces, rows * rowBytes, platform, config);
        config.workspaceBytes = rows * cut.pieces * values * BLOCK_BYTES;
    }
    return config;
}

}  // namespace ms_ascend_ops

#endif  // MS_ASCEND_OPS_PRIMITIVES_ROW_PIECES_TILING_H
