// SwiGLU: activation of GMM1's result and dynamic quantisation, on vector cores.
//
//   GM h[row]  --MTE2-->  UB up, gate (half)   --V-->  float, * row scale, activation(up) * gate  -->  UB y[row]
//                                               V : |y|, row maximum          S : scale = m / 127, 127 / m
//   GM q[row]  <--MTE3--  UB q (int8)          <--V--  y * (127 / m) -> s32 (RINT) -> float -> half -> s8
//
// A row is taken in chunks of columns; y stays in UB until the row's maximum is known. Chunks are loaded one ahead
// into two buffers.
//
//   MTE2 --kIn[b]--> V     chunk b is loaded          V --kMax--> S          the chunk's maximum
//   V --kQ--> MTE3         q is complete              MTE3 --kQFree--> V     q may be overwritten
//
// A buffer is free again without a flag: the scalar unit has waited for its chunk's maximum before it issues the load.
#pragma once

#include "megamoe/stage.h"
#include "swiglu/tiling.h"

namespace megamoe {

// x / (1 + exp(-x)).
struct Silu {
  AICORE static void apply(const SwigluTiling &, Line<float> &x, Line<float> &tmp) {
    TMULS(tmp, x, -1.0f);
    pipe_barrier(PIPE_V);
    TEXP(tmp, tmp);
    pipe_barrier(PIPE_V);
    TADDS(tmp, tmp, 1.0f);
    pipe_barrier(PIPE_V);
    TDIV(x, x, tmp);
  }
};

// GELU in its tanh form: x / (1 + exp(x * (cubic * x^2 + 1) * exponent)).
struct Gelu {
  AICORE static void apply(const SwigluTiling &tiling, Line<float> &x, Line<float> &tmp) {
    TMUL(tmp, x, x);
    pipe_barrier(PIPE_V);
    TMULS(tmp, tmp, tiling.gelu_cubic);
    pipe_barrier(PIPE_V);
    TADDS(tmp, tmp, 1.0f);
    pipe_barrier(PIPE_V);
    TMUL(tmp, x, tmp);
    pipe_barrier(PIPE_V);
    TMULS(tmp, tmp, tiling.gelu_exponent);
    pipe_barrier(PIPE_V);
    TEXP(tmp, tmp);
    pipe_barrier(PIPE_V);
    TADDS(tmp, tmp, 1.0f);
    pipe_barrier(PIPE_V);
    TDIV(x, x, tmp);
  }
};

template <typename Activation = Silu, typename Sync = NoSync>
class Swiglu {
 public:
  using Tiling = SwigluTiling;
  using Io = SwigluIo;

  AICORE Swiglu(const SwigluTiling &tiling, const SwigluIo &io, const Sync &sync = Sync())
      : tiling_(tiling), io_(io), sync_(sync) {}

  // All experts, each split over the workers.
  AICORE void operator()(const Worker &worker) {
    for (uint32_t expert = 0; expert < tiling_.experts_per_rank; ++expert) {
      run(expert, worker);
    }
  }

  // This worker's rows of one expert.
  AICORE void run(uint32_t expert, const Worker &worker) {
    const uint32_t first = io_.expert_offset[expert];
    const Range rows = share(io_.expert_offset[expert + 1] - first, worker);
    run_rows(first + rows.begin, first + rows.end);
  }

  // Rows begin .. end: what a schedule that cuts an expert into segments calls.
  AICORE void run_rows(uint32_t begin, uint32_t end) {
    if (begin == end) {
      return;
    }
    refresh(io_.row_scale + begin, end - begin);
    open_buffers();
    const uint32_t chunks = (tiling_.intermediate + tiling_.chunk - 1) / tiling_.chunk;
    const uint32_t steps = (end - begin) * chunks;
    load(begin, 0, 0);
    float max = 0.0f;
    for (uint32_t step = 0; step < steps; ++step) {
      const uint32_t row = begin + step / chunks, chunk = step % chunks;
      if (step + 1 < steps) {
        load(begin + (step + 1) / chunks, (step + 1) % chunks, (step + 1) % 2);
      }
      const float chunk_max = activate(row, chunk, step % 2);
      max = chunk == 0 ? chunk_max : larger(max, chunk_max);
      if (chunk + 1 == chunks) {
        quantize(row, max);
      }
      if (step + 1 == steps || (chunk + 1 == chunks && (row + 1 - begin) % tiling_.scales_per_store == 0)) {
        store_scales(begin, row + 1);
      }
    }
    close_buffers();
  }

