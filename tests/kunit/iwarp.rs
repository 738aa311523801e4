// SPDX-License-Identifier: GPL-2.0

//! Runs the protocol engine's test cases (tests/host/suites) in KUnit, compiled with the kernel's
//! flags.
//!
//! tests/host/tests/kunit_list.rs checks that every case is in this list.

use kernel::prelude::*;

#[path = "../host/suites/mod.rs"]
mod suites;

#[allow(dead_code)]
const __LOG_PREFIX: &[u8] = b"rust_iwarp\0";

#[kunit_tests(rsiw_iwarp_golden)]
mod golden {
    use super::suites::{self, Outcome};

    #[test]
    fn crc32c_of_rfc3720() -> Outcome {
        suites::golden::crc32c_of_rfc3720()
    }

    #[test]
    fn mpa_figure_5() -> Outcome {
        suites::golden::mpa_figure_5()
    }

    #[test]
    fn mpa_figure_6() -> Outcome {
        suites::golden::mpa_figure_6()
    }

    #[test]
    fn marker_after_pad() -> Outcome {
        suites::golden::marker_after_pad()
    }

    #[test]
    fn marker_between_fpdus() -> Outcome {
        suites::golden::marker_between_fpdus()
    }

    #[test]
    fn markers_in_long_fpdu() -> Outcome {
        suites::golden::markers_in_long_fpdu()
    }

    #[test]
    fn send_header() -> Outcome {
        suites::golden::send_header()
    }

    #[test]
    fn send_with_invalidate_header() -> Outcome {
        suites::golden::send_with_invalidate_header()
    }

    #[test]
    fn send_with_immediate_header() -> Outcome {
        suites::golden::send_with_immediate_header()
    }

    #[test]
    fn write_header() -> Outcome {
        suites::golden::write_header()
    }

    #[test]
    fn read_request_message() -> Outcome {
        suites::golden::read_request_message()
    }

    #[test]
    fn read_response_header() -> Outcome {
        suites::golden::read_response_header()
    }

    #[test]
    fn terminate_message() -> Outcome {
        suites::golden::terminate_message()
    }

    #[test]
    fn immediate_messages() -> Outcome {
        suites::golden::immediate_messages()
    }

    #[test]
    fn atomic_request_messages() -> Outcome {
        suites::golden::atomic_request_messages()
    }

    #[test]
    fn atomic_response_message() -> Outcome {
        suites::golden::atomic_response_message()
    }

    #[test]
    fn untagged_example_of_ddp() -> Outcome {
        suites::golden::untagged_example_of_ddp()
    }

    #[test]
    fn tagged_example_of_ddp() -> Outcome {
        suites::golden::tagged_example_of_ddp()
    }

    #[test]
    fn write_to_wraps() -> Outcome {
        suites::golden::write_to_wraps()
    }

    #[test]
    fn zero_length_messages() -> Outcome {
        suites::golden::zero_length_messages()
    }

    #[test]
    fn mulpdu_formula() -> Outcome {
        suites::golden::mulpdu_formula()
    }

    #[test]
    fn mulpdu_bounds() -> Outcome {
        suites::golden::mulpdu_bounds()
    }

    #[test]
    fn full_mulpdu_has_no_pad() -> Outcome {
        suites::golden::full_mulpdu_has_no_pad()
    }

    #[test]
    fn small_mulpdu_is_raised() -> Outcome {
        suites::golden::small_mulpdu_is_raised()
    }

    #[test]
    fn crc_off_sends_field() -> Outcome {
        suites::golden::crc_off_sends_field()
    }

    #[test]
    fn exact_fit_is_one_segment() -> Outcome {
        suites::golden::exact_fit_is_one_segment()
    }

    #[test]
    fn stepped_segments_are_the_same() -> Outcome {
        suites::golden::stepped_segments_are_the_same()
    }

    #[test]
    fn whole_fpdus_are_the_same() -> Outcome {
        suites::golden::whole_fpdus_are_the_same()
    }

    #[test]
    fn whole_fpdus_need_their_room() -> Outcome {
        suites::golden::whole_fpdus_need_their_room()
    }

    #[test]
    fn failing_sink() -> Outcome {
        suites::golden::failing_sink()
    }
}

#[kunit_tests(rsiw_iwarp_rules_mpa)]
mod rules_mpa {
    use super::suites::{self, Outcome};

    #[test]
    fn every_pad_length() -> Outcome {
        suites::rules_mpa::every_pad_length()
    }

    #[test]
    fn header_in_single_octets() -> Outcome {
        suites::rules_mpa::header_in_single_octets()
    }

    #[test]
    fn several_fpdus_in_one_piece() -> Outcome {
        suites::rules_mpa::several_fpdus_in_one_piece()
    }

    #[test]
    fn pad_value_ignored_but_in_crc() -> Outcome {
        suites::rules_mpa::pad_value_ignored_but_in_crc()
    }

    #[test]
    fn crc_mismatch() -> Outcome {
        suites::rules_mpa::crc_mismatch()
    }

    #[test]
    fn crc_mismatch_places_nothing() -> Outcome {
        suites::rules_mpa::crc_mismatch_places_nothing()
    }

    #[test]
    fn crc_mismatch_delivers_nothing() -> Outcome {
        suites::rules_mpa::crc_mismatch_delivers_nothing()
    }

    #[test]
    fn crc_mismatch_in_middle_segment() -> Outcome {
        suites::rules_mpa::crc_mismatch_in_middle_segment()
    }

    #[test]
    fn crc_off_not_checked() -> Outcome {
        suites::rules_mpa::crc_off_not_checked()
    }

    #[test]
    fn crc_outranks_header_fault() -> Outcome {
        suites::rules_mpa::crc_outranks_header_fault()
    }

    #[test]
    fn header_fault_waits_for_crc() -> Outcome {
        suites::rules_mpa::header_fault_waits_for_crc()
    }

