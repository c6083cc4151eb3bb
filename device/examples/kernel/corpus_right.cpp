// Kernels that look suspicious and are right: checked mode must report none.
#include "corpus.h"

using namespace corpus;

#define VECTOR_KERNEL(NAME)                                             \
  AICORE static void NAME##_on_one(const Args &args);                   \
  MEGAMOE_KERNEL(right_##NAME) {                                        \
    if (me() == 0) {                                                    \
      NAME##_on_one(args_of(raw));                                      \
    }                                                                   \
  }                                                                     \
  AICORE static void NAME##_on_one([[maybe_unused]] const Args &args)

#define CORES_KERNEL(NAME)                                              \
  AICORE static void NAME##_on_all(const Args &args);                   \
  MEGAMOE_KERNEL(right_##NAME) { NAME##_on_all(args_of(raw)); }         \
  AICORE static void NAME##_on_all([[maybe_unused]] const Args &args)

VECTOR_KERNEL(chain_of_flags) {
  load(0, args.input);
  flag(PIPE_MTE2, PIPE_V);
  scale(kLine, 0);
  flag(PIPE_V, PIPE_MTE3);
  store(kLine, args.output);
}
// MTE3 hears of the load through the vector pipe only.
VECTOR_KERNEL(flag_passed_on) {
  load(0, args.input);
  flag(PIPE_MTE2, PIPE_V);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output);
}
VECTOR_KERNEL(two_buffers_in_turn) {
  set_flag(PIPE_V, PIPE_MTE2, 0);
  set_flag(PIPE_V, PIPE_MTE2, 1);
  set_flag(PIPE_MTE3, PIPE_V, 0);
  for (uint32_t i = 0; i < 6; ++i) {
    const uint32_t buffer = i % 2;
    wait_flag(PIPE_V, PIPE_MTE2, buffer);
    load(buffer * kLine, args.input + i * kLen);
    set_flag(PIPE_MTE2, PIPE_V, buffer);
    wait_flag(PIPE_MTE2, PIPE_V, buffer);
    wait_flag(PIPE_MTE3, PIPE_V, 0);
    scale(2 * kLine, buffer * kLine);
    set_flag(PIPE_V, PIPE_MTE2, buffer);
    set_flag(PIPE_V, PIPE_MTE3, 0);
    wait_flag(PIPE_V, PIPE_MTE3, 0);
    store(2 * kLine, args.output + i * kLen);
    set_flag(PIPE_MTE3, PIPE_V, 0);
  }
  wait_flag(PIPE_V, PIPE_MTE2, 0);
  wait_flag(PIPE_V, PIPE_MTE2, 1);
  wait_flag(PIPE_MTE3, PIPE_V, 0);
}
VECTOR_KERNEL(one_barrier_for_all_pipes) {
  load(0, args.input);
  pipe_barrier(PIPE_ALL);
  scale(kLine, 0);
  pipe_barrier(PIPE_ALL);
  store(kLine, args.output);
  pipe_barrier(PIPE_ALL);
  load(kLine, args.input);
}
// The vector pipe learns from MTE3 that it has itself come as far.
VECTOR_KERNEL(flag_there_and_back_in_place_of_a_barrier) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  flag(PIPE_MTE3, PIPE_V);
  scale(kLine, 0);
}
VECTOR_KERNEL(result_in_the_place_of_its_operand) {
  loaded(args);
  scale(0, 0);
  pipe_barrier(PIPE_V);
  scale(0, 0);
}
// The scalar unit has read before it issues what overwrites.
VECTOR_KERNEL(scalar_read_then_overwritten) {
  fill(0);
  flag(PIPE_V, PIPE_S);
  const float value = line(0).GetValue(0);
  fill(0);
  line(kLine).SetValue(0, value);
}
VECTOR_KERNEL(scalar_writes_and_reads_its_own) {
  line(0).SetValue(0, 1.0f);
  line(0).SetValue(1, line(0).GetValue(0));
  flag(PIPE_S, PIPE_MTE3);
  store(0, args.output, 2);
}
VECTOR_KERNEL(neighbours_in_ub) {
  load(0, args.input);
  fill(kLine);
  store(2 * kLine, args.output, 0);
}
VECTOR_KERNEL(only_what_was_written_is_read) {
  fill(0, 17);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output, 17);
  flag(PIPE_MTE3, PIPE_MTE2);
  load(kLine, args.output, 17);
}
VECTOR_KERNEL(same_place_in_two_shapes) {
  loaded(args);
  scale(kLine, 0);
  pipe_barrier(PIPE_V);
  Line<half> halves = line<half>(2 * kLine);
  Line<float> wide = line(kLine);
  TCVT(halves, wide, RoundMode::CAST_RINT);
  pipe_barrier(PIPE_V);
  Line<half> again = line<half>(kLine);
  Line<float> back = line(0);
  TCVT(back, halves, RoundMode::CAST_NONE);
  TEXPANDS(again, static_cast<half>(0.0f));
}
CORES_KERNEL(cores_store_side_by_side) {
  fill(0, 9);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output + me() * 9, 9);
}
CORES_KERNEL(barrier_after_publishing) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output + me() * kLen);
  publish();
  SYNCALL<SyncCoreType::AIVOnly>();
  load(kLine, args.output, 4 * kLen);
}
CORES_KERNEL(signal_after_publishing) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output);
    publish();
    notify(args.words, args.epoch);
  }
  if (me() == 1) {
    wait(args.words, args.epoch);
    load(kLine, args.output);
  }
}
// Core 2 hears of core 0's store from core 1, which has stored nothing itself.
CORES_KERNEL(signal_passed_on) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output);
    publish();
    notify(args.words, args.epoch);
  }
  if (me() == 1) {
    wait(args.words, args.epoch);
    notify(args.words + 16, args.epoch);
  }
  if (me() == 2) {
    wait(args.words + 16, args.epoch);
    load(kLine, args.output);
  }
}
CORES_KERNEL(all_add_to_one_word) {
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, args.output + me() * kLen);
  publish();
  comm::Signal count(args.words + 32);
  comm::TNOTIFY(count, 1, comm::NotifyOp::AtomicAdd);
  comm::TWAIT(count, 4 * args.epoch, comm::WaitCmp::GE);
  load(kLine, args.output, 4 * kLen);
}
CORES_KERNEL(asks_until_it_is_there) {
  if (me() == 0) {
    fill(0);
    flag(PIPE_V, PIPE_MTE3);
    store(0, args.output);
    publish();
    notify(args.words, args.epoch);
  }
  if (me() == 1) {
    comm::Signal word(args.words);
    if (!comm::TTEST(word, args.epoch, comm::WaitCmp::GE)) {
      wait(args.words, args.epoch);
    }
    load(kLine, args.output);
  }
}
// The flag is the last word of the line of 512 bytes that it announces.
CORES_KERNEL(line_with_its_flag) {
  auto *words = args.words + 256 * static_cast<uint32_t>(1 + args.epoch % 2);
  if (me() == 0) {
    Line<int32_t> source = line<int32_t>(0, 128);
    TEXPANDS(source, args.epoch);
    flag(PIPE_V, PIPE_MTE3);
    Gm<int32_t> target = gm(words, 128);
    TSTORE(target, source);
  }
  if (me() == 1) {
    comm::Signal last(words + 127);
    comm::TWAIT(last, args.epoch, comm::WaitCmp::EQ);
    load(0, reinterpret_cast<__gm__ float *>(words), 128);
    pipe_barrier(PIPE_ALL);
  }
}
CORES_KERNEL(scalar_write_handed_on) {
  if (me() == 0) {
    args.words[512] = args.epoch;
    refresh(args.words + 512);
    publish();
    notify(args.words, args.epoch);
  }
  if (me() == 1) {
    wait(args.words, args.epoch);
    refresh(args.words + 512);
    line(0).SetValue(0, static_cast<float>(args.words[512]));
  }
}
CORES_KERNEL(all_read_the_same) {
  load(0, args.input, 1024);
  line(8 * 1024).SetValue(0, args.input[3]);
}
MEGAMOE_KERNEL(right_cross_flag_of_the_pipe_that_stores) {
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
    ffts_cross_core_sync(PIPE_MTE3, getFFTSMsg(2, 1));
  } else {
    wait_flag_dev(1);
    L1Left tile(1, 64);
    TASSIGN(tile, 0);
    Rows rows(reinterpret_cast<__gm__ int8_t *>(args.output), Shape<1, 1, 1, DYNAMIC, DYNAMIC>(1, 64),
              Stride<1, 1, 1, DYNAMIC, 1>(64));
    TLOAD(tile, rows);
  }
}
MEGAMOE_KERNEL(right_product_step_by_step) {
  if (get_block_idx() != 0) {
    return;
  }
  Product product(args_of(raw));
  product.load();
  flag(PIPE_MTE2, PIPE_MTE1);
  product.extract();
  flag(PIPE_MTE1, PIPE_M);
  product.multiply();
  TMATMUL_ACC(product.acc, product.acc, product.left, product.right);
  flag(PIPE_M, PIPE_FIX);
  product.store();
}
VECTOR_KERNEL(peers_rows_once_they_are_there) {
  auto *mine = reinterpret_cast<__gm__ float *>(args.windows[args.rank]);
  auto *theirs = reinterpret_cast<__gm__ float *>(args.windows[1 - args.rank]);
  auto *signal = reinterpret_cast<__gm__ int32_t *>(args.windows[args.rank] + 4096);
  auto *their_signal = reinterpret_cast<__gm__ int32_t *>(args.windows[1 - args.rank] + 4096);
  fill(0);
  flag(PIPE_V, PIPE_MTE3);
  store(0, mine);
  publish();
  notify(their_signal, 2 * args.epoch - 1);
  wait(signal, 2 * args.epoch - 1);
  load(kLine, theirs);
  // The peer must have read before the next launch overwrites.
  publish();
  notify(their_signal, 2 * args.epoch);
  wait(signal, 2 * args.epoch);
}
