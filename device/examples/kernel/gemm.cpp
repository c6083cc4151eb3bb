// int8 tile GEMM on matrix cores that hand their tiles to vector cores for row scaling.
//
//   AIC:  a, b -> L1 -> L0A, L0B -> L0C -> fixpipe (column scale, half) -> h in GM, ready[tile] = epoch
//   AIV:  wait ready[tile] -> h -> UB: half -> float, * row scale -> out in GM
//
// Tile t goes to the matrix core t % blocks, its rows to the vector cores of the physical core that follows it, so
// that every hand-over crosses cores.
//
// Pipes of the AIC, double-buffered in L1 and L0 by the parity of the k step:
//   MTE2 --(L1 full)--> MTE1 --(L0 full)--> M --(L0C full)--> FIX
//        <-(L1 free)--       <-(L0 free)--    <-(L0C free)--
#include "examples/args.h"
#include "megamoe/entry.h"

#include "kernel_operator.h"

using namespace pto;
using megamoe::GemmArgs;

namespace {

constexpr int kTileM = 64;
constexpr int kTileN = 64;
constexpr int kStepK = 128;

using L1Left = Tile<TileType::Mat, int8_t, kTileM, kStepK, BLayout::ColMajor, DYNAMIC, DYNAMIC, SLayout::RowMajor>;
using L1Right = Tile<TileType::Mat, int8_t, kStepK, kTileN, BLayout::ColMajor, DYNAMIC, DYNAMIC, SLayout::RowMajor>;
using Left = TileLeft<int8_t, kTileM, kStepK, DYNAMIC, DYNAMIC>;
using Right = TileRight<int8_t, kStepK, kTileN, DYNAMIC, DYNAMIC>;
using Acc = TileAcc<int32_t, kTileM, kTileN, DYNAMIC, DYNAMIC>;
using L1Scale = Tile<TileType::Mat, uint64_t, 1, kTileN, BLayout::RowMajor, 1, DYNAMIC>;
using Scale = Tile<TileType::Scaling, uint64_t, 1, kTileN, BLayout::RowMajor, 1, DYNAMIC>;

template <typename T>
using Matrix = GlobalTensor<T, Shape<1, 1, 1, DYNAMIC, DYNAMIC>, Stride<1, 1, 1, DYNAMIC, 1>>;
using Fractals = GlobalTensor<int8_t, Shape<1, DYNAMIC, DYNAMIC, 16, 32>, Stride<1, DYNAMIC, 512, 32, 1>, Layout::NZ>;

template <typename T>
Matrix<T> matrix(__gm__ T *data, uint32_t rows, uint32_t cols, uint32_t stride) {
  return Matrix<T>(data, Shape<1, 1, 1, DYNAMIC, DYNAMIC>(rows, cols), Stride<1, 1, 1, DYNAMIC, 1>(stride));
}

// L1: two buffers of each operand, then the scales.
constexpr uint32_t kL1Left = 0;
constexpr uint32_t kL1Right = kL1Left + 2 * kTileM * kStepK;
constexpr uint32_t kL1Scale = kL1Right + 2 * kStepK * kTileN;

constexpr int kL1Free = 0, kL0Free = 2;    // + buffer
constexpr int kL1Full = 0, kL0Full = 2;    // + buffer
constexpr int kAccFull = 0, kAccFree = 0;
constexpr int kScaleIn = 4, kScaleFree = 5;

struct Region {
  uint32_t row, col, rows, cols;
};

uint32_t min(uint32_t a, uint32_t b) { return a < b ? a : b; }

Region region_of(const GemmArgs &args, uint32_t tile) {
  const uint32_t across = (args.n + kTileN - 1) / kTileN;
  Region region;
  region.row = tile / across * kTileM;
  region.col = tile % across * kTileN;
  region.rows = min(kTileM, args.m - region.row);
  region.cols = min(kTileN, args.n - region.col);
  return region;
}

void multiply(const GemmArgs &args, const Region &region, uint32_t &step) {
  Acc acc(region.rows, region.cols);
  TASSIGN(acc, 0);
  wait_flag(PIPE_FIX, PIPE_M, kAccFree);
  for (uint32_t k = 0; k < args.k; k += kStepK, ++step) {
    const uint32_t buffer = step % 2, depth = min(kStepK, args.k - k);
    L1Left l1_left(region.rows, depth);
    L1Right l1_right(depth, region.cols);
    TASSIGN(l1_left, kL1Left + buffer * kTileM * kStepK);
    TASSIGN(l1_right, kL1Right + buffer * kStepK * kTileN);
    auto gm_left = matrix(args.a + uint64_t{region.row} * args.k + k, region.rows, depth, args.k);
    Fractals gm_right(args.b + uint64_t{region.col} * args.k + k * 32,
                      Shape<1, DYNAMIC, DYNAMIC, 16, 32>((region.cols + 31) / 32, (depth + 15) / 16),
                      Stride<1, DYNAMIC, 512, 32, 1>(uint64_t{args.k} * 32));
    wait_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
    TLOAD(l1_left, gm_left);
    TLOAD(l1_right, gm_right);
    set_flag(PIPE_MTE2, PIPE_MTE1, kL1Full + buffer);
    wait_flag(PIPE_MTE2, PIPE_MTE1, kL1Full + buffer);

    Left left(region.rows, depth);
    Right right(depth, region.cols);
    TASSIGN(left, buffer * kTileM * kStepK);
    TASSIGN(right, buffer * kStepK * kTileN);
    wait_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
    TEXTRACT(left, l1_left);
    TEXTRACT(right, l1_right);
    set_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
    set_flag(PIPE_MTE1, PIPE_M, kL0Full + buffer);
    wait_flag(PIPE_MTE1, PIPE_M, kL0Full + buffer);
    if (k == 0) {
      TMATMUL(acc, left, right);
    } else {
      TMATMUL_ACC(acc, acc, left, right);
    }
    set_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
  }
  set_flag(PIPE_M, PIPE_FIX, kAccFull);
}

void hand_over(const GemmArgs &args, const Region &region, uint32_t tile) {
  L1Scale l1_scale(region.cols);
  Scale scale(region.cols);
  TASSIGN(l1_scale, kL1Scale);
  TASSIGN(scale, 0);
  auto gm_scale = matrix(args.channel_scale + region.col, 1, region.cols, region.cols);
  wait_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
  TLOAD(l1_scale, gm_scale);
  set_flag(PIPE_MTE2, PIPE_FIX, kScaleIn);
  wait_flag(PIPE_MTE2, PIPE_FIX, kScaleIn);
  TMOV(scale, l1_scale);

  Acc acc(region.rows, region.cols);
  TASSIGN(acc, 0);
  wait_flag(PIPE_M, PIPE_FIX, kAccFull);
  auto gm_h = matrix(args.h + uint64_t{region.row} * args.n + region.col, region.rows, region.cols, args.n);
  TSTORE_FP<Acc, Matrix<half>, Scale>(gm_h, acc, scale);
  set_flag(PIPE_FIX, PIPE_M, kAccFree);
  set_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
  // The tile must be in global memory before it is announced.
  pipe_barrier(PIPE_ALL);
  dsb(DSB_DDR);
  comm::Signal ready(args.ready + 16 * tile);
  comm::TNOTIFY(ready, args.epoch, comm::NotifyOp::Set);
}

void matrix_core(const GemmArgs &args, uint32_t tiles) {
  for (int buffer = 0; buffer < 2; ++buffer) {
    set_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
    set_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
  }
  set_flag(PIPE_FIX, PIPE_M, kAccFree);
  set_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
  uint32_t step = 0;
  for (uint32_t tile = get_block_idx(); tile < tiles; tile += get_block_num()) {
    const Region region = region_of(args, tile);
    multiply(args, region, step);
    hand_over(args, region, tile);
  }
  for (int buffer = 0; buffer < 2; ++buffer) {
    wait_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
    wait_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
  }
  wait_flag(PIPE_FIX, PIPE_M, kAccFree);
  wait_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
}

void scale_row(const GemmArgs &args, const Region &region, uint32_t row) {
  using Halves = Tile<TileType::Vec, half, 1, kTileN, BLayout::RowMajor, 1, DYNAMIC>;
  using Floats = Tile<TileType::Vec, float, 1, kTileN, BLayout::RowMajor, 1, DYNAMIC>;
  Halves halves(region.cols);
  Floats floats(region.cols);
  TASSIGN(halves, 0);
  TASSIGN(floats, kTileN * sizeof(half));
  const uint64_t offset = uint64_t{row} * args.n + region.col;
  auto gm_h = matrix(args.h + offset, 1, region.cols, args.n);
  auto gm_out = matrix(args.out + offset, 1, region.cols, args.n);
  TLOAD(halves, gm_h);
  set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0);
  TCVT(floats, halves, RoundMode::CAST_NONE);
  pipe_barrier(PIPE_V);
  TMULS(floats, floats, args.row_scale[row]);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(gm_out, floats);
  // The next row reuses the tiles.
  set_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
  wait_flag(PIPE_MTE3, PIPE_MTE2, EVENT_ID0);
}

