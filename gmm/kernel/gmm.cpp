// Stand-alone entry point of the grouped matmul.
#include "gmm.h"

using namespace megamoe;

MEGAMOE_KERNEL(megamoe_gmm) {
  const auto args = *reinterpret_cast<__gm__ StageArgs<GmmTiling, GmmIo> *>(raw);
  if (ASCEND_IS_AIC) {
    Gmm<> stage(args.tiling, args.io);
    stage(matrix_worker());
  }
}
