// Roles, barriers and flags, and faults that the device must name.
#include "megamoe/entry.h"

#include "kernel_operator.h"

using namespace pto;

MEGAMOE_KERNEL(example_empty) {}

// Waits for a word that stays 0.
MEGAMOE_KERNEL(example_deadlock) {
  comm::Signal signal(reinterpret_cast<__gm__ int32_t *>(raw));
  comm::TWAIT(signal, 7, comm::WaitCmp::GE);
}

MEGAMOE_KERNEL(example_out_of_bounds) {
  Tile<TileType::Vec, float, 1, 64> tile;
  TASSIGN(tile, 192 * 1024 - 128);
  GlobalTensor<float, Shape<1, 1, 1, 1, 64>, Stride<1, 1, 1, 1, 1>> gm(reinterpret_cast<__gm__ float *>(raw));
  TLOAD(tile, gm);
}

MEGAMOE_KERNEL(example_misaligned) {
  Tile<TileType::Vec, float, 1, 64> tile;
  TASSIGN(tile, 36);
  TEXPANDS(tile, 1.0f);
}

MEGAMOE_KERNEL(example_unset_flag) { wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID3); }

MEGAMOE_KERNEL(example_left_flag) { set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1); }

// Word 3 * block: the matrix core; + 1 and + 2: its vector cores.
MEGAMOE_KERNEL(example_who) {
  auto *words = reinterpret_cast<__gm__ int32_t *>(raw);
  const int64_t block = get_block_idx();
  if (ASCEND_IS_AIC) {
    words[3 * block] = static_cast<int32_t>(1000 + get_block_num());
  } else {
    words[3 * block + 1 + get_subblockid()] = static_cast<int32_t>(100 * get_subblockdim() + get_subblockid());
  }
}

// The matrix core and the vector cores of a physical core write a counter in turn, 20 rounds.
// Word block: the counter, which only whoever's turn it is touches.
MEGAMOE_KERNEL(example_cross_flags) {
  auto *counter = reinterpret_cast<__gm__ int32_t *>(raw) + get_block_idx();
  for (int round = 0; round < 20; ++round) {
    if (ASCEND_IS_AIC) {
      *counter = *counter * 3 + 1;
      ffts_cross_core_sync(PIPE_FIX, getFFTSMsg(2, 4));
      wait_flag_dev(5);
    } else {
      wait_flag_dev(4);
      if (get_subblockid() == 0) {
        *counter = *counter + round;
      }
      ffts_cross_core_sync(PIPE_MTE3, getFFTSMsg(2, 5));
    }
  }
}

// Every core adds to a counter between barriers and checks that all others have; word 1 counts what was wrong.
MEGAMOE_KERNEL(example_barriers) {
  auto *words = reinterpret_cast<__gm__ int32_t *>(raw);
  comm::Signal all(words), wrong(words + 16);
  const int32_t cores = static_cast<int32_t>(3 * get_block_num());
  for (int32_t round = 1; round <= 10; ++round) {
    comm::TNOTIFY(all, 1, comm::NotifyOp::AtomicAdd);
    SYNCALL<SyncCoreType::Mix>();
    if (!comm::TTEST(all, round * cores, comm::WaitCmp::EQ)) {
      comm::TNOTIFY(wrong, 1, comm::NotifyOp::AtomicAdd);
    }
    if (ASCEND_IS_AIC) {
      SYNCALL<SyncCoreType::AICOnly>();
    } else {
      SYNCALL<SyncCoreType::AIVOnly>();
    }
    SYNCALL<SyncCoreType::Mix>();
  }
}

// Every core writes its number behind those of the cores that came before it, three times. Word 0 counts. The order
// is the schedule's: nothing pauses between reading the count and writing it.
MEGAMOE_KERNEL(example_order) {
  auto *words = reinterpret_cast<__gm__ int32_t *>(raw);
  comm::Signal signal(words);
  for (int round = 0; round < 3; ++round) {
    const int32_t place = words[0];
    words[0] = place + 1;
    words[1 + place] = static_cast<int32_t>(2 * get_block_idx() + get_subblockid());
    comm::TTEST(signal, 0, comm::WaitCmp::EQ);  // others may run here
  }
}