    #[test]
    fn header_fault_at_once_without_crc() -> Outcome {
        suites::rules_mpa::header_fault_at_once_without_crc()
    }

    #[test]
    fn local_refusal_at_once() -> Outcome {
        suites::rules_mpa::local_refusal_at_once()
    }

    #[test]
    fn ulpdu_too_long() -> Outcome {
        suites::rules_mpa::ulpdu_too_long()
    }

    #[test]
    fn ulpdu_longest() -> Outcome {
        suites::rules_mpa::ulpdu_longest()
    }

    #[test]
    fn ulpdu_too_short() -> Outcome {
        suites::rules_mpa::ulpdu_too_short()
    }

    #[test]
    fn nothing_after_a_fault() -> Outcome {
        suites::rules_mpa::nothing_after_a_fault()
    }

    #[test]
    fn boundaries() -> Outcome {
        suites::rules_mpa::boundaries()
    }

    #[test]
    fn figure_5_without_marker() -> Outcome {
        suites::rules_mpa::figure_5_without_marker()
    }
}

#[kunit_tests(rsiw_iwarp_rules_ddp)]
mod rules_ddp {
    use super::suites::{self, Outcome};

    #[test]
    fn send_single_segment() -> Outcome {
        suites::rules_ddp::send_single_segment()
    }

    #[test]
    fn send_several_segments() -> Outcome {
        suites::rules_ddp::send_several_segments()
    }

    #[test]
    fn send_zero_length_takes_buffer() -> Outcome {
        suites::rules_ddp::send_zero_length_takes_buffer()
    }

    #[test]
    fn send_longer_than_buffer() -> Outcome {
        suites::rules_ddp::send_longer_than_buffer()
    }

    #[test]
    fn send_without_buffer() -> Outcome {
        suites::rules_ddp::send_without_buffer()
    }

    #[test]
    fn send_waits_for_buffer() -> Outcome {
        suites::rules_ddp::send_waits_for_buffer()
    }

    #[test]
    fn send_waits_in_vain() -> Outcome {
        suites::rules_ddp::send_waits_in_vain()
    }

    #[test]
    fn only_the_first_segment_of_a_send_waits() -> Outcome {
        suites::rules_ddp::only_the_first_segment_of_a_send_waits()
    }

    #[test]
    fn write_single_segment() -> Outcome {
        suites::rules_ddp::write_single_segment()
    }

    #[test]
    fn write_several_segments() -> Outcome {
        suites::rules_ddp::write_several_segments()
    }

    #[test]
    fn write_zero_length_not_checked() -> Outcome {
        suites::rules_ddp::write_zero_length_not_checked()
    }

    #[test]
    fn write_segments_out_of_order() -> Outcome {
        suites::rules_ddp::write_segments_out_of_order()
    }

    #[test]
    fn write_stag_changes() -> Outcome {
        suites::rules_ddp::write_stag_changes()
    }

    #[test]
    fn write_to_wrap() -> Outcome {
        suites::rules_ddp::write_to_wrap()
    }

    #[test]
    fn write_refused() -> Outcome {
        suites::rules_ddp::write_refused()
    }

    #[test]
    fn reserved_bits_ignored() -> Outcome {
        suites::rules_ddp::reserved_bits_ignored()
    }

    #[test]
    fn version_tagged() -> Outcome {
        suites::rules_ddp::version_tagged()
    }

    #[test]
    fn version_untagged() -> Outcome {
        suites::rules_ddp::version_untagged()
    }

    #[test]
    fn queue_numbers() -> Outcome {
        suites::rules_ddp::queue_numbers()
    }

    #[test]
    fn msn_starts_at_one() -> Outcome {
        suites::rules_ddp::msn_starts_at_one()
    }

    #[test]
    fn msn_out_of_sequence() -> Outcome {
        suites::rules_ddp::msn_out_of_sequence()
    }

    #[test]
    fn msn_per_queue() -> Outcome {
        suites::rules_ddp::msn_per_queue()
    }

    #[test]
    fn mo_out_of_sequence() -> Outcome {
        suites::rules_ddp::mo_out_of_sequence()
    }

    #[test]
    fn mo_nonzero_first() -> Outcome {
        suites::rules_ddp::mo_nonzero_first()
    }

    #[test]
    fn refused_segment_is_not_placed() -> Outcome {
        suites::rules_ddp::refused_segment_is_not_placed()
    }

    #[test]
    fn refused_half_way() -> Outcome {
        suites::rules_ddp::refused_half_way()
    }

    #[test]
    fn tagged_and_untagged_interleave() -> Outcome {
        suites::rules_ddp::tagged_and_untagged_interleave()
    }

    #[test]
    fn send_within_a_write_waits() -> Outcome {
        suites::rules_ddp::send_within_a_write_waits()
    }

    #[test]
    fn read_request_within_a_write_waits() -> Outcome {
        suites::rules_ddp::read_request_within_a_write_waits()
    }

    #[test]
    fn one_message_waits_for_a_write() -> Outcome {
        suites::rules_ddp::one_message_waits_for_a_write()
    }

    #[test]
    fn nothing_waits_for_a_younger_write() -> Outcome {
        suites::rules_ddp::nothing_waits_for_a_younger_write()
    }

    #[test]
    fn nothing_waits_for_a_read_response() -> Outcome {
        suites::rules_ddp::nothing_waits_for_a_read_response()
    }

    #[test]
    fn refused_after_a_wait() -> Outcome {
        suites::rules_ddp::refused_after_a_wait()
    }

    #[test]
    fn two_untagged_messages_do_not_interleave() -> Outcome {
        suites::rules_ddp::two_untagged_messages_do_not_interleave()
    }

    #[test]
    fn two_tagged_messages_do_not_interleave() -> Outcome {
        suites::rules_ddp::two_tagged_messages_do_not_interleave()
    }

    #[test]
    fn refused_end_of_segment() -> Outcome {
        suites::rules_ddp::refused_end_of_segment()
    }
}

