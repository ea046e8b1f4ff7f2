//! Global memory between inaccessible pages.

use crate::registry;
use std::{fmt, marker::PhantomData, ops, slice};

/// Where in its pages a [`Buffer`] lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Placement {
    /// Starts at a multiple of 256 bytes, as memory of a GPU does, and ends as near to the
    /// inaccessible page as that allows. Between the two, accesses through raw pointers go
    /// unnoticed, and only those of [`global`](crate::global) are checked.
    #[default]
    Aligned,
    /// Ends right at the inaccessible page, so that any access beyond is a fault, and starts
    /// wherever that leads: at a multiple of its element's size, no more.
    Guarded,
}

/// What uninitialised memory is filled with: NaN in every floating-point format.
const POISON: u8 = 0xff;

/// Global memory for `len` values.
///
/// Kernels get its address, and touch it through [`global`](crate::global), which knows where it
/// ends, or through raw pointers, for which there is an inaccessible page behind and one before.
/// Those may be written while others hold a `&Buffer`: reading it as a slice meanwhile is what a
/// launch's caller rules out, as for any other memory that a kernel writes.
pub struct Buffer<T> {
    memory: Memory,
    len: usize,
    values: PhantomData<T>,
}

// SAFETY: a buffer owns plain memory, and gives out only references to it that borrow the buffer.
unsafe impl<T: Send> Send for Buffer<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Buffer<T> {}

/// There is no memory for a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("out of memory for a buffer of {bytes} bytes")]
pub struct OutOfMemory {
    /// The size asked for.
    pub bytes: usize,
}

impl<T: Copy> Buffer<T> {
    /// A buffer with `values`.
    ///
    /// # Panics
    /// Out of memory.
    pub fn new(values: &[T], placement: Placement) -> Buffer<T> {
        // SAFETY: written before it can be read.
        let buffer: Buffer<T> = unsafe { Buffer::poisoned(values.len(), placement) };
        // SAFETY: there is room for as many.
        unsafe { buffer.as_mut_ptr().copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        buffer
    }

    /// A buffer for `len` values, of bytes 0xff: NaN in every floating-point format.
    ///
    /// # Safety
    /// Those bytes must be a value of `T`, or nothing may read them before something is written.
    ///
    /// # Panics
    /// Out of memory.
    pub unsafe fn poisoned(len: usize, placement: Placement) -> Buffer<T> {
        let memory = size_of::<T>()
            .checked_mul(len)
            .ok_or(OutOfMemory { bytes: usize::MAX })
            .and_then(|bytes| Memory::new(bytes, align_of::<T>(), placement));
        let memory = memory.unwrap_or_else(|error| panic!("{error}"));
        Buffer { memory, len, values: PhantomData }
    }
}

impl Buffer<u8> {
    /// A buffer of `len` bytes 0xff: storage for values of any sort. `align` (a power of two, at
    /// most 256) is what a guarded one's start is a multiple of at least; its end then keeps off
    /// the inaccessible page by less than that.
    ///
    /// # Errors
    /// Out of memory.
    pub fn bytes(len: usize, align: usize, placement: Placement) -> Result<Self, OutOfMemory> {
        let memory = Memory::new(len, align, placement)?;
        Ok(Buffer { memory, len, values: PhantomData })
    }
}

impl<T> Buffer<T> {
    /// The address of the first value.
    pub fn as_ptr(&self) -> *const T {
        self.memory.data.cast()
    }

    /// The address of the first value, for kernels that write there.
    pub fn as_mut_ptr(&self) -> *mut T {
        self.memory.data.cast()
    }
}

impl<T: Copy> From<&[T]> for Buffer<T> {
    fn from(values: &[T]) -> Self {
        Buffer::new(values, Placement::default())
    }
}

impl<T: Copy> From<Vec<T>> for Buffer<T> {
    fn from(values: Vec<T>) -> Self {
        Buffer::new(&values, Placement::default())
    }
}

impl<T> ops::Deref for Buffer<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the memory holds `len` values, or such bytes as are values.
        unsafe { slice::from_raw_parts(self.as_ptr(), self.len) }
    }
}

impl<T> ops::DerefMut for Buffer<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and borrowed uniquely.
        unsafe { slice::from_raw_parts_mut(self.as_mut_ptr(), self.len) }
    }
}

impl<T> fmt::Debug for Buffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} values at {:p})", self.len, self.as_ptr())
    }
}

/// Bytes on pages of their own, known to the registry.
struct Memory {
    pages: pages::Pages,
    data: *mut u8,
}

impl Memory {
    fn new(bytes: usize, align: usize, placement: Placement) -> Result<Memory, OutOfMemory> {
        let align = match placement {
            Placement::Aligned => 256,
            Placement::Guarded => align,
        };
        let room = bytes.checked_next_multiple_of(align).ok_or(OutOfMemory { bytes })?;
        let pages = pages::Pages::new(room).ok_or(OutOfMemory { bytes })?;
        // SAFETY: `room` bytes before the end belong to the pages.
        let data = unsafe { pages.end().sub(room) };
        // SAFETY: as above.
        unsafe { data.write_bytes(POISON, bytes) };
        registry::add(data as usize, bytes);
        Ok(Memory { pages, data })
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        registry::remove(self.data as usize);
        self.pages.free();
    }
}

#[cfg(unix)]
mod pages {
    use std::ptr;

    /// Accessible pages between two that aren't.
    pub(super) struct Pages {
        map: *mut u8,
        len: usize,
        guard: usize,
    }

    impl Pages {
        pub fn new(room: usize) -> Option<Pages> {
            // SAFETY: asks for a constant of the system.
            let guard = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
            let inner = room.checked_next_multiple_of(guard)?;
            let len = inner.checked_add(2 * guard)?;
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
            // SAFETY: a fresh mapping.
            let map = unsafe { libc::mmap(ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0) };
            if map == libc::MAP_FAILED {
                return None;
            }
            let mut pages = Pages { map: map.cast(), len, guard };
            let access = libc::PROT_READ | libc::PROT_WRITE;
            // SAFETY: the pages between the outer two.
            let failed =
                inner > 0 && unsafe { libc::mprotect(map.byte_add(guard), inner, access) } != 0;
            if failed {
                pages.free();
                return None;
            }
            Some(pages)
        }

        /// Where the accessible pages end.
        pub fn end(&self) -> *mut u8 {
            self.map.wrapping_add(self.len - self.guard)
        }

        pub fn free(&mut self) {
            // SAFETY: the mapping is ours, and nobody uses it any more.
            unsafe { libc::munmap(self.map.cast(), self.len) };
        }
    }
}

#[cfg(not(unix))]
mod pages {
    use std::alloc::{Layout, alloc, dealloc};

    /// Memory without guards.
    pub(super) struct Pages {
        start: *mut u8,
        layout: Layout,
    }

    impl Pages {
        pub fn new(room: usize) -> Option<Pages> {
            let layout = Layout::from_size_align(room.checked_next_multiple_of(256)?.max(256), 256);
            let layout = layout.ok()?;
            // SAFETY: the layout isn't empty.
            let start = unsafe { alloc(layout) };
            (!start.is_null()).then_some(Pages { start, layout })
        }

        pub fn end(&self) -> *mut u8 {
            self.start.wrapping_add(self.layout.size())
        }

        pub fn free(&mut self) {
            // SAFETY: allocated with this layout, and nobody uses it any more.
            unsafe { dealloc(self.start, self.layout) };
        }
    }
}
