// FrontReorder: numbers routes by expert, publishes counts, quantises tokens into packed rows, and works out from all
// counts who gets which rows. On vector cores.
//
//   topk_ids --> sort (three ways, route_sort.h) --> counts --> all ranks' windows
//                   |                                               |
//                   v row_of_route                                  v (wait)
//   x ----------> quantise (quantize.h) --> packed rows      metadata (metadata.h)
//                                              |
//                     all workers done --> rows_ready at all ranks
//
// Counts leave before the tokens are quantised, so that peers plan meanwhile.
#pragma once

#include "metadata.h"
#include "quantize.h"
#include "route_sort.h"

namespace megamoe {

template <typename Sort, typename In, typename Sync = NoSync>
class FrontReorder {
 public:
  using Tiling = FrontTiling;
  using Io = FrontReorderIo;

  AICORE FrontReorder(const FrontTiling &tiling, const FrontReorderIo &io, const Sync &sync = Sync())
      : tiling_(tiling), io_(io), sync_(sync), window_(io.window) {}

  // All workers of the stage take part.
  AICORE void operator()(const Worker &worker) {
    const Range tokens = share(tiling_.num_tokens, worker);
    const Range routes = {tokens.begin * tiling_.top_k, tokens.end * tiling_.top_k};
    const Sort sort(tiling_, io_);
    const CountExchange exchange(tiling_, io_, window_);
    sort.sort(worker, routes, sync_);
    exchange.publish(sort.counts(), sort.publisher(worker));

    TokenQuantizer<In> quantizer(tiling_, io_, window_);
    quantizer.run(tokens);
    sync_.vector_barrier();
    for (uint32_t peer = worker.idx; peer < window_.num_ranks(); peer += worker.num) {
      window_.notify(window_.rows_ready(peer, window_.rank()));
    }

    exchange.wait_counts(sync_);
    if (worker.idx == 0) {
      exchange.write_received();
    }
    exchange.write_kept(worker);
  }

 private:
  const FrontTiling tiling_;
  const FrontReorderIo io_;
  Sync sync_;
  WindowView window_;
};

}  // namespace megamoe
