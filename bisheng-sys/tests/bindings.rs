//! The bindings that are checked in are those that bindgen makes of the headers it was given: signatures, values and
//! layouts of all that is bound. To renew them, copy what this test says differs.
#![cfg(feature = "bindgen")]

use bisheng_sys::bindings;

#[track_caller]
fn assert_same(name: &str, generated: &str, checked_in: &str) {
    let differing = generated
        .lines()
        .zip(checked_in.lines())
        .position(|(a, b)| a != b);
    let line =
        differing.unwrap_or_else(|| generated.lines().count().min(checked_in.lines().count()));
    let at = |text: &str| text.lines().nth(line).unwrap_or("(the end)").to_owned();
    assert!(
        generated == checked_in,
        "{name}, line {}: the headers say\n{}\nchecked in is\n{}\nthe whole: {}/{name}",
        line + 1,
        at(generated),
        at(checked_in),
        env!("OUT_DIR"),
    );
}

#[test]
fn checked_in_bindings_are_those_of_the_headers() {
    assert_same(
        "acl_api.rs",
        bindings::acl::TEXT,
        include_str!("../src/bindings/acl_api.rs"),
    );
    assert_same(
        "hccl_api.rs",
        bindings::hccl::TEXT,
        include_str!("../src/bindings/hccl_api.rs"),
    );
}
