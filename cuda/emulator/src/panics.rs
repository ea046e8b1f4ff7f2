//! Where a kernel panicked.

use crate::{fault::SourceLocation, machine};
use std::{cell::RefCell, panic, sync::Once};

thread_local! {
    static LAST: RefCell<Option<SourceLocation>> = const { RefCell::new(None) };
}

/// From now on a kernel's panic isn't printed, since its launch reports it, with its place.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        return;
    }
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| match machine::is_running() {
            true => LAST.set(info.location().map(|location| SourceLocation {
                file: location.file().to_owned(),
                line: location.line(),
                column: location.column(),
            })),
            false => previous(info),
        }));
    });
}

/// Where the last panic on this OS thread was.
pub(crate) fn last_location() -> Option<SourceLocation> {
    LAST.take()
}