#[kunit_tests(rsiw_iwarp_rules_rdmap)]
mod rules_rdmap {
    use super::suites::{self, Outcome};

    #[test]
    fn send_kinds() -> Outcome {
        suites::rules_rdmap::send_kinds()
    }

    #[test]
    fn send_opcode_changes() -> Outcome {
        suites::rules_rdmap::send_opcode_changes()
    }

    #[test]
    fn invalidate_refused() -> Outcome {
        suites::rules_rdmap::invalidate_refused()
    }

    #[test]
    fn version() -> Outcome {
        suites::rules_rdmap::version()
    }

    #[test]
    fn reserved_opcodes() -> Outcome {
        suites::rules_rdmap::reserved_opcodes()
    }

    #[test]
    fn opcode_in_tagged_segment() -> Outcome {
        suites::rules_rdmap::opcode_in_tagged_segment()
    }

    #[test]
    fn opcode_on_wrong_queue() -> Outcome {
        suites::rules_rdmap::opcode_on_wrong_queue()
    }

    #[test]
    fn read_request_fields() -> Outcome {
        suites::rules_rdmap::read_request_fields()
    }

    #[test]
    fn read_request_in_two_segments() -> Outcome {
        suites::rules_rdmap::read_request_in_two_segments()
    }

    #[test]
    fn read_request_too_long() -> Outcome {
        suites::rules_rdmap::read_request_too_long()
    }

    #[test]
    fn read_request_too_short() -> Outcome {
        suites::rules_rdmap::read_request_too_short()
    }

    #[test]
    fn read_request_to_wrap() -> Outcome {
        suites::rules_rdmap::read_request_to_wrap()
    }

    #[test]
    fn read_request_zero_length_not_validated() -> Outcome {
        suites::rules_rdmap::read_request_zero_length_not_validated()
    }

    #[test]
    fn read_request_refused() -> Outcome {
        suites::rules_rdmap::read_request_refused()
    }

    #[test]
    fn read_queue_full() -> Outcome {
        suites::rules_rdmap::read_queue_full()
    }

    #[test]
    fn read_response() -> Outcome {
        suites::rules_rdmap::read_response()
    }

    #[test]
    fn read_response_several_segments() -> Outcome {
        suites::rules_rdmap::read_response_several_segments()
    }

    #[test]
    fn read_response_zero_length() -> Outcome {
        suites::rules_rdmap::read_response_zero_length()
    }

    #[test]
    fn read_response_unexpected() -> Outcome {
        suites::rules_rdmap::read_response_unexpected()
    }

    #[test]
    fn read_response_other_stag() -> Outcome {
        suites::rules_rdmap::read_response_other_stag()
    }

    #[test]
    fn read_response_other_to() -> Outcome {
        suites::rules_rdmap::read_response_other_to()
    }

    #[test]
    fn read_response_too_long() -> Outcome {
        suites::rules_rdmap::read_response_too_long()
    }

    #[test]
    fn read_response_too_short() -> Outcome {
        suites::rules_rdmap::read_response_too_short()
    }

    #[test]
    fn terminate_closes() -> Outcome {
        suites::rules_rdmap::terminate_closes()
    }

    #[test]
    fn terminate_within_message() -> Outcome {
        suites::rules_rdmap::terminate_within_message()
    }

    #[test]
    fn terminate_too_short() -> Outcome {
        suites::rules_rdmap::terminate_too_short()
    }

    #[test]
    fn terminate_promising_too_much() -> Outcome {
        suites::rules_rdmap::terminate_promising_too_much()
    }

    #[test]
    fn rtr_send() -> Outcome {
        suites::rules_rdmap::rtr_send()
    }

    #[test]
    fn rtr_send_only_first() -> Outcome {
        suites::rules_rdmap::rtr_send_only_first()
    }

    #[test]
    fn rtr_write_and_read() -> Outcome {
        suites::rules_rdmap::rtr_write_and_read()
    }
}

#[kunit_tests(rsiw_iwarp_rules_extensions)]
mod rules_extensions {
    use super::suites::{self, Outcome};

    #[test]
    fn opcodes_are_reserved() -> Outcome {
        suites::rules_extensions::opcodes_are_reserved()
    }

    #[test]
    fn opcodes_are_allowed_later() -> Outcome {
        suites::rules_extensions::opcodes_are_allowed_later()
    }

    #[test]
    fn opcodes_above_are_reserved() -> Outcome {
        suites::rules_extensions::opcodes_above_are_reserved()
    }

    #[test]
    fn opcodes_in_tagged_segments() -> Outcome {
        suites::rules_extensions::opcodes_in_tagged_segments()
    }

    #[test]
    fn opcodes_on_queues() -> Outcome {
        suites::rules_extensions::opcodes_on_queues()
    }

    #[test]
    fn queue_numbers() -> Outcome {
        suites::rules_extensions::queue_numbers()
    }

    #[test]
    fn versions() -> Outcome {
        suites::rules_extensions::versions()
    }

    #[test]
    fn reserved_fields_ignored() -> Outcome {
        suites::rules_extensions::reserved_fields_ignored()
    }

    #[test]
    fn send_immediate_has_to_be_agreed() -> Outcome {
        suites::rules_extensions::send_immediate_has_to_be_agreed()
    }

    #[test]
    fn send_immediate() -> Outcome {
        suites::rules_extensions::send_immediate()
    }

    #[test]
    fn send_immediate_in_two_segments() -> Outcome {
        suites::rules_extensions::send_immediate_in_two_segments()
    }

    #[test]
    fn send_immediate_waits_for_buffer() -> Outcome {
        suites::rules_extensions::send_immediate_waits_for_buffer()
    }

    #[test]
    fn send_immediate_refused() -> Outcome {
        suites::rules_extensions::send_immediate_refused()
    }
}

