// The stages of the standard fused kernel. A kernel with others derives from it and names its own:
// `bisheng_build::FusedKernel` writes that.
#pragma once

#include "combine.h"
#include "dispatch.h"
#include "front_reorder.h"
#include "gmm.h"
#include "swiglu.h"
#include "unpermute.h"

namespace megamoe {

struct StandardStages {
  template <typename In, typename Sync>
  using FrontReorder = megamoe::FrontReorder<AnyPath, In, Sync>;
  template <typename Sync>
  using Dispatch = megamoe::Dispatch<Sync>;
  template <typename Sync>
  using Gmm1 = megamoe::Gmm<Sync>;
  template <typename Sync>
  using Swiglu = megamoe::Swiglu<Silu, Sync>;
  template <typename Sync>
  using Gmm2 = megamoe::Gmm<Sync>;
  template <typename Out, typename Sync>
  using Combine = megamoe::Combine<Out, Sync>;
  template <typename Out, typename Sync>
  using Unpermute = megamoe::Unpermute<Out, Sync>;
};

}  // namespace megamoe
