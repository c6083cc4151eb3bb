// Quantises a token once and writes it to the packed rows of all its routes.
//
//   GM x[token]  --MTE2-->  UB input[b]  --V: float, |x|, maximum-->  S: scale = m / 127
//                           V: x / scale -> half (toward zero) -> s8 (half away)  --MTE3-->  packed row of each route
//                           S: scale, zeros                                       --MTE3-->  behind its K bytes
//
//   MTE2 --kIn[b]--> V     a piece is loaded             V --kInFree[b]--> MTE2
//   V --kMax--> S          a piece's maximum             V --kQ--> MTE3, MTE3 --kQFree--> V     int8 values
//   S --kTail--> MTE3      scale and zeros               MTE3 --kTailFree--> S
#pragma once

#include "front-reorder/tiling.h"
#include "megamoe/window.h"

namespace megamoe {

template <typename In>
class TokenQuantizer {
 public:
  AICORE TokenQuantizer(const FrontTiling &tiling, const FrontReorderIo &io, const WindowView &window)
      : tiling_(tiling), io_(io), window_(window) {}

  AICORE void run(const Range &tokens) {
    if (tokens.begin == tokens.end) {
      return;
    }
    set_flag(PIPE_V, PIPE_MTE2, kInFree);
    set_flag(PIPE_V, PIPE_MTE2, kInFree + 1);
    set_flag(PIPE_MTE3, PIPE_V, kQFree);
    set_flag(PIPE_MTE3, PIPE_S, kTailFree);
    for (uint32_t token = tokens.begin; token < tokens.end; ++token) {
      quantize(token);
    }
    wait_flag(PIPE_V, PIPE_MTE2, kInFree);
    wait_flag(PIPE_V, PIPE_MTE2, kInFree + 1);
    wait_flag(PIPE_MTE3, PIPE_V, kQFree);
    wait_flag(PIPE_MTE3, PIPE_S, kTailFree);
  }

 private:
  static constexpr int kIn = 0, kInFree = 0;  // + buffer
  static constexpr int kMax = 2;
  static constexpr int kQ = 2, kQFree = 2;
  static constexpr int kTail = 2, kTailFree = 2;
  static constexpr uint32_t kTailWords = 8;

  using Max = pto::Tile<pto::TileType::Vec, float, 1, 8, pto::BLayout::RowMajor, 1, 1>;

  AICORE void quantize(uint32_t token) {
    float max = 0.0f;
    for (uint32_t column = 0; column < tiling_.hidden; column += tiling_.chunk) {
      const float piece_max = load_piece(token, column, true);
      max = piece_max > max || piece_max != piece_max ? piece_max : max;
    }
    const float scale = max / tiling_.q_max;
    const bool is_single = tiling_.hidden <= tiling_.chunk;
    for (uint32_t column = 0; column < tiling_.hidden; column += tiling_.chunk) {
      if (!is_single) {
        load_piece(token, column, false);
      }
      store_piece(token, column, scale);
    }
    store_tail(token, scale);
  }

  // A piece of the token as floats; its largest magnitude if asked for.
  AICORE float load_piece(uint32_t token, uint32_t column, bool wants_max) {
    const uint32_t len = min_of(tiling_.chunk, tiling_.hidden - column), buffer = pieces_++ % 2;
    Line<In> in = line_at<In>(tiling_.input + buffer * tiling_.chunk * sizeof(In), len);
    Line<float> wide = line_at<float>(tiling_.wide, len), tmp = line_at<float>(tiling_.tmp, len);
    GmLine<In> from =
        gm_line(reinterpret_cast<__gm__ In *>(io_.x) + static_cast<uint64_t>(token) * tiling_.hidden + column, len);
    wait_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
    TLOAD(in, from);
    set_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
    wait_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
    TCVT(wide, in, pto::RoundMode::CAST_NONE);
    set_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
    if (!wants_max) {
      return 0.0f;
    }
    pipe_barrier(PIPE_V);
    TABS(tmp, wide);
    pipe_barrier(PIPE_V);
    Max max;
    TASSIGN(max, tiling_.max);
    TROWMAX(max, tmp, wide);
    set_flag(PIPE_V, PIPE_S, kMax);
    wait_flag(PIPE_V, PIPE_S, kMax);
    return max.GetValue(0);
  }

  AICORE void store_piece(uint32_t token, uint32_t column, float scale) {
    const uint32_t len = min_of(tiling_.chunk, tiling_.hidden - column);
    Line<float> wide = line_at<float>(tiling_.wide, len), tmp = line_at<float>(tiling_.tmp, len);
    Line<half> halves = line_at<half>(tiling_.halves, len);
    Line<int8_t> q = line_at<int8_t>(tiling_.q, len);
    pipe_barrier(PIPE_V);
    if (scale == 0.0f) {
      // A token of zeros, or one so small that its scale is zero.
      TEXPANDS(halves, static_cast<half>(0.0f));
    } else {
      TDIVS(tmp, wide, scale);
      pipe_barrier(PIPE_V);
      TCVT(halves, tmp, pto::RoundMode::CAST_TRUNC);
    }
    pipe_barrier(PIPE_V);
    wait_flag(PIPE_MTE3, PIPE_V, kQFree);
    TCVT(q, halves, pto::RoundMode::CAST_ROUND, pto::SaturationMode::ON);
    set_flag(PIPE_V, PIPE_MTE3, kQ);
    wait_flag(PIPE_V, PIPE_MTE3, kQ);
    for (uint32_t slot = 0; slot < tiling_.top_k; ++slot) {
      const int32_t row = io_.row_of_route[static_cast<uint64_t>(token) * tiling_.top_k + slot];
      if (row >= 0) {
        GmLine<int8_t> to = gm_line(window_.packed_row(window_.rank(), row) + column, len);
        TSTORE(to, q);
      }
    }
    set_flag(PIPE_MTE3, PIPE_V, kQFree);
  }

  // The scale at byte K, and zeros to the end of the row.
  AICORE void store_tail(uint32_t token, float scale) {
    Line<float> tail = line_at<float>(tiling_.tail, kTailWords);
    wait_flag(PIPE_MTE3, PIPE_S, kTailFree);
    tail.SetValue(0, scale);
    for (uint32_t word = 1; word < kTailWords; ++word) {
      tail.SetValue(word, 0.0f);
    }
    set_flag(PIPE_S, PIPE_MTE3, kTail);
    wait_flag(PIPE_S, PIPE_MTE3, kTail);
    for (uint32_t slot = 0; slot < tiling_.top_k; ++slot) {
      const int32_t row = io_.row_of_route[static_cast<uint64_t>(token) * tiling_.top_k + slot];
      if (row >= 0) {
        auto *end = window_.packed_row(window_.rank(), row) + tiling_.hidden;
        GmLine<float> to = gm_line(reinterpret_cast<__gm__ float *>(end), kTailWords);
        TSTORE(to, tail);
      }
    }
    set_flag(PIPE_MTE3, PIPE_S, kTailFree);
  }

  const FrontTiling &tiling_;
  const FrontReorderIo &io_;
  const WindowView &window_;
  uint32_t pieces_ = 0;
};

}  // namespace megamoe