#[kunit_tests(rsiw_iwarp_rules_immediate)]
mod rules_immediate {
    use super::suites::{self, Outcome};

    #[test]
    fn immediate_data() -> Outcome {
        suites::rules_immediate::immediate_data()
    }

    #[test]
    fn immediate_too_short() -> Outcome {
        suites::rules_immediate::immediate_too_short()
    }

    #[test]
    fn immediate_too_long() -> Outcome {
        suites::rules_immediate::immediate_too_long()
    }

    #[test]
    fn immediate_in_two_segments() -> Outcome {
        suites::rules_immediate::immediate_in_two_segments()
    }

    #[test]
    fn immediate_in_two_segments_of_wrong_length() -> Outcome {
        suites::rules_immediate::immediate_in_two_segments_of_wrong_length()
    }

    #[test]
    fn immediate_in_single_octets() -> Outcome {
        suites::rules_immediate::immediate_in_single_octets()
    }

    #[test]
    fn immediate_without_buffer() -> Outcome {
        suites::rules_immediate::immediate_without_buffer()
    }

    #[test]
    fn immediate_waits_for_buffer() -> Outcome {
        suites::rules_immediate::immediate_waits_for_buffer()
    }

    #[test]
    fn immediate_waits_in_vain() -> Outcome {
        suites::rules_immediate::immediate_waits_in_vain()
    }

    #[test]
    fn only_the_first_segment_of_an_immediate_waits() -> Outcome {
        suites::rules_immediate::only_the_first_segment_of_an_immediate_waits()
    }

    #[test]
    fn immediate_sequence() -> Outcome {
        suites::rules_immediate::immediate_sequence()
    }

    #[test]
    fn immediate_within_a_write_waits() -> Outcome {
        suites::rules_immediate::immediate_within_a_write_waits()
    }

    #[test]
    fn immediate_and_one_more_within_a_write() -> Outcome {
        suites::rules_immediate::immediate_and_one_more_within_a_write()
    }

    #[test]
    fn immediate_does_not_interleave() -> Outcome {
        suites::rules_immediate::immediate_does_not_interleave()
    }

    #[test]
    fn immediate_refused() -> Outcome {
        suites::rules_immediate::immediate_refused()
    }

    #[test]
    fn immediate_with_wrong_crc() -> Outcome {
        suites::rules_immediate::immediate_with_wrong_crc()
    }

    #[test]
    fn immediate_is_no_rtr() -> Outcome {
        suites::rules_immediate::immediate_is_no_rtr()
    }

    #[test]
    fn immediate_of_verbs() -> Outcome {
        suites::rules_immediate::immediate_of_verbs()
    }
}

#[kunit_tests(rsiw_iwarp_rules_atomic)]
mod rules_atomic {
    use super::suites::{self, Outcome};

    #[test]
    fn atomic_request_fields() -> Outcome {
        suites::rules_atomic::atomic_request_fields()
    }

    #[test]
    fn atomic_request_ignores_the_rest() -> Outcome {
        suites::rules_atomic::atomic_request_ignores_the_rest()
    }

    #[test]
    fn atomic_request_unknown_code() -> Outcome {
        suites::rules_atomic::atomic_request_unknown_code()
    }

    #[test]
    fn atomic_request_too_short() -> Outcome {
        suites::rules_atomic::atomic_request_too_short()
    }

    #[test]
    fn atomic_request_too_long() -> Outcome {
        suites::rules_atomic::atomic_request_too_long()
    }

    #[test]
    fn atomic_request_in_two_segments() -> Outcome {
        suites::rules_atomic::atomic_request_in_two_segments()
    }

    #[test]
    fn atomic_request_in_single_octets() -> Outcome {
        suites::rules_atomic::atomic_request_in_single_octets()
    }

    #[test]
    fn atomic_request_sequence() -> Outcome {
        suites::rules_atomic::atomic_request_sequence()
    }

    #[test]
    fn atomic_request_offset() -> Outcome {
        suites::rules_atomic::atomic_request_offset()
    }

    #[test]
    fn atomic_request_refused() -> Outcome {
        suites::rules_atomic::atomic_request_refused()
    }

    #[test]
    fn atomic_request_within_a_write_waits() -> Outcome {
        suites::rules_atomic::atomic_request_within_a_write_waits()
    }

    #[test]
    fn atomic_request_refused_after_a_wait() -> Outcome {
        suites::rules_atomic::atomic_request_refused_after_a_wait()
    }

    #[test]
    fn atomic_request_does_not_interleave() -> Outcome {
        suites::rules_atomic::atomic_request_does_not_interleave()
    }

    #[test]
    fn atomic_request_with_wrong_crc() -> Outcome {
        suites::rules_atomic::atomic_request_with_wrong_crc()
    }

    #[test]
    fn atomic_response_fields() -> Outcome {
        suites::rules_atomic::atomic_response_fields()
    }

    #[test]
    fn atomic_response_sequence() -> Outcome {
        suites::rules_atomic::atomic_response_sequence()
    }

    #[test]
    fn atomic_response_offset() -> Outcome {
        suites::rules_atomic::atomic_response_offset()
    }

    #[test]
    fn atomic_response_of_wrong_length() -> Outcome {
        suites::rules_atomic::atomic_response_of_wrong_length()
    }

    #[test]
    fn atomic_response_in_two_segments() -> Outcome {
        suites::rules_atomic::atomic_response_in_two_segments()
    }

    #[test]
    fn atomic_response_within_a_send() -> Outcome {
        suites::rules_atomic::atomic_response_within_a_send()
    }

    #[test]
    fn atomic_response_within_a_write() -> Outcome {
        suites::rules_atomic::atomic_response_within_a_write()
    }

    #[test]
    fn atomic_response_within_a_read_response() -> Outcome {
        suites::rules_atomic::atomic_response_within_a_read_response()
    }

    #[test]
    fn atomic_response_within_a_request() -> Outcome {
        suites::rules_atomic::atomic_response_within_a_request()
    }

