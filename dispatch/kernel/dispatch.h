// Dispatch: pulls the rows of this rank's experts from the windows of their source ranks, on vector cores.
//
//   source's window, packed row: K bytes  --MTE2-->  UB row[b]    --MTE3-->  GM rows[row]
//                                4 bytes  --MTE2-->  UB scales    --MTE3-->  GM row_scale[..], many rows at a time
//
//   MTE2 --kFull[b]----> MTE3     a piece of a row is loaded      MTE3 --kFree[b]---> MTE2
//   MTE2 --kScales-----> MTE3     the scales are loaded           MTE3 --kScalesFree> MTE2
//
// Before the first row of a source, its rows_ready signal (rule 2 of the window protocol).
#pragma once

#include "dispatch/tiling.h"
#include "megamoe/route_cursor.h"
#include "megamoe/window.h"

namespace megamoe {

template <typename Sync = NoSync>
class Dispatch {
 public:
  using Tiling = DispatchTiling;
  using Io = DispatchIo;

  AICORE Dispatch(const DispatchTiling &tiling, const DispatchIo &io, const Sync &sync = Sync())
      : tiling_(tiling), io_(io), sync_(sync), window_(io.window) {}

  // All experts, each split over the workers.
  AICORE void operator()(const Worker &worker) {
    if (worker.idx == 0) {
      count_dropped();
    }
    for (uint32_t expert = 0; expert < tiling_.experts_per_rank; ++expert) {
      run(expert, worker);
    }
  }

  // This worker's rows of one expert.
  AICORE void run(uint32_t expert, const Worker &worker) {
    const uint32_t first = io_.metadata.expert_offset[expert];
    const Range rows = share(io_.metadata.expert_offset[expert + 1] - first, worker);
    if (rows.begin == rows.end) {
      return;
    }
    open_buffers();
    RouteCursor cursor(io_.metadata, tiling_.experts_per_rank, expert, rows.begin);
    uint32_t scales = 0;
    for (uint32_t index = rows.begin; index < rows.end; ++index) {
      if (index > rows.begin) {
        cursor.next();
      }
      wait_for(cursor.source());
      __gm__ int8_t *packed = window_.packed_row(cursor.source(), cursor.source_row());
      copy_row(packed, first + index);
      load_scale(packed, scales++);
      if (scales == tiling_.scales_per_store || index + 1 == rows.end) {
        store_scales(first + index + 1 - scales, scales);
        scales = 0;
      }
    }
    close_buffers();
  }

  // Rows that the capacity cut off, by source and expert: one worker's work.
  AICORE void count_dropped() {
    const uint32_t experts = tiling_.experts_per_rank;
    auto *values = line_at<int32_t>(tiling_.dropped, experts).data();
    for (uint32_t source = 0; source < window_.num_ranks(); ++source) {
      for (uint32_t expert = 0; expert < experts; ++expert) {
        const auto *offsets = io_.metadata.expert_offset + expert;
        const int32_t kept = offsets[1] - offsets[0];
        const int32_t end = io_.metadata.cumsum[static_cast<uint64_t>(source) * experts + expert];
        const int32_t begin =
            source == 0 ? 0 : io_.metadata.cumsum[static_cast<uint64_t>(source - 1) * experts + expert];
        values[expert] = end - begin - (limit(end, kept) - limit(begin, kept));
      }
      store_scalars(tiling_.dropped, io_.dropped + static_cast<uint64_t>(source) * experts, experts, kScales);
    }
  }

 private:
  static constexpr int kFull = 0, kFree = 0;  // + buffer
  static constexpr int kScales = 2, kScalesFree = 2;
  static constexpr uint32_t kScaleSlot = 32;
  static constexpr uint32_t kNoSource = ~0u;

  using Scales = pto::Tile<pto::TileType::Vec, float, kScalesPerStore, kScaleSlot / sizeof(float), pto::BLayout::RowMajor,
                           pto::DYNAMIC, 1>;
  using GmScales = pto::GlobalTensor<float, pto::Shape<1, 1, 1, pto::DYNAMIC, 1>, pto::Stride<1, 1, 1, 1, 1>>;

  AICORE void open_buffers() {
    set_flag(PIPE_MTE3, PIPE_MTE2, kFree);
    set_flag(PIPE_MTE3, PIPE_MTE2, kFree + 1);
    set_flag(PIPE_MTE3, PIPE_MTE2, kScalesFree);
  }

  AICORE void close_buffers() {
    wait_flag(PIPE_MTE3, PIPE_MTE2, kFree);
    wait_flag(PIPE_MTE3, PIPE_MTE2, kFree + 1);
    wait_flag(PIPE_MTE3, PIPE_MTE2, kScalesFree);
  }

  AICORE void wait_for(uint32_t source) {
    if (source != ready_source_) {
      sync_.before_peer();
      window_.wait(window_.rows_ready(window_.rank(), source));
      sync_.after_peer(source);
      ready_source_ = source;
    }
  }

  AICORE void copy_row(__gm__ int8_t *packed, uint32_t row) {
    for (uint32_t column = 0; column < tiling_.hidden; column += tiling_.chunk) {
      const uint32_t len = min_of(tiling_.chunk, tiling_.hidden - column);
      const uint32_t buffer = pieces_++ % 2;
      Line<int8_t> piece = line_at<int8_t>(tiling_.row + buffer * tiling_.chunk, len);
      GmLine<int8_t> from = gm_line(packed + column, len);
      GmLine<int8_t> to = gm_line(io_.rows + static_cast<uint64_t>(row) * tiling_.hidden + column, len);
      wait_flag(PIPE_MTE3, PIPE_MTE2, kFree + buffer);
      TLOAD(piece, from);
      set_flag(PIPE_MTE2, PIPE_MTE3, kFull + buffer);
      wait_flag(PIPE_MTE2, PIPE_MTE3, kFull + buffer);
      TSTORE(to, piece);
      set_flag(PIPE_MTE3, PIPE_MTE2, kFree + buffer);
    }
  }

  AICORE void load_scale(__gm__ int8_t *packed, uint32_t place) {
    if (place == 0) {
      wait_flag(PIPE_MTE3, PIPE_MTE2, kScalesFree);
    }
    Line<float> scale = line_at<float>(tiling_.scales + place * kScaleSlot, 1);
    GmLine<float> from = gm_line(reinterpret_cast<__gm__ float *>(packed + tiling_.hidden), 1);
    TLOAD(scale, from);
  }

  AICORE void store_scales(uint32_t row, uint32_t count) {
    Scales scales(count);
    TASSIGN(scales, tiling_.scales);
    GmScales to(io_.row_scale + row, pto::Shape<1, 1, 1, pto::DYNAMIC, 1>(count));
    set_flag(PIPE_MTE2, PIPE_MTE3, kScales);
    wait_flag(PIPE_MTE2, PIPE_MTE3, kScales);
    TSTORE(to, scales);
    set_flag(PIPE_MTE3, PIPE_MTE2, kScalesFree);
  }

  AICORE static int32_t limit(int32_t value, int32_t max) { return value < max ? value : max; }

  const DispatchTiling tiling_;
  const DispatchIo io_;
  Sync sync_;
  WindowView window_;
  uint32_t ready_source_ = kNoSource;
  uint32_t pieces_ = 0;
};

}  // namespace megamoe
