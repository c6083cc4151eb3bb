// Combine: scales expert outputs and returns them to their source ranks' windows, on vector cores.
//
//   GM h2[row]  --MTE2-->  UB half[b]  --V: float, * row scale, round-->  UB out[b]  --MTE3-->  source's returned row
//
//   MTE2 --kIn[b]--> V      a piece is loaded          V --kInFree[b]--> MTE2
//   V --kOut[b]--> MTE3     a piece is scaled          MTE3 --kOutFree[b]--> V
//
// An expert's rows are cut into blocks of block_rows x block_cols that are dealt to the workers: whole rows for many
// tokens, small blocks for few, so that all cores work. When all rows of an expert are there, each source gets a signal.
#pragma once

#include "combine/tiling.h"
#include "megamoe/route_cursor.h"
#include "megamoe/window.h"

namespace megamoe {

template <typename Out, typename Sync = NoSync>
class Combine {
 public:
  using Tiling = CombineTiling;
  using Io = CombineIo;

  AICORE Combine(const CombineTiling &tiling, const CombineIo &io, const Sync &sync = Sync())
      : tiling_(tiling), io_(io), sync_(sync), window_(io.window) {}

  // All experts, each split over the workers; then the signals.
  AICORE void operator()(const Worker &worker) {
    for (uint32_t expert = 0; expert < tiling_.experts_per_rank; ++expert) {
      run(expert, worker);
    }
    sync_.vector_barrier();
    const uint32_t signals = tiling_.experts_per_rank * window_.num_ranks();
    for (uint32_t signal = worker.idx; signal < signals; signal += worker.num) {
      announce(signal / window_.num_ranks(), signal % window_.num_ranks());
    }
  }

  // This worker's blocks of one expert.
  AICORE void run(uint32_t expert, const Worker &worker) {
    const uint32_t first = io_.metadata.expert_offset[expert];
    const uint32_t rows = io_.metadata.expert_offset[expert + 1] - first;
    const uint32_t down = (rows + tiling_.block_rows - 1) / tiling_.block_rows;
    const uint32_t across = (tiling_.hidden + tiling_.block_cols - 1) / tiling_.block_cols;
    const Range blocks = share(down * across, worker);
    if (blocks.begin == blocks.end) {
      return;
    }
    refresh(io_.row_scale + first, rows);
    open_buffers();
    for (uint32_t block = blocks.begin; block < blocks.end; ++block) {
      const uint32_t begin = block / across * tiling_.block_rows;
      const uint32_t end = min_of(begin + tiling_.block_rows, rows);
      const uint32_t column = block % across * tiling_.block_cols;
      RouteCursor cursor(io_.metadata, tiling_.experts_per_rank, expert, begin);
      for (uint32_t index = begin; index < end; ++index) {
        if (index > begin) {
          cursor.next();
        }
        return_piece(first + index, column, window_.returned_row<Out>(cursor.source(), cursor.source_row()));
      }
    }
    close_buffers();
  }

  // Tells a source that all of an expert's rows are in its window.
  AICORE void announce(uint32_t expert, uint32_t source) {
    window_.notify(window_.returned(source, window_.rank() * tiling_.experts_per_rank + expert));
  }

 private:
  static constexpr int kIn = 0, kInFree = 0;    // + buffer
  static constexpr int kOut = 0, kOutFree = 0;  // + buffer

  AICORE void open_buffers() {
    for (int buffer = 0; buffer < 2; ++buffer) {
      set_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
      set_flag(PIPE_MTE3, PIPE_V, kOutFree + buffer);
    }
  }

  AICORE void close_buffers() {
    for (int buffer = 0; buffer < 2; ++buffer) {
      wait_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
      wait_flag(PIPE_MTE3, PIPE_V, kOutFree + buffer);
    }
  }

  // The block's columns of one row.
  AICORE void return_piece(uint32_t row, uint32_t column, __gm__ Out *target) {
    const uint32_t end = min_of(column + tiling_.block_cols, tiling_.hidden);
    const float scale = io_.row_scale[row];
    for (uint32_t begin = column; begin < end; begin += tiling_.chunk) {
      const uint32_t len = min_of(tiling_.chunk, end - begin), buffer = pieces_++ % 2;
      Line<half> in = line_at<half>(tiling_.input + buffer * tiling_.chunk * sizeof(half), len);
      Line<float> wide = line_at<float>(tiling_.wide, len);
      Line<Out> out = line_at<Out>(tiling_.out + buffer * tiling_.chunk * sizeof(Out), len);
      GmLine<half> from = gm_line(io_.h2 + static_cast<uint64_t>(row) * tiling_.hidden + begin, len);
      GmLine<Out> to = gm_line(target + begin, len);
      wait_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
      TLOAD(in, from);
      set_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
      wait_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
      pipe_barrier(PIPE_V);
      TCVT(wide, in, pto::RoundMode::CAST_NONE);
      set_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
      pipe_barrier(PIPE_V);
      TMULS(wide, wide, scale);
      pipe_barrier(PIPE_V);
      wait_flag(PIPE_MTE3, PIPE_V, kOutFree + buffer);
      TCVT(out, wide, pto::RoundMode::CAST_RINT, pto::SaturationMode::OFF);
      set_flag(PIPE_V, PIPE_MTE3, kOut + buffer);
      wait_flag(PIPE_V, PIPE_MTE3, kOut + buffer);
      TSTORE(to, out);
      set_flag(PIPE_MTE3, PIPE_V, kOutFree + buffer);
    }
  }

  const CombineTiling tiling_;
  const CombineIo io_;
  Sync sync_;
  WindowView window_;
  uint32_t pieces_ = 0;
};

}  // namespace megamoe
