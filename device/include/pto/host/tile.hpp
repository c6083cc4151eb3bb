// Tiles: pieces of an on-chip memory with a shape. The valid region may be smaller than the tile.
#pragma once

#include "pto/host/device.hpp"

namespace pto {

template <TileType Loc_, typename Element_, const int Rows_, const int Cols_,
          const BLayout BFractal_ = BLayout::RowMajor, const int RowValid_ = Rows_, const int ColValid_ = Cols_,
          const SLayout SFractal_ = SLayout::NoneBox, const int SFractalSize_ = TileConfig::fractalABSize,
          PadValue PadVal_ = PadValue::Null, const CompactMode Compact_ = CompactMode::Null>
struct Tile {
  using DType = Element_;
  static constexpr TileType Loc = Loc_;
  static constexpr int Rows = Rows_;
  static constexpr int Cols = Cols_;
  static constexpr int ValidRow = RowValid_;
  static constexpr int ValidCol = ColValid_;
  static constexpr BLayout BFractal = BFractal_;
  static constexpr SLayout SFractal = SFractal_;
  static constexpr int SFractalSize = SFractalSize_;
  static constexpr int Numel = Rows * Cols;
  static constexpr bool isRowMajor = BFractal == BLayout::RowMajor;
  static constexpr bool isBoxedLayout = SFractal != SLayout::NoneBox;

  static_assert(Rows > 0 && Cols > 0 && ValidRow <= Rows && ValidCol <= Cols, "a valid region lies in its tile");
  // Rows of a plain tile, and columns of a transposed one, start at multiples of 32 bytes.
  static_assert(isBoxedLayout || (isRowMajor ? Cols : Rows) * sizeof(DType) % TileConfig::alignedSize == 0 ||
                    Rows == 1 || Cols == 1,
                "rows of a tile are multiples of 32 bytes");

  // A static valid region.
  Tile() : Tile(ValidRow, ValidCol, 0) {}
  // One dynamic extent.
  explicit Tile(size_t extent)
      : Tile(ValidRow == DYNAMIC ? static_cast<int>(extent) : ValidRow,
             ValidCol == DYNAMIC ? static_cast<int>(extent) : ValidCol, 0) {
    static_assert((ValidRow == DYNAMIC) != (ValidCol == DYNAMIC), "one extent is dynamic");
  }
  // Two dynamic extents.
  Tile(size_t rows, size_t cols) : Tile(static_cast<int>(rows), static_cast<int>(cols), 0) {
    static_assert(ValidRow == DYNAMIC && ValidCol == DYNAMIC, "both extents are dynamic");
  }

  unsigned GetValidRow() const { return valid_rows_; }
  unsigned GetValidCol() const { return valid_cols_; }

  // Scalar access: the core must have waited for the vector pipe.
  DType *data() const { return reinterpret_cast<DType *>(megamoe_dev_memory(memory()) + address_); }
  DType GetValue(uint32_t offset) const { return data()[offset]; }
  void SetValue(uint32_t offset, DType value) { data()[offset] = value; }

  static constexpr uint32_t memory() {
    switch (Loc) {
      case TileType::Vec:
        return static_cast<uint32_t>(megamoe::Memory::Ub);
      case TileType::Mat:
        return static_cast<uint32_t>(megamoe::Memory::L1);
      case TileType::Left:
        return static_cast<uint32_t>(megamoe::Memory::L0a);
      case TileType::Right:
        return static_cast<uint32_t>(megamoe::Memory::L0b);
      case TileType::Acc:
        return static_cast<uint32_t>(megamoe::Memory::L0c);
      case TileType::Bias:
        return static_cast<uint32_t>(megamoe::Memory::Bias);
      case TileType::Scaling:
        return static_cast<uint32_t>(megamoe::Memory::Fixpipe);
    }
    return 0;
  }

  static constexpr megamoe::TileLayout layout() {
    if (Loc == TileType::Left || Loc == TileType::Right || Loc == TileType::Acc) {
      return megamoe::TileLayout::Unit;
    }
    if (isBoxedLayout) {
      return megamoe::TileLayout::Nz;
    }
    return isRowMajor ? megamoe::TileLayout::RowMajor : megamoe::TileLayout::ColMajor;
  }

  megamoe::TileView view() const {
    megamoe::TileView view;
    view.address = address_;
    view.rows = Rows;
    view.cols = Cols;
    view.valid_rows = valid_rows_;
    view.valid_cols = valid_cols_;
    view.dtype = static_cast<uint8_t>(megamoe::device::dtype_of<DType>());
    view.memory = static_cast<uint8_t>(memory());
    view.layout = static_cast<uint8_t>(layout());
    view.reserved = 0;
    return view;
  }

  void assign(uint32_t address) { address_ = address; }

 private:
  Tile(int rows, int cols, int) : valid_rows_(static_cast<unsigned>(rows)), valid_cols_(static_cast<unsigned>(cols)) {
    static_assert(Loc != TileType::Mat || !isBoxedLayout || (!isRowMajor && SFractal == SLayout::RowMajor),
                  "boxed tiles in L1 are Nz");
  }

  uint32_t address_ = 0;
  unsigned valid_rows_;
  unsigned valid_cols_;
};

template <typename Element_, const int Rows_, const int Cols_, const int RowValid_ = Rows_, const int ColValid_ = Cols_>
using TileLeft =
    Tile<TileType::Left, Element_, Rows_, Cols_, BLayout::RowMajor, RowValid_, ColValid_, SLayout::RowMajor,
         TileConfig::fractalABSize>;

template <typename Element_, const int Rows_, const int Cols_, const int RowValid_ = Rows_, const int ColValid_ = Cols_>
using TileRight =
    Tile<TileType::Right, Element_, Rows_, Cols_, BLayout::RowMajor, RowValid_, ColValid_, SLayout::ColMajor,
         TileConfig::fractalABSize>;

template <typename Element_, const int Rows_, const int Cols_, const int RowValid_ = Rows_, const int ColValid_ = Cols_>
using TileAcc =
    Tile<TileType::Acc, Element_, Rows_, Cols_, BLayout::ColMajor, RowValid_, ColValid_, SLayout::RowMajor,
         TileConfig::fractalCSize>;

}  // namespace pto
