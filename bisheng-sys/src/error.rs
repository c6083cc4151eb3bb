//! What calls of CANN fail with.

use std::ffi::{CStr, c_char};

use crate::bindings::{acl, hccl};
use crate::library::{Cann, LoadError};

/// A call of CANN that failed, or can't be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CannError {
    /// A library is missing.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The libraries are there, but lack a function.
    #[error(
        "{function} is in none of CANN's libraries: this version of CANN is not supported ({reason})"
    )]
    MissingFunction {
        /// The function.
        function: &'static str,
        /// The loader's words.
        reason: String,
    },
    /// A call returned an error.
    #[error("{function} failed with {code} ({name}){}", colon(.message))]
    Call {
        /// The function.
        function: &'static str,
        /// What it returned.
        code: i64,
        /// Name of that value in CANN's headers.
        name: &'static str,
        /// What CANN says to it.
        message: String,
    },
    /// A call succeeded, but its answer makes no sense.
    #[error("{function} succeeded, but {what}")]
    Answer {
        /// The function.
        function: &'static str,
        /// What is wrong with the answer.
        what: String,
    },
    /// Bytes outside of device memory.
    #[error("bytes {offset}..+{len} of device memory of {size}")]
    Range {
        /// First byte.
        offset: u64,
        /// Bytes.
        len: u64,
        /// Bytes that there are.
        size: u64,
    },
}

fn colon(message: &str) -> String {
    if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    }
}

impl CannError {
    /// Whether a wait ended because its time was over.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        let timeout = i64::from(acl::ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        matches!(self, Self::Call { code, .. } if *code == timeout)
    }

    pub(crate) fn answer(function: &'static str, what: impl Into<String>) -> Self {
        Self::Answer {
            function,
            what: what.into(),
        }
    }
}

/// Name of a value in generated bindings: the constant of this prefix that has it.
fn name_of(bindings: &'static str, prefix: &str, code: i64) -> &'static str {
    let mut constants = bindings.lines().filter_map(|line| {
        let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
        let value = rest.split_once("= ")?.1.strip_suffix(';')?;
        (name.starts_with(prefix) && value.parse() == Ok(code)).then_some(name)
    });
    constants
        .next_back()
        .unwrap_or("a code that CANN's headers do not name")
}

/// A text that CANN owns, on one line.
///
/// # Safety
/// `text` is null or a string that ends with 0 and stays as it is during the call.
unsafe fn text_of(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: as the caller promises.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Cann {
    /// An error out of what a function of the runtime returned.
    pub(crate) fn acl_result(&self, function: &'static str, code: i32) -> Result<(), CannError> {
        if code == acl::ACL_SUCCESS {
            return Ok(());
        }
        let message = self.acl().aclGetRecentErrMsg.as_ref().map_or_else(
            |_| String::new(),
            // SAFETY: it takes nothing; its text belongs to this thread until the thread's next call.
            |recent| unsafe { text_of(recent()) },
        );
        Err(CannError::Call {
            function,
            code: code.into(),
            name: name_of(acl::TEXT, "ACL_ERROR_", code.into()),
            message,
        })
    }

    /// The same for a function of HCCL.
    pub(crate) fn hccl_result(&self, function: &'static str, code: u32) -> Result<(), CannError> {
        if code == hccl::HCCL_SUCCESS {
            return Ok(());
        }
        let describe = self
            .hccl()
            .iter()
            .find_map(|api| api.HcclGetErrorString.as_ref().ok());
        let message = describe.map_or_else(String::new, |describe| {
            // SAFETY: it answers a constant text to any code.
            unsafe { text_of(describe(code)) }
        });
        Err(CannError::Call {
            function,
            code: code.into(),
            name: name_of(hccl::TEXT, "HCCL_E_", code.into()),
            message,
        })
    }
}

/// Calls a function of the runtime that answers an `aclError`. For use in `unsafe`, whose argument says why what the
/// function takes is valid.
macro_rules! call_acl {
    ($cann:expr, $function:ident($($argument:expr),*)) => {
        match &$cann.acl().$function {
            Ok(function) => $cann.acl_result(stringify!($function), function($($argument),*)),
            Err(error) => Err($crate::CannError::MissingFunction {
                function: stringify!($function),
                reason: error.to_string(),
            }),
        }
    };
}

/// The same for a function of HCCL, out of whichever library has it.
macro_rules! call_hccl {
    ($cann:expr, $function:ident($($argument:expr),*)) => {
        match $cann.hccl().iter().find_map(|api| api.$function.as_ref().ok()) {
            Some(function) => $cann.hccl_result(stringify!($function), function($($argument),*)),
            None => Err(match $cann.no_hccl() {
                Some(error) => error.clone().into(),
                None => $crate::CannError::MissingFunction {
                    function: stringify!($function),
                    reason: "neither library of HCCL has it".to_owned(),
                },
            }),
        }
    };
}

pub(crate) use {call_acl, call_hccl};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_names_of_the_headers() {
        assert_eq!(
            name_of(acl::TEXT, "ACL_ERROR_", 207_001),
            "ACL_ERROR_RT_MEMORY_ALLOCATION"
        );
        assert_eq!(
            name_of(acl::TEXT, "ACL_ERROR_", 507_046),
            "ACL_ERROR_RT_STREAM_SYNC_TIMEOUT"
        );
        assert_eq!(name_of(hccl::TEXT, "HCCL_E_", 9), "HCCL_E_TIMEOUT");
        assert!(name_of(acl::TEXT, "ACL_ERROR_", 1).contains("do not name"));
    }
}