 private:
  static constexpr int kIn = 0;      // + buffer
  static constexpr int kMax = 0;
  static constexpr int kQ = 0, kQFree = 0;
  static constexpr int kScales = 1, kScalesFree = 0;

  // A NaN wins, as it does within a chunk.
  AICORE static float larger(float a, float b) { return b > a || b != b ? b : a; }

  AICORE uint32_t width(uint32_t chunk) const {
    return min_of(tiling_.chunk, tiling_.intermediate - chunk * tiling_.chunk);
  }

  AICORE void open_buffers() {
    set_flag(PIPE_MTE3, PIPE_V, kQFree);
    set_flag(PIPE_MTE3, PIPE_S, kScalesFree);
  }

  AICORE void close_buffers() {
    wait_flag(PIPE_MTE3, PIPE_V, kQFree);
    wait_flag(PIPE_MTE3, PIPE_S, kScalesFree);
  }

  AICORE uint32_t input(uint32_t buffer) const { return tiling_.input + buffer * tiling_.input_bytes; }

  AICORE void load(uint32_t row, uint32_t chunk, uint32_t buffer) {
    const uint32_t len = width(chunk);
    Line<half> up = line_at<half>(input(buffer), len);
    Line<half> gate = line_at<half>(input(buffer) + tiling_.input_bytes / 2, len);
    __gm__ half *source = io_.h + static_cast<uint64_t>(row) * 2 * tiling_.intermediate + chunk * tiling_.chunk;
    GmLine<half> gm_up = gm_line(source, len), gm_gate = gm_line(source + tiling_.intermediate, len);
    TLOAD(up, gm_up);
    TLOAD(gate, gm_gate);
    set_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
  }

  // y of one chunk, and its largest magnitude.
  AICORE float activate(uint32_t row, uint32_t chunk, uint32_t buffer) {
    const uint32_t len = width(chunk);
    Line<half> half_up = line_at<half>(input(buffer), len);
    Line<half> half_gate = line_at<half>(input(buffer) + tiling_.input_bytes / 2, len);
    Line<float> up = line_at<float>(tiling_.up, len), gate = line_at<float>(tiling_.gate, len);
    Line<float> tmp = line_at<float>(tiling_.tmp, len);
    Line<float> y = line_at<float>(tiling_.y + chunk * tiling_.chunk * sizeof(float), len);
    const float row_scale = io_.row_scale[row];
    wait_flag(PIPE_MTE2, PIPE_V, kIn + buffer);
    TCVT(up, half_up, pto::RoundMode::CAST_NONE);
    TCVT(gate, half_gate, pto::RoundMode::CAST_NONE);
    pipe_barrier(PIPE_V);
    TMULS(up, up, row_scale);
    TMULS(gate, gate, row_scale);
    pipe_barrier(PIPE_V);
    if (tiling_.has_limit != 0) {
      TMINS(up, up, tiling_.limit);
      TMINS(gate, gate, tiling_.limit);
      pipe_barrier(PIPE_V);
      TMAXS(gate, gate, -tiling_.limit);
    }
    Activation::apply(tiling_, up, tmp);
    pipe_barrier(PIPE_V);
    TMUL(y, up, gate);
    pipe_barrier(PIPE_V);
    TABS(tmp, y);
    pipe_barrier(PIPE_V);
    Max max;
    TASSIGN(max, tiling_.max);
    TROWMAX(max, tmp, up);
    set_flag(PIPE_V, PIPE_S, kMax);
    wait_flag(PIPE_V, PIPE_S, kMax);
    return max.GetValue(0);
  }

