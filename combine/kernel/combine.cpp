// Stand-alone entry points of Combine, one for each output type.
#include "combine.h"

using namespace megamoe;

namespace {

template <typename Out>
AICORE void run(__gm__ uint8_t *raw) {
  const auto args = *reinterpret_cast<__gm__ StageArgs<CombineTiling, CombineIo> *>(raw);
  if (ASCEND_IS_AIV) {
    Combine<Out> stage(args.tiling, args.io);
    stage(vector_worker());
  }
}

}  // namespace

extern "C" __global__ AICORE void megamoe_combine(__gm__ uint8_t *raw) {
  const auto *tiling = reinterpret_cast<__gm__ CombineTiling *>(raw);
  if (tiling->output_is_bf16 != 0) {
    run<bfloat16_t>(raw);
  } else {
    run<half>(raw);
  }
}
