//! What a kernel did wrong, and where.

use crate::{launch::LaunchError, machine::Site};
use cuda_launch::Dim3;
use std::{any::Any, fmt};

/// The sort of mistake that a [`Fault`] reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// The launch was refused, before any thread ran.
    Refused(LaunchError),
    /// No thread can run, and some haven't ended.
    Deadlock,
    /// Threads poll, and nothing else happens.
    Livelock,
    /// Threads that must execute a collective instruction together are at different ones, or gone.
    Divergence,
    /// A barrier with the wrong number of threads, or too many arrivals.
    Barrier,
    /// An access beyond shared memory or a buffer of global memory.
    OutOfBounds,
    /// An access at an address that isn't a multiple of its size.
    Misaligned,
    /// A read of shared memory that nobody has written.
    Uninitialised,
    /// Two accesses to shared memory that no synchronisation orders.
    DataRace,
    /// An access to the shared memory of a block of the cluster that isn't there.
    Cluster,
    /// An instruction with operands that it doesn't allow.
    Instruction,
    /// An access through a raw pointer to memory that isn't there.
    IllegalAccess,
    /// A thread used up its stack.
    StackOverflow,
    /// The kernel panicked.
    Panic,
}

/// A place in the kernel's source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SourceLocation {
    /// The file's path, as the compiler knew it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1; 0 if unknown.
    pub column: u32,
}

impl From<Site> for SourceLocation {
    fn from(site: Site) -> Self {
        let (file, line, column) = (site.file().to_owned(), site.line(), site.column());
        SourceLocation { file, line, column }
    }
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        if self.column > 0 { write!(f, ":{}", self.column) } else { Ok(()) }
    }
}

/// A diagnosed error of a kernel or its launch.
#[derive(Clone)]
pub struct Fault(Box<Report>);

#[derive(Debug, Clone)]
pub(crate) struct Report {
    pub kernel: &'static str,
    pub seed: Option<u64>,
    pub kind: FaultKind,
    pub block: Option<Dim3>,
    pub thread: Option<Dim3>,
    pub location: Option<SourceLocation>,
    pub message: String,
}

impl Fault {
    pub(crate) fn new(report: Report) -> Fault {
        Fault(Box::new(report))
    }

    /// The sort of mistake.
    pub fn kind(&self) -> FaultKind {
        self.0.kind
    }

    /// The kernel's name.
    pub fn kernel(&self) -> &'static str {
        self.0.kernel
    }

    /// The block that did it; none if the launch was refused.
    pub fn block(&self) -> Option<Dim3> {
        self.0.block
    }

    /// The thread that did it; in a deadlock, the first that waits.
    pub fn thread(&self) -> Option<Dim3> {
        self.0.thread
    }

    /// Where in the kernel's source; none if the machine code has no debug information.
    pub fn location(&self) -> Option<&SourceLocation> {
        self.0.location.as_ref()
    }

    /// The seed of the schedule, if it was shuffled: with it the fault happens again.
    pub fn seed(&self) -> Option<u64> {
        self.0.seed
    }

    /// What was wrong, with the values.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { kernel, seed, block, thread, location, message, .. } = &*self.0;
        write!(f, "{kernel}: ")?;
        if let Some(block) = block {
            write!(f, "block {block}")?;
            if let Some(thread) = thread {
                write!(f, " thread {thread}")?;
            }
            if let Some(location) = location {
                write!(f, " at {location}")?;
            }
            if let Some(seed) = seed {
                write!(f, " (seed {seed})")?;
            }
            f.write_str(": ")?;
        }
        f.write_str(message)
    }
}

// The report as text, so that `unwrap` and `expect` print it and its seed.
impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Fault {}

/// A fault on its way from where it was noticed to the launch, which knows who ran.
pub(crate) struct Raised {
    pub kind: FaultKind,
    pub at: Option<Site>,
    /// The machine instruction, where there is no site.
    pub instruction: Option<usize>,
    pub message: String,
}

/// Ends the launch on behalf of the running thread. Unwinds without the panic hook's output: the
/// launch returns the fault as an error.
#[cold]
pub(crate) fn raise(raised: Raised) -> ! {
    std::panic::resume_unwind(Box::new(raised))
}

/// `fault!(at, Kind, "format", ..)`: see [`raise`].
macro_rules! fault {
    ($at:expr, $kind:ident, $($message:tt)*) => {
        $crate::fault::raise($crate::fault::Raised {
            kind: $crate::fault::FaultKind::$kind,
            at: Some($at),
            instruction: None,
            message: format!($($message)*),
        })
    };
}
pub(crate) use fault;

/// What has been raised, or the panic of the kernel itself.
pub(crate) fn catch(payload: Box<dyn Any + Send>) -> Raised {
    let payload = match payload.downcast::<Raised>() {
        Ok(raised) => return *raised,
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("of unknown cause");
    let message = format!("panic: {text}");
    Raised { kind: FaultKind::Panic, at: None, instruction: None, message }
}
