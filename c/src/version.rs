//! Which version of the library this is.

use std::ffi::{CStr, c_char};

/// The version of this header.
pub const FA_VERSION_MAJOR: u32 = 0;
/// The version of this header.
pub const FA_VERSION_MINOR: u32 = 1;
/// The version of this header.
pub const FA_VERSION_PATCH: u32 = 0;

static TEXT: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(text) => text,
        Err(_) => panic!("no NUL in a version"),
    };

/// The version of the library, such as "0.1.0"; that of the header may differ.
#[unsafe(no_mangle)]
pub extern "C" fn fa_version() -> *const c_char {
    TEXT.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_the_package_s_version() {
        let header = format!("{FA_VERSION_MAJOR}.{FA_VERSION_MINOR}.{FA_VERSION_PATCH}");
        assert_eq!(header, TEXT.to_str().unwrap());
    }
}