    #[test]
    fn atomic_response_while_a_message_is_held() -> Outcome {
        suites::rules_atomic::atomic_response_while_a_message_is_held()
    }

    #[test]
    fn atomic_response_refused() -> Outcome {
        suites::rules_atomic::atomic_response_refused()
    }

    #[test]
    fn atomic_response_with_wrong_crc() -> Outcome {
        suites::rules_atomic::atomic_response_with_wrong_crc()
    }

    #[test]
    fn atomic_terminate_has_no_rdma_header() -> Outcome {
        suites::rules_atomic::atomic_terminate_has_no_rdma_header()
    }

    #[test]
    fn atomic_terminate_of_a_request_under_way() -> Outcome {
        suites::rules_atomic::atomic_terminate_of_a_request_under_way()
    }

    #[test]
    fn fetch_add() -> Outcome {
        suites::rules_atomic::fetch_add()
    }

    #[test]
    fn cmp_swap() -> Outcome {
        suites::rules_atomic::cmp_swap()
    }
}

#[kunit_tests(rsiw_iwarp_terminate)]
mod terminate {
    use super::suites::{self, Outcome};

    #[test]
    fn code_numbers() -> Outcome {
        suites::terminate::code_numbers()
    }

    #[test]
    fn code_texts() -> Outcome {
        suites::terminate::code_texts()
    }

    #[test]
    fn ddp_error_untagged() -> Outcome {
        suites::terminate::ddp_error_untagged()
    }

    #[test]
    fn ddp_error_tagged() -> Outcome {
        suites::terminate::ddp_error_tagged()
    }

    #[test]
    fn protection_error_of_read() -> Outcome {
        suites::terminate::protection_error_of_read()
    }

    #[test]
    fn protection_error_of_invalidate() -> Outcome {
        suites::terminate::protection_error_of_invalidate()
    }

    #[test]
    fn operation_error() -> Outcome {
        suites::terminate::operation_error()
    }

    #[test]
    fn operation_error_of_read() -> Outcome {
        suites::terminate::operation_error_of_read()
    }

    #[test]
    fn llp_error_has_no_header() -> Outcome {
        suites::terminate::llp_error_has_no_header()
    }

    #[test]
    fn local_error_has_no_header() -> Outcome {
        suites::terminate::local_error_has_no_header()
    }

    #[test]
    fn read_in_progress() -> Outcome {
        suites::terminate::read_in_progress()
    }

    #[test]
    fn first_error_is_captured() -> Outcome {
        suites::terminate::first_error_is_captured()
    }

    #[test]
    fn round_trip() -> Outcome {
        suites::terminate::round_trip()
    }

    #[test]
    fn reserved_bits_of_terminate() -> Outcome {
        suites::terminate::reserved_bits_of_terminate()
    }

    #[test]
    fn length_without_header() -> Outcome {
        suites::terminate::length_without_header()
    }

    #[test]
    fn only_what_is_announced() -> Outcome {
        suites::terminate::only_what_is_announced()
    }

    #[test]
    fn fits_smallest_mulpdu() -> Outcome {
        suites::terminate::fits_smallest_mulpdu()
    }
}

#[kunit_tests(rsiw_iwarp_setup_frame)]
mod setup_frame {
    use super::suites::{self, Outcome};

    #[test]
    fn request_octets() -> Outcome {
        suites::setup_frame::request_octets()
    }

    #[test]
    fn reply_octets() -> Outcome {
        suites::setup_frame::reply_octets()
    }

    #[test]
    fn enhanced_octets() -> Outcome {
        suites::setup_frame::enhanced_octets()
    }

    #[test]
    fn reject_octets() -> Outcome {
        suites::setup_frame::reject_octets()
    }

    #[test]
    fn reject_with_required_depths() -> Outcome {
        suites::setup_frame::reject_with_required_depths()
    }

    #[test]
    fn coalesced_fpdu_is_left() -> Outcome {
        suites::setup_frame::coalesced_fpdu_is_left()
    }

    #[test]
    fn frame_in_single_octets() -> Outcome {
        suites::setup_frame::frame_in_single_octets()
    }

    #[test]
    fn wrong_key() -> Outcome {
        suites::setup_frame::wrong_key()
    }

    #[test]
    fn same_role() -> Outcome {
        suites::setup_frame::same_role()
    }

    #[test]
    fn revisions() -> Outcome {
        suites::setup_frame::revisions()
    }

    #[test]
    fn private_data_limits() -> Outcome {
        suites::setup_frame::private_data_limits()
    }

    #[test]
    fn enhanced_data_too_short() -> Outcome {
        suites::setup_frame::enhanced_data_too_short()
    }

    #[test]
    fn reserved_bits_of_frame() -> Outcome {
        suites::setup_frame::reserved_bits_of_frame()
    }

    #[test]
    fn enhanced_bit_in_revision_1() -> Outcome {
        suites::setup_frame::enhanced_bit_in_revision_1()
    }

    #[test]
    fn reject_bit_of_request_ignored() -> Outcome {
        suites::setup_frame::reject_bit_of_request_ignored()
    }

    #[test]
    fn buffer_too_small() -> Outcome {
        suites::setup_frame::buffer_too_small()
    }

    #[test]
    fn depth_beyond_field() -> Outcome {
        suites::setup_frame::depth_beyond_field()
    }
}

#[kunit_tests(rsiw_iwarp_setup)]
mod setup {
    use super::suites::{self, Outcome};

    #[test]
    fn crc_negotiation() -> Outcome {
        suites::setup::crc_negotiation()
    }

    #[test]
    fn marker_negotiation() -> Outcome {
        suites::setup::marker_negotiation()
    }

    #[test]
    fn large_fpdu_negotiation() -> Outcome {
        suites::setup::large_fpdu_negotiation()
    }

    #[test]
    fn send_immediate_negotiation() -> Outcome {
        suites::setup::send_immediate_negotiation()
    }

