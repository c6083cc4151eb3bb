//! A corpus of small kernels for checked mode: some with one fault each, some that only look as if they had one.

use megamoe_device::Kernel;
use megamoe_device::checked::Check;

macro_rules! wrong {
    ($($check:ident: $($kernel:ident on $cores:ident,)*;)*) => {
        /// Kernels with one fault each, and the check that reports it.
        #[must_use]
        pub fn wrong() -> Vec<(Kernel, Check)> {
            vec![$($((megamoe_device::kernel!($kernel, $cores), Check::$check),)*)*]
        }
    };
}

macro_rules! right {
    ($($kernel:ident on $cores:ident,)*) => {
        /// Kernels without a fault.
        #[must_use]
        pub fn right() -> Vec<Kernel> {
            vec![$(megamoe_device::kernel!($kernel, $cores),)*]
        }
    };
}

wrong! {
    Memcheck:
        wrong_load_past_the_end on Aiv,
        wrong_store_before_the_start on Aiv,
        wrong_scalar_store_past_the_end on Aiv,
        wrong_tile_past_the_end_of_ub on Aiv,
        wrong_tile_at_an_odd_address on Aiv,
        wrong_result_over_half_of_its_operand on Aiv,
        wrong_memory_of_another_rank on Aiv,
        wrong_part_of_a_window_that_is_the_others on Aiv,
    ;
    Racecheck:
        wrong_compute_before_it_is_loaded on Aiv,
        wrong_store_before_it_is_computed on Aiv,
        wrong_load_over_what_is_being_stored on Aiv,
        wrong_load_over_what_is_being_computed on Aiv,
        wrong_vector_reads_too_early on Aiv,
        wrong_vector_writes_twice on Aiv,
        wrong_vector_writes_what_it_still_reads on Aiv,
        wrong_scalar_reads_too_early on Aiv,
        wrong_scalar_write_before_vector on Aiv,
        wrong_scalar_write_before_store on Aiv,
        wrong_flag_of_the_wrong_pipe on Aiv,
        wrong_flag_set_before_the_load on Aiv,
        wrong_flag_of_the_other_buffer on Aiv,
        wrong_barrier_of_another_pipe on Aiv,
        wrong_scratch_of_an_instruction on Aiv,
        wrong_global_memory_read_back_too_early on Aiv,
        wrong_extract_before_it_is_loaded on Aic,
        wrong_multiply_before_it_is_extracted on Aic,
        wrong_store_before_it_is_multiplied on Aic,
        wrong_extract_over_what_is_multiplied on Aic,
        wrong_multiply_over_what_is_stored on Aic,
        wrong_barrier_without_publishing on Aiv,
        wrong_published_before_it_is_stored on Aiv,
        wrong_two_cores_store_the_same_bytes on Aiv,
        wrong_signal_before_the_store on Aiv,
        wrong_nobody_waits_for_the_signal on Aiv,
        wrong_waits_for_a_value_that_is_there on Aiv,
        wrong_waits_for_one_of_two on Aiv,
        wrong_scalar_write_that_is_not_written_back on Aiv,
        wrong_written_back_after_the_signal on Aiv,
        wrong_reads_what_its_cache_holds on Aiv,
        wrong_scalar_write_that_is_never_written_back on Aiv,
        wrong_ends_while_a_line_is_written_back on Aiv,
        wrong_acknowledged_before_it_is_read on Aiv,
        wrong_signal_cleared_while_it_is_given on Aiv,
        wrong_cross_flag_of_an_idle_pipe on Mix,
        wrong_peers_rows_without_waiting on Aiv,
        wrong_peers_rows_of_the_launch_before on Aiv,
        wrong_two_lines_with_one_flag on Aiv,
    ;
    Initcheck:
        wrong_computes_with_what_nobody_wrote on Aiv,
        wrong_loads_what_nobody_wrote on Aiv,
        wrong_stores_more_than_was_computed on Aiv,
        wrong_loads_what_the_launch_before_left on Aiv,
        wrong_adds_to_an_accumulator_that_is_empty on Aic,
    ;
    Synccheck:
        wrong_waits_for_a_flag_that_is_not_set on Aiv,
        wrong_sets_a_flag_twice on Aiv,
        wrong_leaves_a_flag_set on Aiv,
        wrong_ninth_flag_of_a_pair on Aiv,
        wrong_cross_flag_that_saturates on Mix,
        wrong_barrier_of_some_cores on Aiv,
        wrong_barrier_of_the_wrong_kind on Aiv,
    ;
}

right! {
    right_chain_of_flags on Aiv,
    right_flag_passed_on on Aiv,
    right_two_buffers_in_turn on Aiv,
    right_one_barrier_for_all_pipes on Aiv,
    right_flag_there_and_back_in_place_of_a_barrier on Aiv,
    right_result_in_the_place_of_its_operand on Aiv,
    right_scalar_read_then_overwritten on Aiv,
    right_scalar_writes_and_reads_its_own on Aiv,
    right_neighbours_in_ub on Aiv,
    right_only_what_was_written_is_read on Aiv,
    right_same_place_in_two_shapes on Aiv,
    right_cores_store_side_by_side on Aiv,
    right_barrier_after_publishing on Aiv,
    right_signal_after_publishing on Aiv,
    right_signal_passed_on on Aiv,
    right_all_add_to_one_word on Aiv,
    right_asks_until_it_is_there on Aiv,
    right_line_with_its_flag on Aiv,
    right_scalar_write_handed_on on Aiv,
    right_all_read_the_same on Aiv,
    right_cross_flag_of_the_pipe_that_stores on Mix,
    right_product_step_by_step on Aic,
    right_peers_rows_once_they_are_there on Aiv,
}
