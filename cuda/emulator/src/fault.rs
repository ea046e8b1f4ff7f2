//! What a kernel did wrong, and where.

use crate::block::Site;
use cuda_launch::Dim3;
use std::{any::Any, fmt};

/// A diagnosed error of the kernel under test.
#[derive(Debug, Clone)]
pub struct Fault {
    pub block: Dim3,
    pub thread: Option<Dim3>,
    pub at: Option<Site>,
    pub message: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "block {}", self.block)?;
        if let Some(thread) = self.thread {
            write!(f, " thread {thread}")?;
        }
        if let Some(at) = self.at {
            write!(f, " at {at}")?;
        }
        write!(f, ": {}", self.message)
    }
}

impl std::error::Error for Fault {}

/// A fault on its way from the running thread to the scheduler, which knows who that is.
pub(crate) struct Raised {
    pub at: Option<Site>,
    pub message: String,
}

/// Ends the launch on behalf of the running thread. Unwinds without the panic hook's output: the
/// launch returns the fault as an error.
#[cold]
pub(crate) fn raise(at: Option<Site>, message: String) -> ! {
    std::panic::resume_unwind(Box::new(Raised { at, message }))
}

/// `fault!(at, "format", ..)`: see [`raise`].
macro_rules! fault {
    ($at:expr, $($message:tt)*) => { $crate::fault::raise(Some($at), format!($($message)*)) };
}
pub(crate) use fault;

/// What has been raised, or the panic of the kernel itself.
pub(crate) fn catch(payload: Box<dyn Any + Send>) -> Raised {
    let payload = match payload.downcast::<Raised>() {
        Ok(raised) => return *raised,
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("unknown");
    Raised { at: None, message: format!("panic: {text}") }
}