    #[test]
    fn ird_ord_negotiation() -> Outcome {
        suites::setup::ird_ord_negotiation()
    }

    #[test]
    fn ird_insufficient() -> Outcome {
        suites::setup::ird_insufficient()
    }

    #[test]
    fn no_ird_ord_negotiation() -> Outcome {
        suites::setup::no_ird_ord_negotiation()
    }

    #[test]
    fn peer_depths_are_passed_on() -> Outcome {
        suites::setup::peer_depths_are_passed_on()
    }

    #[test]
    fn rtr_negotiation() -> Outcome {
        suites::setup::rtr_negotiation()
    }

    #[test]
    fn rtr_none_in_common() -> Outcome {
        suites::setup::rtr_none_in_common()
    }

    #[test]
    fn rtr_none_offered() -> Outcome {
        suites::setup::rtr_none_offered()
    }

    #[test]
    fn rtr_read_needs_depth() -> Outcome {
        suites::setup::rtr_read_needs_depth()
    }

    #[test]
    fn rtr_flags_without_peer_to_peer() -> Outcome {
        suites::setup::rtr_flags_without_peer_to_peer()
    }

    #[test]
    fn reply_without_peer_to_peer() -> Outcome {
        suites::setup::reply_without_peer_to_peer()
    }

    #[test]
    fn reply_of_other_format() -> Outcome {
        suites::setup::reply_of_other_format()
    }

    #[test]
    fn rejected() -> Outcome {
        suites::setup::rejected()
    }
}

#[kunit_tests(rsiw_iwarp_ending)]
mod ending {
    use super::suites::{self, Outcome};

    #[test]
    fn both_fins_after_the_peers() -> Outcome {
        suites::ending::both_fins_after_the_peers()
    }

    #[test]
    fn both_fins_after_ours() -> Outcome {
        suites::ending::both_fins_after_ours()
    }

    #[test]
    fn drained_before_the_peers_fin() -> Outcome {
        suites::ending::drained_before_the_peers_fin()
    }

    #[test]
    fn a_reset_is_told_as_one() -> Outcome {
        suites::ending::a_reset_is_told_as_one()
    }

    #[test]
    fn a_cut_stream_is_a_reset() -> Outcome {
        suites::ending::a_cut_stream_is_a_reset()
    }

    #[test]
    fn an_abort_overrides() -> Outcome {
        suites::ending::an_abort_overrides()
    }

    #[test]
    fn a_terminate_has_five_seconds() -> Outcome {
        suites::ending::a_terminate_has_five_seconds()
    }

    #[test]
    fn a_terminate_is_not_cut_off_by_a_fin() -> Outcome {
        suites::ending::a_terminate_is_not_cut_off_by_a_fin()
    }

    #[test]
    fn a_fault_and_a_fin_at_once() -> Outcome {
        suites::ending::a_fault_and_a_fin_at_once()
    }

    #[test]
    fn draining_goes_on_while_the_peer_takes_data() -> Outcome {
        suites::ending::draining_goes_on_while_the_peer_takes_data()
    }

    #[test]
    fn draining_ends_without_progress() -> Outcome {
        suites::ending::draining_ends_without_progress()
    }

    #[test]
    fn a_fin_waits_for_room() -> Outcome {
        suites::ending::a_fin_waits_for_room()
    }

    #[test]
    fn a_fin_that_finds_no_room_for_long() -> Outcome {
        suites::ending::a_fin_that_finds_no_room_for_long()
    }

    #[test]
    fn the_peers_fin_has_ten_seconds() -> Outcome {
        suites::ending::the_peers_fin_has_ten_seconds()
    }

    #[test]
    fn late_data_have_ten_seconds_more() -> Outcome {
        suites::ending::late_data_have_ten_seconds_more()
    }

    #[test]
    fn a_removed_device_waits_a_second() -> Outcome {
        suites::ending::a_removed_device_waits_a_second()
    }

    #[test]
    fn an_rtr_has_ten_seconds() -> Outcome {
        suites::ending::an_rtr_has_ten_seconds()
    }

    #[test]
    fn an_rtr_that_came() -> Outcome {
        suites::ending::an_rtr_that_came()
    }

    #[test]
    fn an_rtr_is_repeated_once() -> Outcome {
        suites::ending::an_rtr_is_repeated_once()
    }

    #[test]
    fn an_rtr_that_was_answered() -> Outcome {
        suites::ending::an_rtr_that_was_answered()
    }

    #[test]
    fn silence_counts_from_the_ack_of_the_reply() -> Outcome {
        suites::ending::silence_counts_from_the_ack_of_the_reply()
    }

    #[test]
    fn silence_without_a_limit() -> Outcome {
        suites::ending::silence_without_a_limit()
    }

    #[test]
    fn a_close_within_the_silence() -> Outcome {
        suites::ending::a_close_within_the_silence()
    }

    #[test]
    fn lingering_ends_by_fins() -> Outcome {
        suites::ending::lingering_ends_by_fins()
    }

    #[test]
    fn lingering_ends_without_progress() -> Outcome {
        suites::ending::lingering_ends_without_progress()
    }

    #[test]
    fn lingering_is_extended_twelve_times() -> Outcome {
        suites::ending::lingering_is_extended_twelve_times()
    }

    #[test]
    fn the_ack_of_our_fin_is_progress() -> Outcome {
        suites::ending::the_ack_of_our_fin_is_progress()
    }

    #[test]
    fn lingering_without_memory() -> Outcome {
        suites::ending::lingering_without_memory()
    }

    #[test]
    fn lingering_time_goes_on_when_the_fin_is_sent() -> Outcome {
        suites::ending::lingering_time_goes_on_when_the_fin_is_sent()
    }

    #[test]
    fn a_timer_that_is_early() -> Outcome {
        suites::ending::a_timer_that_is_early()
    }

