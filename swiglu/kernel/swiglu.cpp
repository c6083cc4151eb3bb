// Stand-alone entry points of the activation, one for each function.
#include "swiglu.h"

using namespace megamoe;

MEGAMOE_KERNEL(megamoe_swiglu_silu) {
  run_on_vector_cores<Swiglu<Silu>>(raw);
}

MEGAMOE_KERNEL(megamoe_swiglu_gelu) {
  run_on_vector_cores<Swiglu<Gelu>>(raw);
}
