// Kernels with one fault each: checked mode must report every one.
#include "corpus.h"

using namespace corpus;

#define VECTOR_KERNEL(NAME)                                             \
  AICORE static void NAME##_on_one(const Args &args);                   \
  MEGAMOE_KERNEL(wrong_##NAME) {                                        \
    if (me() == 0) {                                                    \
      NAME##_on_one(args_of(raw));                                      \
    }                                                                   \
  }                                                                     \
  AICORE static void NAME##_on_one([[maybe_unused]] const Args &args)

#define MATRIX_KERNEL(NAME)                                             \
  AICORE static void NAME##_on_one(const Args &args);                   \
  MEGAMOE_KERNEL(wrong_##NAME) {                                        \
    if (get_block_idx() == 0) {                                         \
      NAME##_on_one(args_of(raw));                                      \
    }                                                                   \
  }                                                                     \
  AICORE static void NAME##_on_one([[maybe_unused]] const Args &args)

#define CORES_KERNEL(NAME)                                              \
  AICORE static void NAME##_on_all(const Args &args);                   \
  MEGAMOE_KERNEL(wrong_##NAME) { NAME##_on_all(args_of(raw)); }         \
  AICORE static void NAME##_on_all([[maybe_unused]] const Args &args)

// ---- memcheck ----

VECTOR_KERNEL(load_past_the_end) { load(0, args.input + 4096 - 8); }
VECTOR_KERNEL(store_before_the_start) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output - 8);
}
VECTOR_KERNEL(scalar_store_past_the_end) { args.output[4096] = 1.0f; }
VECTOR_KERNEL(tile_past_the_end_of_ub) { fill(192 * 1024 - 32); }
VECTOR_KERNEL(tile_at_an_odd_address) { fill(40); }
VECTOR_KERNEL(result_over_half_of_its_operand) {
  loaded(args);
  scale(kLine / 2, 0);
}
VECTOR_KERNEL(memory_of_another_rank) { load(0, args.other); }
VECTOR_KERNEL(part_of_a_window_that_is_the_others) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, reinterpret_cast<__gm__ float *>(args.windows[1 - args.rank]));
}

// ---- racecheck, pipes of a core ----

VECTOR_KERNEL(compute_before_it_is_loaded) {
  load(0, args.input);
  scale(kLine, 0);
}
VECTOR_KERNEL(store_before_it_is_computed) {
  fill(0);
  store(0, args.output);
}
VECTOR_KERNEL(load_over_what_is_being_stored) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output);
  load(0, args.input);
}
VECTOR_KERNEL(load_over_what_is_being_computed) {
  loaded(args);
  scale(kLine, 0);
  load(0, args.input + kLen);
}
VECTOR_KERNEL(vector_reads_too_early) {
  loaded(args);
  scale(kLine, 0);
  scale(2 * kLine, kLine);
}
VECTOR_KERNEL(vector_writes_twice) {
  fill(0);
  fill(0);
}
VECTOR_KERNEL(vector_writes_what_it_still_reads) {
  loaded(args);
  scale(kLine, 0);
  fill(0);
}
VECTOR_KERNEL(scalar_reads_too_early) {
  fill(0);
  const float value = line(0).GetValue(3);
  line(kLine).SetValue(0, value);
}
VECTOR_KERNEL(scalar_write_before_vector) {
  line(0).SetValue(0, 1.0f);
  scale(kLine, 0, 1);
}
VECTOR_KERNEL(scalar_write_before_store) {
  line(0).SetValue(0, 1.0f);
  store(0, args.output, 1);
}
VECTOR_KERNEL(flag_of_the_wrong_pipe) {
  load(0, args.input);
  flag(PIPE_MTE2, PIPE_MTE3);
  scale(kLine, 0);
}
VECTOR_KERNEL(flag_set_before_the_load) {
  set_flag(PIPE_MTE2, PIPE_V, 0);
  load(0, args.input);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  scale(kLine, 0);
}
VECTOR_KERNEL(flag_of_the_other_buffer) {
  load(0, args.input);
  set_flag(PIPE_MTE2, PIPE_V, 0);
  load(kLine, args.input + kLen);
  wait_flag(PIPE_MTE2, PIPE_V, 0);
  scale(2 * kLine, kLine);
}
VECTOR_KERNEL(barrier_of_another_pipe) {
  loaded(args);
  scale(kLine, 0);
  pipe_barrier(PIPE_MTE2);
  scale(2 * kLine, kLine);
}
VECTOR_KERNEL(scratch_of_an_instruction) {
  loaded(args);
  Tile<TileType::Vec, float, 1, 8, BLayout::RowMajor, 1, 1> max;
  TASSIGN(max, 4 * kLine);
  Line<float> source = line(0), scratch = line(kLine);
  TROWMAX(max, source, scratch);
  fill(kLine);
}
VECTOR_KERNEL(global_memory_read_back_too_early) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output);
  load(kLine, args.output);
}

