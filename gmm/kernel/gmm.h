// Grouped int8 matmul with one scale per output column, on matrix cores.
//
//   GM a[row]  --MTE2 nd2nz-->  L1 left   --MTE1-->  L0A --+
//                                                            M --> L0C (int32) --FIX: * scale[column], half--> GM c
//   GM weight  --MTE2 nz----->  L1 right  --MTE1-->  L0B --+
//
// A tile of c is summed over k in steps of k_l1, which L1 holds twice, and those in steps of k_l0, which L0 holds twice:
//
//   MTE2 --kL1Full[b]--> MTE1     both operands of a step are in L1      MTE1 --kL1Free[b]--> MTE2
//   MTE1 --kL0Full[b]--> M        both operands of a step are in L0      M    --kL0Free[b]--> MTE1
//   M    --kAccFull----> FIX      a tile is summed                       FIX  --kAccFree----> M
//   MTE2 --kScaleIn----> FIX      the tile's scales are in L1            FIX  --kScaleFree--> MTE2
//
// Tiles of an expert are dealt to the workers in turn, and the first worker moves on by the tiles of the experts before,
// so that the last tiles of small experts do not always fall to the same cores. An expert whose rows fit one tile is
// cut into narrower tiles, so that all workers share its weights.
#pragma once

#include "gmm/tiling.h"
#include "megamoe/stage.h"

namespace megamoe {

// Tiles have room for the largest; the tiling decides how much of it is used.
template <int TileM, int TileN, int KL1, int KL0>
struct GmmRoom {
  template <int Rows, int Cols>
  using L1Tile = pto::Tile<pto::TileType::Mat, int8_t, Rows, Cols, pto::BLayout::ColMajor, pto::DYNAMIC, pto::DYNAMIC,
                           pto::SLayout::RowMajor>;
  using L1Left = L1Tile<TileM, KL1>;
  using L1Right = L1Tile<KL1, TileN>;
  using Left = pto::TileLeft<int8_t, TileM, KL0, pto::DYNAMIC, pto::DYNAMIC>;
  using Right = pto::TileRight<int8_t, KL0, TileN, pto::DYNAMIC, pto::DYNAMIC>;
  using Acc = pto::TileAcc<int32_t, TileM, TileN, pto::DYNAMIC, pto::DYNAMIC>;
  using L1Scale = pto::Tile<pto::TileType::Mat, uint64_t, 1, TileN, pto::BLayout::RowMajor, 1, pto::DYNAMIC>;
  using Scale = pto::Tile<pto::TileType::Scaling, uint64_t, 1, TileN, pto::BLayout::RowMajor, 1, pto::DYNAMIC>;
};

using GmmNpuRoom = GmmRoom<kMaxTileM, kMaxTileN, kMaxKL1, kMaxKL0>;
#ifdef MEGAMOE_VIRTUAL_DEVICE
using GmmHostRoom = GmmRoom<kHostTileM, kHostTileN, kHostKL1, kHostKL0>;
#endif

template <typename Sync = NoSync>
class Gmm {
 public:
  using Tiling = GmmTiling;
  using Io = GmmIo;

  AICORE Gmm(const GmmTiling &tiling, const GmmIo &io, const Sync &sync = Sync())
      : tiling_(tiling), io_(io), sync_(sync) {}

  // All experts, each split over the workers.
  AICORE void operator()(const Worker &worker) {
    open_buffers();
    for (uint32_t expert = 0; expert < tiling_.experts_per_rank; ++expert) {
      tiles(expert, worker);
    }
    close_buffers();
  }

  // This worker's tiles of one expert. No flag is left set.
  AICORE void run(uint32_t expert, const Worker &worker) {
    open_buffers();
    tiles(expert, worker);
    close_buffers();
  }

 private:
  template <typename T>
  using Matrix = pto::GlobalTensor<T, pto::Shape<1, 1, 1, pto::DYNAMIC, pto::DYNAMIC>,
                                   pto::Stride<1, 1, 1, pto::DYNAMIC, 1>>;
  using Fractals = pto::GlobalTensor<int8_t, pto::Shape<1, pto::DYNAMIC, pto::DYNAMIC, 16, 32>,
                                     pto::Stride<1, pto::DYNAMIC, 512, 32, 1>, pto::Layout::NZ>;

  static constexpr int kL1Full = 0, kL1Free = 0;  // + buffer
  static constexpr int kL0Full = 2, kL0Free = 2;  // + buffer
  static constexpr int kAccFull = 4, kAccFree = 4;
  static constexpr int kScaleIn = 5, kScaleFree = 5;

  // A tile of c.
  struct Region {
    uint32_t expert, row, col, rows, cols;
  };

