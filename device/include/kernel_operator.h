// The part of AscendC's kernel_operator.h that kernels need beside the tile API: roles and addresses.
#pragma once

#include "pto/pto-inst.hpp"

// Only here: a kernel may offer the host what no NPU has room for.
#define MEGAMOE_VIRTUAL_DEVICE 1

// The NPU's compiler knows at compile time which core it compiles for; here it is known at run time.
#define ASCEND_IS_AIC (megamoe::device::core().is_aic != 0)
#define ASCEND_IS_AIV (megamoe::device::core().is_aic == 0)

#define GM_ADDR __gm__ uint8_t *
