//! What bindgen makes of `include/*.h`: a struct of function pointers for each library, types, values.
//!
//! The files beside this one are a copy, for builds without CANN; with the feature `bindgen` the headers of
//! the installed CANN are used. A test says whether the two are the same.
#![allow(
    dead_code,
    missing_debug_implementations,
    missing_docs,
    non_snake_case,
    non_upper_case_globals,
    non_camel_case_types,
    unreachable_pub,
    unsafe_op_in_unsafe_fn,
    unused_qualifications,
    clippy::allow_attributes_without_reason,
    clippy::all,
    clippy::missing_safety_doc,
    clippy::undocumented_unsafe_blocks,
    clippy::semicolon_if_nothing_returned,
    reason = "generated"
)]

macro_rules! bindings {
    ($(#[$doc:meta])* $name:ident: $file:literal) => {
        $(#[$doc])*
        pub mod $name {
            /// As text, for the names of values.
            #[cfg(not(feature = "bindgen"))]
            pub const TEXT: &str = include_str!($file);
            #[cfg(feature = "bindgen")]
            pub const TEXT: &str = include_str!(concat!(env!("OUT_DIR"), "/", $file));

            #[cfg(not(feature = "bindgen"))]
            include!($file);
            #[cfg(feature = "bindgen")]
            include!(concat!(env!("OUT_DIR"), "/", $file));
        }
    };
}

bindings! {
    /// The runtime.
    acl: "acl_api.rs"
}
bindings! {
    /// The communication library.
    hccl: "hccl_api.rs"
}
