//! What every function of the interface does around its work: no panic leaves it, and what failed
//! is kept for `fa_last_error_message`.

use crate::status::{self, Failure, fa_status};
use std::{
    any::Any,
    cell::RefCell,
    ffi::{CString, c_char},
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    static LAST_MESSAGE: RefCell<CString> = RefCell::default();
}

/// Runs a function's work. Its own data is at most half written after a panic, and only the
/// library's shared state outlives it, whose locks are recovered.
pub(crate) fn guard(work: impl FnOnce() -> Result<(), Failure>) -> fa_status {
    let result = catch_unwind(AssertUnwindSafe(work));
    let failure = match result {
        Ok(Ok(())) => return fa_status::Success,
        Ok(Err(failure)) => failure,
        Err(payload) => Failure::new(fa_status::Panic, format!("panicked: {}", said(&*payload))),
    };
    keep(failure.message);
    failure.status
}

/// What a panic said.
fn said(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

fn keep(message: String) {
    let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
    // A thread that ends may have lost its variables already; then nobody reads the message.
    let _ = LAST_MESSAGE.try_with(|last| last.replace(message));
}

/// What the last call that failed on this thread was refused for, or failed of; empty if none
/// has. Valid until the next call on this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn fa_last_error_message() -> *const c_char {
    LAST_MESSAGE.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// The name of an fa_status; that of FA_STATUS_OTHER for a number that is none.
#[unsafe(no_mangle)]
pub extern "C" fn fa_status_name(status: i32) -> *const c_char {
    status::name(status).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    fn last() -> String {
        // SAFETY: a string that is valid until the next failure on this thread.
        unsafe { CStr::from_ptr(fa_last_error_message()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_panic_becomes_a_status() {
        let panics: [fn(); 3] = [
            || panic!("a constant"),
            || panic!("a number: {}", last().len()),
            || std::panic::panic_any(7),
        ];
        let expected = ["panicked: a constant", "panicked: a number: 20", "panicked: no message"];
        for (panics, expected) in panics.into_iter().zip(expected) {
            let status = guard(|| {
                panics();
                Ok(())
            });
            assert_eq!((status, last().as_str()), (fa_status::Panic, expected));
        }
    }

    #[test]
    fn the_last_failure_is_kept_for_each_thread() {
        assert_eq!(last(), "");
        let failure = || Err(Failure::new(fa_status::Other, "a\0b"));
        assert_eq!((guard(failure), last().as_str()), (fa_status::Other, "a b"));
        assert_eq!((guard(|| Ok(())), last().as_str()), (fa_status::Success, "a b"));
        assert_eq!(std::thread::spawn(last).join().unwrap(), "");
    }
}