  // The worker that takes the first tile of an expert.
  struct Rotation {
    uint32_t num_workers, expert, first;
  };

  // How an expert's rows are cut.
  struct Cut {
    uint32_t rows, width, down, across;
  };

  AICORE void open_buffers() {
    for (int buffer = 0; buffer < 2; ++buffer) {
      set_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
      set_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
    }
    set_flag(PIPE_FIX, PIPE_M, kAccFree);
    set_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
  }

  AICORE void close_buffers() {
    for (int buffer = 0; buffer < 2; ++buffer) {
      wait_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
      wait_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
    }
    wait_flag(PIPE_FIX, PIPE_M, kAccFree);
    wait_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
  }

  AICORE Cut cut(uint32_t expert, uint32_t num_workers) const {
    Cut cut;
    cut.rows = io_.expert_offset[expert + 1] - io_.expert_offset[expert];
    cut.down = (cut.rows + tiling_.tile_m - 1) / tiling_.tile_m;
    cut.width = tiling_.tile_n;
    if (tiling_.narrow_single != 0 && cut.down == 1) {
      const uint32_t even = align_up((tiling_.n + num_workers - 1) / num_workers, tiling_.narrow_unit);
      cut.width = min_of(cut.width, even);
    }
    cut.across = (tiling_.n + cut.width - 1) / cut.width;
    return cut;
  }

  AICORE void tiles(uint32_t expert, const Worker &worker) {
    const Cut cut = this->cut(expert, worker.num);
    const uint32_t count = cut.down * cut.across;
    const uint32_t start = tiling_.rotate != 0 ? first_worker(expert, worker.num) : 0;
    for (uint32_t tile = (worker.idx + worker.num - start) % worker.num; tile < count; tile += worker.num) {
      const Region region = region_of(expert, cut, tile);
#ifdef MEGAMOE_VIRTUAL_DEVICE
      if (tiling_.host_room != 0) {
        multiply<GmmHostRoom>(region);
        store<GmmHostRoom>(region);
        continue;
      }
#endif
      multiply<GmmNpuRoom>(region);
      store<GmmNpuRoom>(region);
    }
  }

  // The worker that takes an expert's first tile: the same for all workers, whatever experts each has seen.
  AICORE uint32_t first_worker(uint32_t expert, uint32_t num_workers) {
    if (num_workers != rotation_.num_workers || expert < rotation_.expert) {
      rotation_ = {num_workers, 0, 0};
    }
    for (; rotation_.expert < expert; ++rotation_.expert) {
      const Cut cut = this->cut(rotation_.expert, num_workers);
      rotation_.first = (rotation_.first + cut.down * cut.across) % num_workers;
    }
    return rotation_.first;
  }

  // Columns are taken in groups, down and up in turn, so that the operands of neighbouring tiles meet in the cache.
  AICORE Region region_of(uint32_t expert, const Cut &cut, uint32_t tile) const {
    const uint32_t per_group = cut.down * tiling_.swizzle;
    const uint32_t group = tile / per_group, in_group = tile % per_group;
    const uint32_t group_width = min_of(tiling_.swizzle, cut.across - group * tiling_.swizzle);
    const uint32_t down = in_group / group_width;
    const uint32_t m = group % 2 == 0 ? down : cut.down - 1 - down;
    const uint32_t n = group * tiling_.swizzle + in_group % group_width;
    Region region;
    region.expert = expert;
    region.row = io_.expert_offset[expert] + m * tiling_.tile_m;
    region.col = n * cut.width;
    region.rows = min_of(tiling_.tile_m, cut.rows - m * tiling_.tile_m);
    region.cols = min_of(cut.width, tiling_.n - region.col);
    return region;
  }

  template <typename Room>
  AICORE void load_l1(const Region &region, uint32_t k, uint32_t depth, typename Room::L1Left &left,
                      typename Room::L1Right &right) {
    Matrix<int8_t> gm_left(io_.a + static_cast<uint64_t>(region.row) * tiling_.k + k,
                           pto::Shape<1, 1, 1, pto::DYNAMIC, pto::DYNAMIC>(region.rows, depth),
                           pto::Stride<1, 1, 1, pto::DYNAMIC, 1>(tiling_.k));
    const uint64_t packed = static_cast<uint64_t>(region.expert) * tiling_.expert_weight_bytes +
                            static_cast<uint64_t>(region.col) * tiling_.k + static_cast<uint64_t>(k) * 32;
    Fractals gm_right(io_.weight + packed,
                      pto::Shape<1, pto::DYNAMIC, pto::DYNAMIC, 16, 32>((region.cols + 31) / 32, (depth + 15) / 16),
                      pto::Stride<1, pto::DYNAMIC, 512, 32, 1>(static_cast<uint64_t>(tiling_.k) * 32));
    const uint32_t buffer = l1_steps_ % 2;
    TASSIGN(left, tiling_.l1_left + buffer * tiling_.l1_left_bytes);
    TASSIGN(right, tiling_.l1_right + buffer * tiling_.l1_right_bytes);
    wait_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
    TLOAD(left, gm_left);
    TLOAD(right, gm_right);
    set_flag(PIPE_MTE2, PIPE_MTE1, kL1Full + buffer);
  }

