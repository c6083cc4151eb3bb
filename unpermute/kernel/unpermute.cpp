// Stand-alone entry point of Unpermute, for both output types.
#include "unpermute.h"

using namespace megamoe;

namespace {

template <typename Out>
AICORE void run(__gm__ uint8_t *raw) {
  const auto args = *reinterpret_cast<__gm__ StageArgs<UnpermuteTiling, UnpermuteIo> *>(raw);
  if (ASCEND_IS_AIV) {
    Unpermute<Out> stage(args.tiling, args.io);
    stage(vector_worker());
  }
}

}  // namespace

extern "C" __global__ AICORE void megamoe_unpermute(__gm__ uint8_t *raw) {
  const auto *tiling = reinterpret_cast<__gm__ UnpermuteTiling *>(raw);
  if (tiling->output_is_bf16 != 0) {
    run<bfloat16_t>(raw);
  } else {
    run<half>(raw);
  }
}
