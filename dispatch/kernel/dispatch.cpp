// Stand-alone entry point of Dispatch.
#include "dispatch.h"

using namespace megamoe;

extern "C" __global__ AICORE void megamoe_dispatch(__gm__ uint8_t *raw) {
  const auto args = *reinterpret_cast<__gm__ StageArgs<DispatchTiling, DispatchIo> *>(raw);
  if (ASCEND_IS_AIV) {
    Dispatch<> stage(args.tiling, args.io);
    stage(vector_worker());
  }
}