    #[test]
    fn a_timer_of_a_former_stage() -> Outcome {
        suites::ending::a_timer_of_a_former_stage()
    }

    #[test]
    fn nothing_follows_the_end() -> Outcome {
        suites::ending::nothing_follows_the_end()
    }
}

#[kunit_tests(rsiw_iwarp_connecting)]
mod connecting {
    use super::suites::{self, Outcome};

    #[test]
    fn connects() -> Outcome {
        suites::connecting::connects()
    }

    #[test]
    fn connects_with_an_rtr() -> Outcome {
        suites::connecting::connects_with_an_rtr()
    }

    #[test]
    fn tcp_has_twenty_seconds() -> Outcome {
        suites::connecting::tcp_has_twenty_seconds()
    }

    #[test]
    fn a_refused_connection_is_tried_again() -> Outcome {
        suites::connecting::a_refused_connection_is_tried_again()
    }

    #[test]
    fn all_tries_have_the_time_of_one() -> Outcome {
        suites::connecting::all_tries_have_the_time_of_one()
    }

    #[test]
    fn an_unreachable_peer_is_not_tried_again() -> Outcome {
        suites::connecting::an_unreachable_peer_is_not_tried_again()
    }

    #[test]
    fn a_reply_has_thirty_seconds() -> Outcome {
        suites::connecting::a_reply_has_thirty_seconds()
    }

    #[test]
    fn late_looks_do_not_add_up() -> Outcome {
        suites::connecting::late_looks_do_not_add_up()
    }

    #[test]
    fn a_process_that_ends() -> Outcome {
        suites::connecting::a_process_that_ends()
    }

    #[test]
    fn a_queue_pair_that_goes() -> Outcome {
        suites::connecting::a_queue_pair_that_goes()
    }

    #[test]
    fn a_removed_device_fails_attempts() -> Outcome {
        suites::connecting::a_removed_device_fails_attempts()
    }

    #[test]
    fn a_rejection_is_told() -> Outcome {
        suites::connecting::a_rejection_is_told()
    }

    #[test]
    fn a_bad_reply_ends_the_attempt() -> Outcome {
        suites::connecting::a_bad_reply_ends_the_attempt()
    }

    #[test]
    fn falls_back_from_large_fpdus_and_from_revision_2() -> Outcome {
        suites::connecting::falls_back_from_large_fpdus_and_from_revision_2()
    }

    #[test]
    fn revision_1_does_not_fall_back() -> Outcome {
        suites::connecting::revision_1_does_not_fall_back()
    }

    #[test]
    fn an_old_reply_needs_one_more_attempt() -> Outcome {
        suites::connecting::an_old_reply_needs_one_more_attempt()
    }

    #[test]
    fn a_rejected_offer_needs_one_more_attempt() -> Outcome {
        suites::connecting::a_rejected_offer_needs_one_more_attempt()
    }

    #[test]
    fn a_repeated_attempt_has_its_time_again() -> Outcome {
        suites::connecting::a_repeated_attempt_has_its_time_again()
    }

    #[test]
    fn terms_that_cannot_be_met() -> Outcome {
        suites::connecting::terms_that_cannot_be_met()
    }

    #[test]
    fn a_terminate_that_cannot_be_sent() -> Outcome {
        suites::connecting::a_terminate_that_cannot_be_sent()
    }

    #[test]
    fn a_queue_pair_that_cannot_start() -> Outcome {
        suites::connecting::a_queue_pair_that_cannot_start()
    }

    #[test]
    fn a_request_that_cannot_be_sent() -> Outcome {
        suites::connecting::a_request_that_cannot_be_sent()
    }

    #[test]
    fn tls_before_the_request() -> Outcome {
        suites::connecting::tls_before_the_request()
    }

    #[test]
    fn tls_that_fails() -> Outcome {
        suites::connecting::tls_that_fails()
    }

    #[test]
    fn tls_has_twenty_seconds() -> Outcome {
        suites::connecting::tls_has_twenty_seconds()
    }

    #[test]
    fn tls_without_room_is_asked_for_again() -> Outcome {
        suites::connecting::tls_without_room_is_asked_for_again()
    }

    #[test]
    fn tls_is_never_left() -> Outcome {
        suites::connecting::tls_is_never_left()
    }

    #[test]
    fn a_process_that_ends_within_tls() -> Outcome {
        suites::connecting::a_process_that_ends_within_tls()
    }

    #[test]
    fn turns_have_two_minutes() -> Outcome {
        suites::connecting::turns_have_two_minutes()
    }

    #[test]
    fn turns_of_a_repeated_attempt_share_their_time() -> Outcome {
        suites::connecting::turns_of_a_repeated_attempt_share_their_time()
    }

    #[test]
    fn an_answer_of_each_kind() -> Outcome {
        suites::connecting::an_answer_of_each_kind()
    }

    #[test]
    fn answers_within_tls() -> Outcome {
        suites::connecting::answers_within_tls()
    }
}

#[kunit_tests(rsiw_iwarp_answering)]
mod answering {
    use super::suites::{self, Outcome};

    #[test]
    fn a_request_is_reported_and_accepted() -> Outcome {
        suites::answering::a_request_is_reported_and_accepted()
    }

    #[test]
    fn a_peer_that_owes_an_rtr() -> Outcome {
        suites::answering::a_peer_that_owes_an_rtr()
    }

    #[test]
    fn a_peer_that_is_silent_behind_the_reply() -> Outcome {
        suites::answering::a_peer_that_is_silent_behind_the_reply()
    }

    #[test]
    fn mpa_where_tls_may_be() -> Outcome {
        suites::answering::mpa_where_tls_may_be()
    }

    #[test]
    fn a_first_octet_has_ten_seconds() -> Outcome {
        suites::answering::a_first_octet_has_ten_seconds()
    }

    #[test]
    fn mpa_has_the_rest_of_the_ten_seconds() -> Outcome {
        suites::answering::mpa_has_the_rest_of_the_ten_seconds()
    }

