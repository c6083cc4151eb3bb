// Stand-alone entry points of the activation, one for each function.
#include "swiglu.h"

using namespace megamoe;

namespace {

template <typename Activation>
AICORE void run(__gm__ uint8_t *raw) {
  const auto args = *reinterpret_cast<__gm__ StageArgs<SwigluTiling, SwigluIo> *>(raw);
  if (ASCEND_IS_AIV) {
    Swiglu<Activation> stage(args.tiling, args.io);
    stage(vector_worker());
  }
}

}  // namespace

extern "C" __global__ AICORE void megamoe_swiglu_silu(__gm__ uint8_t *raw) { run<Silu>(raw); }

extern "C" __global__ AICORE void megamoe_swiglu_gelu(__gm__ uint8_t *raw) { run<Gelu>(raw); }
