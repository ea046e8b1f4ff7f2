//! Texts for the caller's memory.

use std::{ffi::c_char, ptr};

/// Writes as much of `text` as fits, and a NUL; and the length of all of it, without the NUL.
///
/// # Safety
/// `to` is null, or has room for `capacity` bytes; `length` is null or valid.
pub(crate) unsafe fn write(text: &str, to: *mut c_char, capacity: usize, length: *mut usize) {
    if !length.is_null() {
        // SAFETY: promised.
        unsafe { length.write(text.len()) };
    }
    if to.is_null() || capacity == 0 {
        return;
    }
    let fits = text.floor_char_boundary(capacity - 1);
    // SAFETY: promised; `fits` is at most the capacity without the NUL.
    unsafe {
        ptr::copy_nonoverlapping(text.as_ptr(), to.cast(), fits);
        to.add(fits).write(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written of "aé1", and the length reported.
    fn written(capacity: usize) -> (Vec<u8>, usize) {
        let (mut buffer, mut length) = ([b'#'; 8], 0);
        // SAFETY: the buffer is as large.
        unsafe { write("aé1", buffer.as_mut_ptr().cast(), capacity, &mut length) };
        let end = buffer.iter().position(|&byte| byte == b'#').unwrap();
        (buffer[..end].to_vec(), length)
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(written(0), (b"".to_vec(), 4));
        assert_eq!(written(1), (b"\0".to_vec(), 4));
        assert_eq!(written(3), (b"a\0".to_vec(), 4));
        assert_eq!(written(4), ("aé\0".into(), 4));
        assert_eq!(written(5), ("aé1\0".into(), 4));
        // SAFETY: nothing to write to.
        unsafe { write("text", ptr::null_mut(), 9, ptr::null_mut()) };
    }
}
