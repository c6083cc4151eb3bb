// One instruction at a time: load, execute, store. The tests compare with naive code.
#include "examples/args.h"
#include "megamoe/entry.h"

#include "kernel_operator.h"

using namespace pto;
using megamoe::ConformanceArgs;

namespace {

constexpr int kRows = 16;
constexpr int kCols = 96;

template <typename T>
using VecTile = Tile<TileType::Vec, T, kRows, kCols, BLayout::RowMajor, DYNAMIC, DYNAMIC>;
template <typename T>
using Matrix = GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, DYNAMIC>, Stride<1, 1, 1, DYNAMIC, 1>>;

template <typename T>
Matrix<T> matrix(__gm__ uint8_t *data, const ConformanceArgs &args) {
  return Matrix<T>(reinterpret_cast<__gm__ T *>(data), Shape<1, 1, 1, DYNAMIC, DYNAMIC>(args.rows, args.cols),
                   Stride<1, 1, 1, DYNAMIC, 1>(args.stride));
}

// UB: three operands one behind the other.
template <typename T>
constexpr uint32_t place(int operand) {
  return operand * kRows * kCols * sizeof(T);
}

template <typename T>
T scalar(const ConformanceArgs &args) {
  T value;
  __builtin_memcpy(&value, &args.scalar, sizeof(T));
  return value;
}

template <typename T>
void run_vector(const ConformanceArgs &args) {
  VecTile<T> a(args.rows, args.cols), b(args.rows, args.cols), out(args.rows, args.cols);
  TASSIGN(a, place<T>(0));
  TASSIGN(b, place<T>(1));
  TASSIGN(out, place<T>(2));
  auto gm_a = matrix<T>(args.a, args), gm_b = matrix<T>(args.b, args);
  TLOAD(a, gm_a);
  TLOAD(b, gm_b);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  bool row_result = false;
  switch (args.op) {
    case 0: TADD(out, a, b); break;
    case 1: TSUB(out, a, b); break;
    case 2: TMUL(out, a, b); break;
    case 3: TDIV(out, a, b); break;
    case 4: TMAX(out, a, b); break;
    case 5: TMIN(out, a, b); break;
    case 6: TADDS(out, a, scalar<T>(args)); break;
    case 7: TSUBS(out, a, scalar<T>(args)); break;
    case 8: TMULS(out, a, scalar<T>(args)); break;
    case 9: TDIVS(out, a, scalar<T>(args)); break;
    case 10: TMAXS(out, a, scalar<T>(args)); break;
    case 11: TMINS(out, a, scalar<T>(args)); break;
    case 12: TDIVS(out, scalar<T>(args), a); break;
    case 13: TABS(out, a); break;
    case 14: TNEG(out, a); break;
    case 15: TEXP(out, a); break;
    case 16: TEXPANDS(out, scalar<T>(args)); break;
    case 17: TMOV(out, a); break;
    case 18: TADD(a, a, b); TMOV(out, a); break;  // in place
    case 19: {  // to what is in global memory
      set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
      wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
      auto gm_sum = matrix<T>(args.out, args);
      TSTORE<VecTile<T>, Matrix<T>, AtomicType::AtomicAdd>(gm_sum, a);
      TSTORE<VecTile<T>, Matrix<T>, AtomicType::AtomicAdd>(gm_sum, b);
      return;
    }
    default: row_result = true;
  }
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  auto gm_out = matrix<T>(args.out, args);
  if (!row_result) {
    TSTORE(gm_out, out);
    return;
  }
  // Row maxima: one element of each row, in a tile of one column.
  Tile<TileType::Vec, T, kRows, 32 / sizeof(T), BLayout::RowMajor, DYNAMIC, 1> max(args.rows);
  TASSIGN(max, place<T>(2));
  TROWMAX(max, a, b);
  GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, 1>, Stride<1, 1, 1, DYNAMIC, 1>> gm_max(
      reinterpret_cast<__gm__ T *>(args.out), Shape<1, 1, 1, DYNAMIC, 1>(args.rows),
      Stride<1, 1, 1, DYNAMIC, 1>(args.stride));
  TSTORE(gm_max, max);
}

template <typename From, typename To>
void run_convert(const ConformanceArgs &args) {
  VecTile<From> from(args.rows, args.cols);
  VecTile<To> to(args.rows, args.cols);
  TASSIGN(from, 0);
  TASSIGN(to, place<uint64_t>(1));
  auto gm_from = matrix<From>(args.a, args);
  auto gm_to = matrix<To>(args.out, args);
  TLOAD(from, gm_from);
  const RoundMode mode = static_cast<RoundMode>(args.mode);
  // The scalar chooses the saturation: default, off, on.
  if (args.scalar == 0) {
    TCVT(to, from, mode);
  } else {
    TCVT(to, from, mode, args.scalar == 1 ? SaturationMode::OFF : SaturationMode::ON);
  }
  TSTORE(gm_to, to);
}

void run_sort(const ConformanceArgs &args) {
  constexpr int kLen = 1024;
  using Line = Tile<TileType::Vec, float, 1, kLen, BLayout::RowMajor, 1, DYNAMIC>;
  using Index = Tile<TileType::Vec, uint32_t, 1, kLen, BLayout::RowMajor, 1, DYNAMIC>;
  using Pairs = Tile<TileType::Vec, float, 1, 2 * kLen, BLayout::RowMajor, 1, DYNAMIC>;
  const uint32_t len = args.cols;
  Line keys(len);
  Index index(len), gathered(len);
  Pairs blocks(2 * len), merged(2 * len), tmp(2 * len);
  TASSIGN(keys, 0);
  TASSIGN(index, 4096);
  TASSIGN(blocks, 8192);
  TASSIGN(merged, 16384);
  TASSIGN(tmp, 24576);
  TASSIGN(gathered, 32768);
  using Row = GlobalTensor<float, Shape<1, 1, 1, 1, DYNAMIC>, Stride<1, 1, 1, 1, 1>>;
  using IndexRow = GlobalTensor<uint32_t, Shape<1, 1, 1, 1, DYNAMIC>, Stride<1, 1, 1, 1, 1>>;
  Row gm_keys(reinterpret_cast<__gm__ float *>(args.a), Shape<1, 1, 1, 1, DYNAMIC>(len));
  IndexRow gm_index(reinterpret_cast<__gm__ uint32_t *>(args.b), Shape<1, 1, 1, 1, DYNAMIC>(len));
  TLOAD(keys, gm_keys);
  TLOAD(index, gm_index);
  TSORT32(blocks, keys, index);
  if (args.op == 0) {  // blocks of 32 only
    Row gm_out(reinterpret_cast<__gm__ float *>(args.out), Shape<1, 1, 1, 1, DYNAMIC>(2 * len));
    TSTORE(gm_out, blocks);
  } else if (args.op == 1) {  // four blocks of 32 of one tile
    TMRGSORT(merged, blocks, 64);
    Row gm_out(reinterpret_cast<__gm__ float *>(args.out), Shape<1, 1, 1, 1, DYNAMIC>(2 * len));
    TSTORE(gm_out, merged);
  } else {  // three lists of their own lengths: 32, 64 and 32 pairs, the middle one merged before
    using List = Tile<TileType::Vec, float, 1, 128, BLayout::RowMajor, 1, DYNAMIC>;
    List first(64), second(128), third(64), left(64), right(64);
    TASSIGN(first, 8192);
    TASSIGN(left, 8192 + 256);
    TASSIGN(right, 8192 + 512);
    TASSIGN(third, 8192 + 768);
    TASSIGN(second, 40960);
    MrgSortExecutedNumList taken;
    TMRGSORT<List, Pairs, List, List, false>(second, taken, tmp, left, right);
    if (args.op == 2) {
      TMRGSORT<Pairs, Pairs, List, List, List, false>(merged, taken, tmp, first, second, third);
    } else {
      TMRGSORT<Pairs, Pairs, List, List, List, true>(merged, taken, tmp, first, second, third);
    }
    TGATHER<Index, Pairs, MaskPattern::P1010>(gathered, merged);
    IndexRow gm_out(reinterpret_cast<__gm__ uint32_t *>(args.out), Shape<1, 1, 1, 1, DYNAMIC>(len));
    TSTORE(gm_out, gathered);
    // The counts, behind the indices.
    Index counts(4);
    TASSIGN(counts, 49152);
    counts.SetValue(0, taken.mrgSortList0);
    counts.SetValue(1, taken.mrgSortList1);
    counts.SetValue(2, taken.mrgSortList2);
    counts.SetValue(3, 0);
    IndexRow gm_counts(reinterpret_cast<__gm__ uint32_t *>(args.out) + len, Shape<1, 1, 1, 1, DYNAMIC>(4));
    TSTORE(gm_counts, counts);
  }
}

}  // namespace

