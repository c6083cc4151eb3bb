// Unpermute: each token's weighted sum of its returned rows, on vector cores.
//
//   own window, returned row  --MTE2-->  UB in[b]  --V: float, * prob, + sum-->  UB sum  --V: round-->  UB out  --MTE3--> GM
//
//   MTE2 --kIn[b]--> V     a piece of a row is loaded     V --kInFree[b]--> MTE2
//   V --kOut--> MTE3       a piece of a token is summed   MTE3 --kOutFree--> V
//
// Slots are added in their order: multiply, round, add, round. A route without an expert, and one that its expert's rank
// dropped, has no row: nothing is read for it. A token waits for the experts of its own rows only (rule 2 of the window
// protocol), so the first tokens are summed while other rows are still on their way.
#pragma once

#include "megamoe/window.h"
#include "unpermute/tiling.h"

namespace megamoe {

template <typename Out, typename Sync = NoSync>
class Unpermute {
 public:
  using Tiling = UnpermuteTiling;
  using Io = UnpermuteIo;

  AICORE Unpermute(const UnpermuteTiling &tiling, const UnpermuteIo &io, const Sync &sync = Sync())
      : tiling_(tiling), io_(io), sync_(sync), window_(io.window) {}

  // All tokens, split over the workers.
  AICORE void operator()(const Worker &worker) { run(share(tiling_.num_tokens, worker)); }

  // Some tokens.
  AICORE void run(const Range &tokens) {
    if (tokens.begin == tokens.end) {
      return;
    }
    refresh(io_.row_of_route + static_cast<uint64_t>(tokens.begin) * tiling_.top_k,
            static_cast<uint64_t>(tokens.end - tokens.begin) * tiling_.top_k);
    forget_experts();
    set_flag(PIPE_V, PIPE_MTE2, kInFree);
    set_flag(PIPE_V, PIPE_MTE2, kInFree + 1);
    set_flag(PIPE_MTE3, PIPE_V, kOutFree);
    for (uint32_t token = tokens.begin; token < tokens.end; ++token) {
      wait_for_rows(token);
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

  struct Route {
    int32_t expert, row;
  };

  AICORE Route route_of(uint64_t route) const { return {io_.topk_ids[route], io_.row_of_route[route]}; }

  AICORE bool has_row(const Route &route) const {
    return route.expert >= 0 && route.row >= 0 && route.row < io_.kept_end[route.expert];
  }

  // Experts whose rows are known to be back: a word of UB for each.
  AICORE auto back() const { return line_at<int32_t>(tiling_.back, tiling_.num_experts).data(); }

  AICORE void forget_experts() {
    auto *back = this->back();
    for (uint32_t expert = 0; expert < tiling_.num_experts; ++expert) {
      back[expert] = 0;
    }
  }

  AICORE void wait_for_rows(uint32_t token) {
    auto *back = this->back();
    for (uint32_t slot = 0; slot < tiling_.top_k; ++slot) {
      const Route route = route_of(static_cast<uint64_t>(token) * tiling_.top_k + slot);
      if (has_row(route) && back[route.expert] == 0) {
        const uint32_t expert = static_cast<uint32_t>(route.expert);
        sync_.before_peer();
        window_.wait(window_.returned(window_.rank(), expert));
        sync_.after_peer(expert / tiling_.experts_per_rank);
        back[expert] = 1;
      }
    }
  }

  AICORE void sum_piece(uint32_t token, uint32_t column, uint32_t len) {
    Line<float> sum = line_at<float>(tiling_.sum, len);
    pipe_barrier(PIPE_V);
    TEXPANDS(sum, 0.0f);
    for (uint32_t slot = 0; slot < tiling_.top_k; ++slot) {
      const uint64_t idx = static_cast<uint64_t>(token) * tiling_.top_k + slot;
      const Route route = route_of(idx);
      if (has_row(route)) {
        auto *row = window_.returned_row<Out>(window_.rank(), static_cast<uint32_t>(route.row));
        add_row(sum, row + column, io_.probs[idx], len);
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
  Sync sync_;
  WindowView window_;
  uint32_t pieces_ = 0;
};

}  // namespace megamoe
