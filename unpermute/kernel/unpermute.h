// Unpermute: each token's weighted sum of its returned rows, on vector cores.
//
//   own window, returned row  --MTE2-->  UB in[b]  --V: float, * prob, + sum-->  UB sum  --V: round-->  UB out  --MTE3--> GM
//
//   MTE2 --kIn[b]--> V     a piece of a row is loaded     V --kInFree[b]--> MTE2
//   V --kOut--> MTE3       a piece of a token is summed   MTE3 --kOutFree--> V
//
// Slots are added in their order: multiply, round, add, round. A route without an expert, and one that its expert's rank
// dropped, has no row: nothing is read for it.
#pragma once

#include "megamoe/window.h"
#include "unpermute/tiling.h"

namespace megamoe {

template <typename Out>
class Unpermute {
 public:
  AICORE Unpermute(const UnpermuteTiling &tiling, const UnpermuteIo &io)
      : tiling_(tiling), io_(io), window_(io.window) {}

  // All tokens, split over the workers, once the rows of all experts have come back.
  AICORE void operator()(const Worker &worker) {
    for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
      window_.wait(window_.returned(window_.rank(), expert));
    }
    run(worker);
  }

  // This worker's tokens.
  AICORE void run(const Worker &worker) {
    const Range tokens = share(tiling_.num_tokens, worker);
    if (tokens.begin == tokens.end) {
      return;
    }
    set_flag(PIPE_V, PIPE_MTE2, kInFree);
    set_flag(PIPE_V, PIPE_MTE2, kInFree + 1);
    set_flag(PIPE_MTE3, PIPE_V, kOutFree);
    for (uint32_t token = tokens.begin; token < tokens.end; ++token) {
      for (uint32_t column = 0; column < tiling_.hidden; column += tiling_.chunk) {
        sum_piece(token, column, min_of(tiling_.chunk, tiling_.hidden - column));
      }
    }
    wait_flag(PIPE_V, PIPE_MTE2, kInFree);
    wait_flag(PIPE_V, PIPE_MTE2, kInFree + 1);
    wait_flag(PIPE_MTE3, PIPE_V, kOutFree);
  }

 private:
  static constexpr int kIn = 0, kInFree = 0;  // + buffer
  static constexpr int kOut = 0, kOutFree = 0;

  AICORE void sum_piece(uint32_t token, uint32_t column, uint32_t len) {
    Line<float> sum = line_at<float>(tiling_.sum, len);
    TEXPANDS(sum, 0.0f);
    for (uint32_t slot = 0; slot < tiling_.top_k; ++slot) {
      const uint64_t route = static_cast<uint64_t>(token) * tiling_.top_k + slot;
      const int32_t expert = io_.topk_ids[route], row = io_.row_of_route[route];
      if (expert >= 0 && row >= 0 && row < io_.kept_end[expert]) {
        add_row(sum, window_.returned_row<Out>(window_.rank(), static_cast<uint32_t>(row)) + column, io_.probs[route],
                len);
      }
    }
    Line<Out> out = line_at<Out>(tiling_.out, len);
    GmLine<Out> to = gm_line(
        reinterpret_cast<__gm__ Out *>(io_.out) + static_cast<uint64_t>(token) * tiling_.hidden + column, len);
    pipe_barrier(PIPE_V);
    wait_flag(PIPE_MTE3, PIPE_V, kOutFree);
    TCVT(out, sum, pto::RoundMode::CAST_RINT, pto::SaturationMode::OFF);
    set_flag(PIPE_V, PIPE_MTE3, kOut);
    wait_flag(PIPE_V, PIPE_MTE3, kOut);
    TSTORE(to, out);
    set_flag(PIPE_MTE3, PIPE_V, kOutFree);
  }

  AICORE void add_row(Line<float> &sum, __gm__ Out *source, float prob, uint32_t len) {
    const uint32_t buffer = pieces_++ % 2;
    Line<Out> in = line_at<Out>(tiling_.input + buffer * tiling_.chunk * sizeof(Out), len);
    Line<float> wide = line_at<float>(tiling_.wide, len);
    GmLine<Out> from = gm_line(source, len);
    wait_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
    TLOAD(in, from);
    set_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
    wait_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
    pipe_barrier(PIPE_V);
    TCVT(wide, in, pto::RoundMode::CAST_NONE);
    set_flag(PIPE_V, PIPE_MTE2, kInFree + buffer);
    pipe_barrier(PIPE_V);
    TMULS(wide, wide, prob);
    pipe_barrier(PIPE_V);
    TADD(sum, sum, wide);
  }

  const UnpermuteTiling tiling_;
  const UnpermuteIo io_;
  WindowView window_;
  uint32_t pieces_ = 0;
};

}  // namespace megamoe