MEGAMOE_KERNEL(example_vector) {
  const ConformanceArgs args = *reinterpret_cast<__gm__ ConformanceArgs *>(raw);
  if (get_block_idx() != 0 || get_subblockid() != 0) {
    return;
  }
  switch (args.dtype) {
    case 0: run_vector<float>(args); break;
    case 1: run_vector<int32_t>(args); break;
    case 2: run_vector<int16_t>(args); break;
    default: run_vector<half>(args);
  }
}

MEGAMOE_KERNEL(example_convert) {
  const ConformanceArgs args = *reinterpret_cast<__gm__ ConformanceArgs *>(raw);
  if (get_block_idx() != 0 || get_subblockid() != 0) {
    return;
  }
  switch (args.op) {
    case 0: run_convert<float, half>(args); break;
    case 1: run_convert<float, bfloat16_t>(args); break;
    case 2: run_convert<float, float>(args); break;
    case 3: run_convert<float, int32_t>(args); break;
    case 4: run_convert<float, int16_t>(args); break;
    case 5: run_convert<half, float>(args); break;
    case 6: run_convert<half, int32_t>(args); break;
    case 7: run_convert<half, int16_t>(args); break;
    case 8: run_convert<half, int8_t>(args); break;
    case 9: run_convert<half, uint8_t>(args); break;
    case 10: run_convert<bfloat16_t, float>(args); break;
    case 11: run_convert<bfloat16_t, int32_t>(args); break;
    case 12: run_convert<int32_t, float>(args); break;
    case 13: run_convert<int32_t, int16_t>(args); break;
    case 14: run_convert<int16_t, float>(args); break;
    case 15: run_convert<int16_t, half>(args); break;
    case 16: run_convert<int8_t, half>(args); break;
    default: run_convert<uint8_t, half>(args);
  }
}

MEGAMOE_KERNEL(example_sort) {
  const ConformanceArgs args = *reinterpret_cast<__gm__ ConformanceArgs *>(raw);
  if (get_block_idx() == 0 && get_subblockid() == 0) {
    run_sort(args);
  }
}
