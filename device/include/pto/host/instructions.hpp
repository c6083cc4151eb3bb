// Tile instructions.
#pragma once

#include "pto/host/global.hpp"
#include "pto/host/tile.hpp"

namespace pto {

namespace host {

template <typename TileData>
PTO_INSTRUCTION void binary(megamoe::BinaryOp op, TileData &dst, const TileView &a, const TileView &b) {
  const TileView target = dst.view();
  megamoe_dev_binary(static_cast<uint32_t>(op), &target, &a, &b);
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION void scalar(megamoe::BinaryOp op, bool scalar_first, TileDst &dst, TileSrc &src, typename TileSrc::DType value) {
  const TileView target = dst.view(), source = src.view();
  const uint32_t bits = static_cast<uint32_t>(megamoe::device::bits_of(value));
  megamoe_dev_scalar(static_cast<uint32_t>(op), scalar_first ? 1 : 0, &target, &source, bits);
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION void unary(megamoe::UnaryOp op, TileDst &dst, TileSrc &src) {
  const TileView target = dst.view(), source = src.view();
  megamoe_dev_unary(static_cast<uint32_t>(op), &target, &source);
}

}  // namespace host

// ---- placement and movement ----

template <typename T, typename AddrType>
void TASSIGN(T &object, AddrType address) {
  if constexpr (std::is_pointer_v<AddrType>) {
    object.assign(address);
  } else {
    object.assign(static_cast<uint32_t>(address));
  }
}

template <typename TileData, typename GlobalData>
PTO_INSTRUCTION RecordEvent TLOAD(TileData &dst, GlobalData &src) {
  static_assert(TileData::Loc == TileType::Vec || TileData::Loc == TileType::Mat, "TLOAD fills UB or L1");
  static_assert(sizeof(typename TileData::DType) == sizeof(typename GlobalData::RawDType));
  const TileView tile = dst.view();
  const GmView gm = src.view();
  megamoe_dev_load(&tile, &gm);
  return {};
}

template <typename TileData, typename GlobalData, AtomicType atomicType = AtomicType::AtomicNone>
PTO_INSTRUCTION RecordEvent TSTORE(GlobalData &dst, TileData &src) {
  const GmView gm = dst.view();
  const TileView tile = src.view();
  if constexpr (TileData::Loc == TileType::Acc) {
    megamoe_dev_store_acc(&gm, &tile, 0, 0, nullptr);
  } else {
    static_assert(TileData::Loc == TileType::Vec, "TSTORE takes from UB or L0C");
    static_assert(sizeof(typename TileData::DType) == sizeof(typename GlobalData::RawDType));
    megamoe_dev_store(&gm, &tile, atomicType == AtomicType::AtomicAdd ? 1 : 0);
  }
  return {};
}

template <typename TileData, typename GlobalData, AtomicType atomicType = AtomicType::AtomicNone>
PTO_INSTRUCTION RecordEvent TSTORE(GlobalData &dst, TileData &src, uint64_t preQuantScalar) {
  static_assert(TileData::Loc == TileType::Acc, "the fixpipe scales accumulators");
  const GmView gm = dst.view();
  const TileView tile = src.view();
  megamoe_dev_store_acc(&gm, &tile, 1, preQuantScalar, nullptr);
  return {};
}

template <typename TileData, typename GlobalData, typename FpTileData>
PTO_INSTRUCTION RecordEvent TSTORE_FP(GlobalData &dst, TileData &src, FpTileData &fp) {
  static_assert(TileData::Loc == TileType::Acc && FpTileData::Loc == TileType::Scaling);
  const GmView gm = dst.view();
  const TileView tile = src.view(), scales = fp.view();
  megamoe_dev_store_acc(&gm, &tile, 2, 0, &scales);
  return {};
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TMOV(TileDst &dst, TileSrc &src) {
  static_assert((TileDst::Loc == TileType::Vec && TileSrc::Loc == TileType::Vec) ||
                    (TileDst::Loc == TileType::Scaling && TileSrc::Loc == TileType::Mat),
                "TMOV moves within UB, or scales from L1 to the fixpipe");
  const TileView target = dst.view(), source = src.view();
  megamoe_dev_move(&target, &source);
  return {};
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TEXTRACT(TileDst &dst, TileSrc &src, uint16_t indexRow = 0, uint16_t indexCol = 0) {
  static_assert(TileDst::Loc == TileType::Left || TileDst::Loc == TileType::Right);
  static_assert(TileSrc::Loc == TileType::Mat);
  static_assert(std::is_same_v<typename TileDst::DType, typename TileSrc::DType>);
  const TileView target = dst.view(), source = src.view();
  megamoe_dev_extract(&target, &source, indexRow, indexCol);
  return {};
}

// ---- matrix unit ----

template <typename TileRes, typename TileLeftData, typename TileRightData>
PTO_INSTRUCTION RecordEvent TMATMUL(TileRes &c, TileLeftData &a, TileRightData &b) {
  static_assert(TileRes::Loc == TileType::Acc && TileLeftData::Loc == TileType::Left &&
                TileRightData::Loc == TileType::Right);
  static_assert(TileLeftData::Rows == TileRes::Rows && TileLeftData::Cols == TileRightData::Rows &&
                TileRightData::Cols == TileRes::Cols);
  const TileView res = c.view(), left = a.view(), right = b.view();
  megamoe_dev_matmul(&res, &left, &right, 0);
  return {};
}

template <typename TileRes, typename TileLeftData, typename TileRightData>
PTO_INSTRUCTION RecordEvent TMATMUL_ACC(TileRes &cOut, TileRes &cIn, TileLeftData &a, TileRightData &b) {
  const TileView res = cOut.view(), left = a.view(), right = b.view();
  if (res.address != cIn.view().address) {
    megamoe_dev_fail("TMATMUL_ACC adds in place: both accumulators must be the same");
  }
  megamoe_dev_matmul(&res, &left, &right, 1);
  return {};
}

template <typename TileRes, typename TileLeftData, typename TileRightData>
PTO_INSTRUCTION RecordEvent TMATMUL_ACC(TileRes &c, TileLeftData &a, TileRightData &b) {
  return TMATMUL_ACC(c, c, a, b);
}

// ---- elementwise ----

#define MEGAMOE_PTO_BINARY(NAME, OP)                                        \
  template <typename TileDst, typename TileSrc0, typename TileSrc1>         \
  PTO_INSTRUCTION RecordEvent NAME(TileDst &dst, TileSrc0 &src0, TileSrc1 &src1) {          \
    host::binary(megamoe::BinaryOp::OP, dst, src0.view(), src1.view());     \
    return {};                                                              \
  }
MEGAMOE_PTO_BINARY(TADD, Add)
MEGAMOE_PTO_BINARY(TSUB, Sub)
MEGAMOE_PTO_BINARY(TMUL, Mul)
MEGAMOE_PTO_BINARY(TDIV, Div)
MEGAMOE_PTO_BINARY(TMAX, Max)
MEGAMOE_PTO_BINARY(TMIN, Min)
#undef MEGAMOE_PTO_BINARY

#define MEGAMOE_PTO_SCALAR(NAME, OP)                                                   \
  template <typename TileDst, typename TileSrc>                                        \
  PTO_INSTRUCTION RecordEvent NAME(TileDst &dst, TileSrc &src, typename TileSrc::DType value) {        \
    host::scalar(megamoe::BinaryOp::OP, false, dst, src, value);                       \
    return {};                                                                         \
  }
MEGAMOE_PTO_SCALAR(TADDS, Add)
MEGAMOE_PTO_SCALAR(TSUBS, Sub)
MEGAMOE_PTO_SCALAR(TMULS, Mul)
MEGAMOE_PTO_SCALAR(TDIVS, Div)
MEGAMOE_PTO_SCALAR(TMAXS, Max)
MEGAMOE_PTO_SCALAR(TMINS, Min)
#undef MEGAMOE_PTO_SCALAR

// scalar / tile
template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TDIVS(TileDst &dst, typename TileDst::DType value, TileSrc &src) {
  host::scalar(megamoe::BinaryOp::Div, true, dst, src, value);
  return {};
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TABS(TileDst &dst, TileSrc &src) {
  host::unary(megamoe::UnaryOp::Abs, dst, src);
  return {};
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TEXP(TileDst &dst, TileSrc &src) {
  host::unary(megamoe::UnaryOp::Exp, dst, src);
  return {};
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TNEG(TileDst &dst, TileSrc &src) {
  host::unary(megamoe::UnaryOp::Neg, dst, src);
  return {};
}

template <typename TileData>
PTO_INSTRUCTION RecordEvent TEXPANDS(TileData &dst, typename TileData::DType value) {
  const TileView target = dst.view();
  megamoe_dev_fill(&target, megamoe::device::bits_of(value));
  return {};
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TCVT(TileDst &dst, TileSrc &src, RoundMode mode, SaturationMode satMode) {
  const TileView target = dst.view(), source = src.view();
  megamoe_dev_convert(&target, &source, static_cast<uint32_t>(mode), satMode == SaturationMode::ON ? 1 : 0);
  return {};
}

// Without a mode: f16 -> s8 / u8 / s16 and f32 -> s16 keep the low bits, everything else saturates.
template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TCVT(TileDst &dst, TileSrc &src, RoundMode mode) {
  using To = typename TileDst::DType;
  using From = typename TileSrc::DType;
  constexpr bool kFromHalf = std::is_same_v<From, half> &&
                             (std::is_same_v<To, int8_t> || std::is_same_v<To, uint8_t> || std::is_same_v<To, int16_t>);
  constexpr bool kFromFloat = std::is_same_v<From, float> && std::is_same_v<To, int16_t>;
  return TCVT(dst, src, mode, kFromHalf || kFromFloat ? SaturationMode::OFF : SaturationMode::ON);
}

// ---- rows, sorting, gathering ----

template <typename TileDst, typename TileSrc, typename TileTmp>
PTO_INSTRUCTION RecordEvent TROWMAX(TileDst &dst, TileSrc &src, TileTmp &tmp) {
  const TileView target = dst.view(), source = src.view(), scratch = tmp.view();
  megamoe_dev_row_max(&target, &source, &scratch);
  return {};
}

template <typename TileDst, typename TileSrc, typename TileIdx>
PTO_INSTRUCTION RecordEvent TSORT32(TileDst &dst, TileSrc &src, TileIdx &idx) {
  const TileView target = dst.view(), source = src.view(), index = idx.view();
  megamoe_dev_sort32(&target, &source, &index);
  return {};
}

template <typename TileDst, typename TileSrc>
PTO_INSTRUCTION RecordEvent TMRGSORT(TileDst &dst, TileSrc &src, uint32_t blockLen) {
  const TileView target = dst.view(), source = src.view();
  megamoe_dev_merge_blocks(&target, &source, blockLen);
  return {};
}

namespace host {

template <typename TileDst>
PTO_INSTRUCTION void merge(TileDst &dst, MrgSortExecutedNumList &taken, const TileView *sources, uint32_t count, bool exhausted) {
  const TileView target = dst.view();
  uint16_t numbers[4];
  megamoe_dev_merge(&target, sources, count, exhausted ? 1 : 0, numbers);
  taken = {numbers[0], numbers[1], numbers[2], numbers[3]};
}

}  // namespace host

template <typename TileDst, typename TileTmp, typename Src0, typename Src1, bool exhausted>
PTO_INSTRUCTION RecordEvent TMRGSORT(TileDst &dst, MrgSortExecutedNumList &taken, TileTmp &, Src0 &src0, Src1 &src1) {
  const TileView sources[] = {src0.view(), src1.view()};
  host::merge(dst, taken, sources, 2, exhausted);
  return {};
}

template <typename TileDst, typename TileTmp, typename Src0, typename Src1, typename Src2, bool exhausted>
PTO_INSTRUCTION RecordEvent TMRGSORT(TileDst &dst, MrgSortExecutedNumList &taken, TileTmp &, Src0 &src0, Src1 &src1, Src2 &src2) {
  const TileView sources[] = {src0.view(), src1.view(), src2.view()};
  host::merge(dst, taken, sources, 3, exhausted);
  return {};
}

template <typename TileDst, typename TileTmp, typename Src0, typename Src1, typename Src2, typename Src3,
          bool exhausted>
PTO_INSTRUCTION RecordEvent TMRGSORT(TileDst &dst, MrgSortExecutedNumList &taken, TileTmp &, Src0 &src0, Src1 &src1, Src2 &src2,
                     Src3 &src3) {
  const TileView sources[] = {src0.view(), src1.view(), src2.view(), src3.view()};
  host::merge(dst, taken, sources, 4, exhausted);
  return {};
}

template <typename TileDst, typename TileSrc, MaskPattern maskPattern>
PTO_INSTRUCTION RecordEvent TGATHER(TileDst &dst, TileSrc &src) {
  constexpr int kPattern = static_cast<int>(maskPattern);
  constexpr uint32_t kStep = maskPattern == MaskPattern::P1111 ? 1 : (kPattern <= 2 ? 2 : 4);
  constexpr uint32_t kFirst = maskPattern == MaskPattern::P1111 ? 0 : (kPattern <= 2 ? kPattern - 1 : kPattern - 3);
  const TileView target = dst.view(), source = src.view();
  megamoe_dev_gather(&target, &source, kFirst, kStep);
  return {};
}

}  // namespace pto