    #[test]
    fn a_request_has_ten_seconds() -> Outcome {
        suites::answering::a_request_has_ten_seconds()
    }

    #[test]
    fn a_peer_without_a_request() -> Outcome {
        suites::answering::a_peer_without_a_request()
    }

    #[test]
    fn a_silent_peer_gives_way() -> Outcome {
        suites::answering::a_silent_peer_gives_way()
    }

    #[test]
    fn a_listener_that_goes() -> Outcome {
        suites::answering::a_listener_that_goes()
    }

    #[test]
    fn tls_before_the_peers_request() -> Outcome {
        suites::answering::tls_before_the_peers_request()
    }

    #[test]
    fn a_handshake_waits_for_its_turn() -> Outcome {
        suites::answering::a_handshake_waits_for_its_turn()
    }

    #[test]
    fn a_handshake_has_twenty_seconds_with_its_turn() -> Outcome {
        suites::answering::a_handshake_has_twenty_seconds_with_its_turn()
    }

    #[test]
    fn a_handshake_without_room_is_asked_for_again() -> Outcome {
        suites::answering::a_handshake_without_room_is_asked_for_again()
    }

    #[test]
    fn a_handshake_that_fails() -> Outcome {
        suites::answering::a_handshake_that_fails()
    }

    #[test]
    fn a_turn_that_cannot_be_waited_for() -> Outcome {
        suites::answering::a_turn_that_cannot_be_waited_for()
    }

    #[test]
    fn a_request_behind_tls_has_its_time() -> Outcome {
        suites::answering::a_request_behind_tls_has_its_time()
    }

    #[test]
    fn a_request_waits_for_others() -> Outcome {
        suites::answering::a_request_waits_for_others()
    }

    #[test]
    fn a_request_waits_half_a_minute() -> Outcome {
        suites::answering::a_request_waits_half_a_minute()
    }

    #[test]
    fn a_peer_that_leaves_the_queue() -> Outcome {
        suites::answering::a_peer_that_leaves_the_queue()
    }

    #[test]
    fn a_request_that_cannot_be_reported() -> Outcome {
        suites::answering::a_request_that_cannot_be_reported()
    }

    #[test]
    fn a_peer_that_may_not_connect() -> Outcome {
        suites::answering::a_peer_that_may_not_connect()
    }

    #[test]
    fn a_refusal_that_cannot_be_sent() -> Outcome {
        suites::answering::a_refusal_that_cannot_be_sent()
    }

    #[test]
    fn an_answer_has_seventy_five_seconds() -> Outcome {
        suites::answering::an_answer_has_seventy_five_seconds()
    }

    #[test]
    fn a_peer_that_goes_before_the_answer() -> Outcome {
        suites::answering::a_peer_that_goes_before_the_answer()
    }

    #[test]
    fn a_rejection_lingers() -> Outcome {
        suites::answering::a_rejection_lingers()
    }

    #[test]
    fn a_rejection_that_does_not_linger() -> Outcome {
        suites::answering::a_rejection_that_does_not_linger()
    }

    #[test]
    fn a_queue_pair_that_cannot_accept() -> Outcome {
        suites::answering::a_queue_pair_that_cannot_accept()
    }

    #[test]
    fn a_reply_that_cannot_be_sent() -> Outcome {
        suites::answering::a_reply_that_cannot_be_sent()
    }

    #[test]
    fn a_removed_device_ends_each_setup() -> Outcome {
        suites::answering::a_removed_device_ends_each_setup()
    }

    #[test]
    fn an_answer_that_comes_too_late() -> Outcome {
        suites::answering::an_answer_that_comes_too_late()
    }
}

#[kunit_tests(rsiw_iwarp_naming)]
mod naming {
    use super::suites::{self, Outcome};

    #[test]
    fn the_lower_name_connects() -> Outcome {
        suites::naming::the_lower_name_connects()
    }

    #[test]
    fn a_call_of_known_octets() -> Outcome {
        suites::naming::a_call_of_known_octets()
    }

    #[test]
    fn what_is_no_call() -> Outcome {
        suites::naming::what_is_no_call()
    }

    #[test]
    fn a_call_for_each_other() -> Outcome {
        suites::naming::a_call_for_each_other()
    }

    #[test]
    fn a_call_from_elsewhere() -> Outcome {
        suites::naming::a_call_from_elsewhere()
    }

    #[test]
    fn a_call_in_the_wrong_direction() -> Outcome {
        suites::naming::a_call_in_the_wrong_direction()
    }

    #[test]
    fn a_call_for_another() -> Outcome {
        suites::naming::a_call_for_another()
    }

    #[test]
    fn a_call_that_waits() -> Outcome {
        suites::naming::a_call_that_waits()
    }

    #[test]
    fn calls_come_ever_more_rarely() -> Outcome {
        suites::naming::calls_come_ever_more_rarely()
    }

    #[test]
    fn a_call_is_admitted() -> Outcome {
        suites::naming::a_call_is_admitted()
    }

    #[test]
    fn a_call_waits_for_its_queue_pair() -> Outcome {
        suites::naming::a_call_waits_for_its_queue_pair()
    }

    #[test]
    fn a_call_that_is_refused() -> Outcome {
        suites::naming::a_call_that_is_refused()
    }

    #[test]
    fn a_call_makes_room() -> Outcome {
        suites::naming::a_call_makes_room()
    }

    #[test]
    fn the_peers_fin_ends_the_connection() -> Outcome {
        suites::naming::the_peers_fin_ends_the_connection()
    }

    #[test]
    fn a_call_asks_for_nothing_less() -> Outcome {
        suites::naming::a_call_asks_for_nothing_less()
    }

    #[test]
    fn one_that_is_its_own_peer_asks_nobody() -> Outcome {
        suites::naming::one_that_is_its_own_peer_asks_nobody()
    }
}