MATRIX_KERNEL(extract_before_it_is_loaded) {
  Product product(args);
  product.load();
  product.extract();
}
MATRIX_KERNEL(multiply_before_it_is_extracted) {
  Product product(args);
  product.load();
  flag(PIPE_MTE2, PIPE_MTE1);
  product.extract();
  product.multiply();
}
MATRIX_KERNEL(store_before_it_is_multiplied) {
  Product product(args);
  product.load();
  flag(PIPE_MTE2, PIPE_MTE1);
  product.extract();
  flag(PIPE_MTE1, PIPE_M);
  product.multiply();
  product.store();
}
MATRIX_KERNEL(extract_over_what_is_multiplied) {
  Product product(args);
  product.load();
  flag(PIPE_MTE2, PIPE_MTE1);
  product.extract();
  flag(PIPE_MTE1, PIPE_M);
  product.multiply();
  product.extract();
}
MATRIX_KERNEL(multiply_over_what_is_stored) {
  Product product(args);
  product.load();
  flag(PIPE_MTE2, PIPE_MTE1);
  product.extract();
  flag(PIPE_MTE1, PIPE_M);
  product.multiply();
  flag(PIPE_M, PIPE_FIX);
  product.store();
  product.multiply();
}

// ---- racecheck, cores ----

CORES_KERNEL(barrier_without_publishing) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output);
  }
  SYNCALL<SyncCoreType::AIVOnly>();
  load(kLine, args.output);
}
CORES_KERNEL(published_before_it_is_stored) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    dsb(DSB_DDR);
    store(0, args.output);
    pipe_barrier(PIPE_ALL);
  }
  SYNCALL<SyncCoreType::AIVOnly>();
  load(kLine, args.output);
}
CORES_KERNEL(two_cores_store_the_same_bytes) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output);
}
CORES_KERNEL(signal_before_the_store) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    publish();
    notify(args.words);
    store(0, args.output);
  }
  if (me() == 1) {
    wait(args.words);
    load(kLine, args.output);
  }
}
CORES_KERNEL(nobody_waits_for_the_signal) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output);
    publish();
    notify(args.words);
  }
  if (me() == 1) {
    wait(args.words + 16, 0);
    load(kLine, args.output);
  }
}
CORES_KERNEL(waits_for_a_value_that_is_there) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output);
    publish();
    notify(args.words);
  }
  if (me() == 1) {
    wait(args.words, 0);
    load(kLine, args.output);
  }
}
CORES_KERNEL(waits_for_one_of_two) {
  if (me() < 2) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output + me() * kLen);
    publish();
    comm::Signal count(args.words);
    comm::TNOTIFY(count, 1, comm::NotifyOp::AtomicAdd);
  }
  if (me() == 2) {
    wait(args.words, 1);
    load(kLine, args.output, 2 * kLen);
  }
}
CORES_KERNEL(scalar_write_that_is_not_written_back) {
  if (me() == 0) {
    args.words[256] = 7;
    publish();
    notify(args.words);
  }
  if (me() == 1) {
    wait(args.words);
    refresh(args.words + 256);
    args.output[0] = static_cast<float>(args.words[256]);
    refresh(args.output);
    dsb(DSB_DDR);
  }
}
CORES_KERNEL(written_back_after_the_signal) {
  if (me() == 0) {
    args.words[256] = 7;
    publish();
    notify(args.words);
    refresh(args.words + 256);
    dsb(DSB_DDR);
  }
  if (me() == 1) {
    wait(args.words);
    load(0, reinterpret_cast<__gm__ float *>(args.words + 256), 1);
  }
}
CORES_KERNEL(reads_what_its_cache_holds) {
  if (me() == 0) {
    wait(args.words + 16);
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, reinterpret_cast<__gm__ float *>(args.words + 256));
    publish();
    notify(args.words);
  }
  if (me() == 1) {
    int32_t sum = args.words[256];
    publish();
    notify(args.words + 16);
    wait(args.words);
    sum += args.words[257];
    line(0).SetValue(0, static_cast<float>(sum));
  }
}
VECTOR_KERNEL(scalar_write_that_is_never_written_back) { args.output[0] = 1.0f; }
VECTOR_KERNEL(ends_while_a_line_is_written_back) {
  args.output[0] = 1.0f;
  refresh(args.output);
}
CORES_KERNEL(acknowledged_before_it_is_read) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output);
    publish();
    notify(args.words);
    wait(args.words + 16);
    store(0, args.output);
  }
  if (me() == 1) {
    wait(args.words);
    publish();
    notify(args.words + 16);
    load(kLine, args.output);
  }
}
CORES_KERNEL(signal_cleared_while_it_is_given) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, reinterpret_cast<__gm__ float *>(args.words), 8);
  }
  if (me() == 1) {
    notify(args.words);
  }
}
MEGAMOE_KERNEL(wrong_cross_flag_of_an_idle_pipe) {
  const Args &args = args_of(raw);
  if (get_block_idx() != 0) {
    return;
  }
  if (ASCEND_IS_AIV) {
    if (get_subblockid() == 0) {
      fill(0);
      flag(PIPE_V, PIPE_MTE3);
      store(0, args.output);
    }
    ffts_cross_core_sync(PIPE_S, getFFTSMsg(2, 1));
  } else {
    wait_flag_dev(1);
    L1Left tile(1, 64);
    TASSIGN(tile, 0);
    Rows rows(reinterpret_cast<__gm__ int8_t *>(args.output), Shape<1, 1, 1, DYNAMIC, DYNAMIC>(1, 64),
              Stride<1, 1, 1, DYNAMIC, 1>(64));
    TLOAD(tile, rows);
  }
}