  template <typename Room>
  AICORE void multiply(const Region &region) {
    typename Room::Acc acc(region.rows, region.cols);
    TASSIGN(acc, 0);
    wait_flag(PIPE_FIX, PIPE_M, kAccFree);
    for (uint32_t k = 0; k < tiling_.k; k += tiling_.k_l1) {
      const uint32_t depth = min_of(tiling_.k_l1, tiling_.k - k);
      typename Room::L1Left l1_left(region.rows, depth);
      typename Room::L1Right l1_right(depth, region.cols);
      load_l1<Room>(region, k, depth, l1_left, l1_right);
      const uint32_t buffer = l1_steps_++ % 2;
      wait_flag(PIPE_MTE2, PIPE_MTE1, kL1Full + buffer);
      for (uint32_t inner = 0; inner < depth; inner += tiling_.k_l0) {
        step<Room>(l1_left, l1_right, acc, k == 0, inner, min_of(tiling_.k_l0, depth - inner));
      }
      set_flag(PIPE_MTE1, PIPE_MTE2, kL1Free + buffer);
    }
    set_flag(PIPE_M, PIPE_FIX, kAccFull);
  }

  template <typename Room>
  AICORE void step(typename Room::L1Left &l1_left, typename Room::L1Right &l1_right, typename Room::Acc &acc,
                   bool is_first, uint32_t inner, uint32_t depth) {
    const uint32_t buffer = l0_steps_++ % 2;
    typename Room::Left left(acc.GetValidRow(), depth);
    typename Room::Right right(depth, acc.GetValidCol());
    TASSIGN(left, buffer * tiling_.l0_left_bytes);
    TASSIGN(right, buffer * tiling_.l0_right_bytes);
    wait_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
    TEXTRACT(left, l1_left, 0, inner);
    TEXTRACT(right, l1_right, inner, 0);
    set_flag(PIPE_MTE1, PIPE_M, kL0Full + buffer);
    wait_flag(PIPE_MTE1, PIPE_M, kL0Full + buffer);
    if (is_first && inner == 0) {
      TMATMUL(acc, left, right);
    } else {
      TMATMUL_ACC(acc, acc, left, right);
    }
    set_flag(PIPE_M, PIPE_MTE1, kL0Free + buffer);
  }

  template <typename Room>
  AICORE void store(const Region &region) {
    using Acc = typename Room::Acc;
    using Scale = typename Room::Scale;
    typename Room::L1Scale l1_scale(region.cols);
    Scale scale(region.cols);
    TASSIGN(l1_scale, tiling_.l1_scale);
    TASSIGN(scale, 0);
    GmLine<uint64_t> gm_scale =
        gm_line(io_.channel_scale + static_cast<uint64_t>(region.expert) * tiling_.n + region.col, region.cols);
    wait_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
    TLOAD(l1_scale, gm_scale);
    set_flag(PIPE_MTE2, PIPE_FIX, kScaleIn);
    wait_flag(PIPE_MTE2, PIPE_FIX, kScaleIn);
    TMOV(scale, l1_scale);
    Acc acc(region.rows, region.cols);
    TASSIGN(acc, 0);
    Matrix<half> gm_c(io_.c + static_cast<uint64_t>(region.row) * tiling_.n + region.col,
                      pto::Shape<1, 1, 1, pto::DYNAMIC, pto::DYNAMIC>(region.rows, region.cols),
                      pto::Stride<1, 1, 1, pto::DYNAMIC, 1>(tiling_.n));
    wait_flag(PIPE_M, PIPE_FIX, kAccFull);
    pto::TSTORE_FP<Acc, Matrix<half>, Scale>(gm_c, acc, scale);
    set_flag(PIPE_FIX, PIPE_M, kAccFree);
    set_flag(PIPE_FIX, PIPE_MTE2, kScaleFree);
  }

  const GmmTiling tiling_;
  const GmmIo io_;
  Sync sync_;
  Rotation rotation_ = {0, 0, 0};
  uint32_t l1_steps_ = 0;
  uint32_t l0_steps_ = 0;
};

}  // namespace megamoe
