// Stand-alone entry point of Dispatch.
#include "dispatch.h"

using namespace megamoe;

MEGAMOE_KERNEL(megamoe_dispatch) {
  run_on_vector_cores<Dispatch<>>(raw);
}