  AICORE void quantize(uint32_t row, float max) {
    const bool is_zero = max == 0.0f;
    const float inverse = is_zero ? 0.0f : tiling_.q_max / max;
    Line<float> scales = line_at<float>(tiling_.scales, tiling_.scales_per_store);
    if (num_scales_ == 0) {
      wait_flag(PIPE_MTE3, PIPE_S, kScalesFree);
    }
    scales.SetValue(num_scales_, is_zero ? tiling_.empty_scale : max / tiling_.q_max);
    num_scales_ += 1;
    const uint32_t chunks = (tiling_.intermediate + tiling_.chunk - 1) / tiling_.chunk;
    wait_flag(PIPE_MTE3, PIPE_V, kQFree);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      quantize_chunk(chunk, inverse);
    }
    set_flag(PIPE_V, PIPE_MTE3, kQ);
    wait_flag(PIPE_V, PIPE_MTE3, kQ);
    for (uint32_t chunk = 0; chunk < chunks; ++chunk) {
      Line<int8_t> q = line_at<int8_t>(tiling_.q + chunk * tiling_.chunk, width(chunk));
      GmLine<int8_t> gm_q =
          gm_line(io_.q + static_cast<uint64_t>(row) * tiling_.intermediate + chunk * tiling_.chunk, width(chunk));
      TSTORE(gm_q, q);
    }
    set_flag(PIPE_MTE3, PIPE_V, kQFree);
  }

  AICORE void quantize_chunk(uint32_t chunk, float inverse) {
    const uint32_t len = width(chunk);
    Line<float> y = line_at<float>(tiling_.y + chunk * tiling_.chunk * sizeof(float), len);
    Line<float> scaled = line_at<float>(tiling_.up, len), whole = line_at<float>(tiling_.gate, len);
    Line<int32_t> rounded = line_at<int32_t>(tiling_.tmp, len);
    Line<half> halves = line_at<half>(tiling_.up, len);
    Line<int8_t> q = line_at<int8_t>(tiling_.q + chunk * tiling_.chunk, len);
    TMULS(scaled, y, inverse);
    pipe_barrier(PIPE_V);
    TCVT(rounded, scaled, pto::RoundMode::CAST_RINT);
    pipe_barrier(PIPE_V);
    // 127 / m is rounded up where m is subnormal: the product can pass the limit.
    TMINS(rounded, rounded, static_cast<int32_t>(tiling_.q_max));
    pipe_barrier(PIPE_V);
    TMAXS(rounded, rounded, -static_cast<int32_t>(tiling_.q_max));
    pipe_barrier(PIPE_V);
    TCVT(whole, rounded, pto::RoundMode::CAST_RINT);
    pipe_barrier(PIPE_V);
    TCVT(halves, whole, pto::RoundMode::CAST_RINT);
    pipe_barrier(PIPE_V);
    TCVT(q, halves, pto::RoundMode::CAST_RINT);
    pipe_barrier(PIPE_V);
  }

  // The scales of the last rows, up to `end`.
  AICORE void store_scales(uint32_t, uint32_t end) {
    Line<float> scales = line_at<float>(tiling_.scales, num_scales_);
    GmLine<float> gm_scales = gm_line(io_.q_scale + end - num_scales_, num_scales_);
    set_flag(PIPE_S, PIPE_MTE3, kScales);
    wait_flag(PIPE_S, PIPE_MTE3, kScales);
    TSTORE(gm_scales, scales);
    set_flag(PIPE_MTE3, PIPE_S, kScalesFree);
    num_scales_ = 0;
  }

  using Max = pto::Tile<pto::TileType::Vec, float, 1, 8, pto::BLayout::RowMajor, 1, 1>;

  const SwigluTiling tiling_;
  const SwigluIo io_;
  Sync sync_;
  uint32_t num_scales_ = 0;
};

}  // namespace megamoe