// ---- racecheck, ranks ----

VECTOR_KERNEL(peers_rows_without_waiting) {
  auto *mine = reinterpret_cast<__gm__ float *>(args.windows[args.rank]);
  auto *theirs = reinterpret_cast<__gm__ float *>(args.windows[1 - args.rank]);
  auto *signal = reinterpret_cast<__gm__ int32_t *>(args.windows[args.rank] + 4096);
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, mine);
  publish();
  notify(reinterpret_cast<__gm__ int32_t *>(args.windows[1 - args.rank] + 4096), args.epoch);
  wait(signal, 0);
  load(kLine, theirs);
}
VECTOR_KERNEL(peers_rows_of_the_launch_before) {
  auto *mine = reinterpret_cast<__gm__ float *>(args.windows[args.rank]);
  auto *theirs = reinterpret_cast<__gm__ float *>(args.windows[1 - args.rank]);
  auto *signal = reinterpret_cast<__gm__ int32_t *>(args.windows[args.rank] + 4096);
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, mine);
  publish();
  notify(reinterpret_cast<__gm__ int32_t *>(args.windows[1 - args.rank] + 4096), args.epoch);
  wait(signal, args.epoch - 1);
  load(kLine, theirs);
}
CORES_KERNEL(two_lines_with_one_flag) {
  // 256 words are two lines of 512 bytes; only the second's last word is waited for.
  if (me() == 0) {
    fill(0, 256);
    flag(PIPE_V, PIPE_MTE3);
    store(0, reinterpret_cast<__gm__ float *>(args.words + 256), 256);
  }
  if (me() == 1) {
    comm::Signal last(args.words + 256 + 255);
    comm::TWAIT(last, 0, comm::WaitCmp::NE);
    load(0, reinterpret_cast<__gm__ float *>(args.words + 256), 256);
  }
}

// ---- initcheck ----

VECTOR_KERNEL(computes_with_what_nobody_wrote) { scale(kLine, 0); }
VECTOR_KERNEL(loads_what_nobody_wrote) { load(0, args.output); }
VECTOR_KERNEL(stores_more_than_was_computed) {
  fill(0, kLen - 1);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output);
}
VECTOR_KERNEL(loads_what_the_launch_before_left) {
  // The first launch writes; the second reads first.
  if (args.epoch > 1) {
    load(kLine, args.output);
    pipe_barrier(PIPE_ALL);
  }
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output);
}
MATRIX_KERNEL(adds_to_an_accumulator_that_is_empty) {
  Product product(args);
  product.load();
  flag(PIPE_MTE2, PIPE_MTE1);
  product.extract();
  flag(PIPE_MTE1, PIPE_M);
  TMATMUL_ACC(product.acc, product.acc, product.left, product.right);
}

// ---- synccheck ----

VECTOR_KERNEL(waits_for_a_flag_that_is_not_set) { wait_flag(PIPE_MTE2, PIPE_V, 3); }
VECTOR_KERNEL(sets_a_flag_twice) {
  set_flag(PIPE_MTE2, PIPE_V, 0);
  flag(PIPE_MTE2, PIPE_V, 0);
}
VECTOR_KERNEL(leaves_a_flag_set) { set_flag(PIPE_V, PIPE_MTE3, 1); }
VECTOR_KERNEL(ninth_flag_of_a_pair) { flag(PIPE_V, PIPE_MTE3, 8); }
MEGAMOE_KERNEL(wrong_cross_flag_that_saturates) {
  if (ASCEND_IS_AIV && get_block_idx() == 0) {
    for (int i = 0; i < 20; ++i) {
      ffts_cross_core_sync(PIPE_MTE3, getFFTSMsg(2, 1));
    }
  }
}
CORES_KERNEL(barrier_of_some_cores) {
  if (me() != 0) {
    SYNCALL<SyncCoreType::AIVOnly>();
  }
}
CORES_KERNEL(barrier_of_the_wrong_kind) { SYNCALL<SyncCoreType::AICOnly>(); }