void vector_core(const GemmArgs &args, uint32_t tiles) {
  const uint32_t blocks = get_block_num();
  const uint32_t first = (get_block_idx() + blocks - 1) % blocks;
  for (uint32_t tile = first; tile < tiles; tile += blocks) {
    comm::Signal ready(args.ready + 16 * tile);
    comm::TWAIT(ready, args.epoch, comm::WaitCmp::GE);
    const Region region = region_of(args, tile);
    for (uint32_t row = get_subblockid(); row < region.rows; row += get_subblockdim()) {
      scale_row(args, region, region.row + row);
    }
  }
}

}  // namespace

MEGAMOE_KERNEL(example_gemm_scale) {
  const GemmArgs args = *reinterpret_cast<__gm__ GemmArgs *>(raw);
  const uint32_t across = (args.n + kTileN - 1) / kTileN, down = (args.m + kTileM - 1) / kTileM;
  if (ASCEND_IS_AIC) {
    matrix_core(args, across * down);
  } else {
    vector_core(args, across * down);
  }
}

// A single tile, for conformance: m up to 64, n up to 64, any k; the exact accumulators.
MEGAMOE_KERNEL(example_matmul) {
  const GemmArgs args = *reinterpret_cast<__gm__ GemmArgs *>(raw);
  if (get_block_idx() != 0) {
    return;
  }
  set_flag(PIPE_MTE1, PIPE_MTE2, kL1Free);
  set_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + 1);
  set_flag(PIPE_M, PIPE_MTE1, kL0Free);
  set_flag(PIPE_M, PIPE_MTE1, kL0Free + 1);
  set_flag(PIPE_FIX, PIPE_M, kAccFree);
  uint32_t step = 0;
  const Region region = {0, 0, args.m, args.n};
  multiply(args, region, step);
  wait_flag(PIPE_M, PIPE_FIX, kAccFull);
  Acc acc(args.m, args.n);
  TASSIGN(acc, 0);
  auto exact = matrix(reinterpret_cast<__gm__ int32_t *>(args.out), args.m, args.n, args.n);
  auto scaled = matrix(args.h, args.m, args.n, args.n);
  TSTORE(exact, acc);
  // One scale for all columns: the first, with all its bits.
  TSTORE(scaled, acc, args.channel_scale[0]);
  wait_flag(PIPE_MTE1, PIPE_MTE2, kL1Free);
  wait_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + 1);
  wait_flag(PIPE_M, PIPE_MTE1, kL0Free);
  wait_flag(PIPE_M, PIPE_MTE1, kL0Free + 1);
}
