//! Output from kernels, for debugging: [`println!`](crate::println).

use core::fmt::Display;

/// Prints a line to standard output, from a kernel, after the block's and the thread's index:
/// `println!("maximum {}, sum {}", maximum, sum)`.
///
/// Up to four numbers of the types u32, i32, u64, f32 and f64 stand in for `{}`, the only
/// placeholder. On the device this is `vprintf`: floats have six digits, and lines appear, in any
/// order, when the host next synchronises. It puts text, a call and a stack into the kernel:
/// kernels to be shipped do not build with it.
#[macro_export]
macro_rules! println {
    ($format:literal $(, $number:expr)* $(,)?) => {{
        struct Line;
        impl $crate::print::Format for Line {
            const TEXT: &'static str = $format;
        }
        $crate::print::line::<Line, _>(($($number,)*))
    }};
}

/// A line's text, with a `{}` for each number.
pub trait Format {
    /// The text.
    const TEXT: &'static str;
}

/// What can be printed.
pub trait Number: Copy + Display {
    /// What C's printf calls it, widened to 64 bits.
    const CONVERSION: &'static str;
    /// It, widened to 64 bits.
    fn to_word(self) -> u64;
}

macro_rules! numbers {
    ($($T:ty: $conversion:literal, $to_word:expr;)*) => {$(
        impl Number for $T {
            const CONVERSION: &'static str = $conversion;
            #[inline(always)]
            fn to_word(self) -> u64 {
                let to_word: fn($T) -> u64 = $to_word;
                to_word(self)
            }
        }
    )*};
}

numbers! {
    u32: "%llu", |x| x as u64;
    i32: "%lld", |x| x as i64 as u64;
    u64: "%llu", |x| x;
    f32: "%g", |x| (x as f64).to_bits();
    f64: "%g", f64::to_bits;
}

/// Up to four of them, as a tuple.
pub trait Numbers: Copy {
    /// The conversion of each.
    const CONVERSIONS: &'static [&'static str];
    /// Each, widened to 64 bits.
    fn to_words(self) -> [u64; 4];
    /// Calls `f` with each.
    fn for_each(&self, f: impl FnMut(&dyn Display));
}

macro_rules! tuples {
    ($(($($T:ident $i:tt),*), [$($zero:literal),*];)*) => {$(
        impl<$($T: Number),*> Numbers for ($($T,)*) {
            const CONVERSIONS: &'static [&'static str] = &[$($T::CONVERSION),*];
            #[inline(always)]
            fn to_words(self) -> [u64; 4] {
                [$(self.$i.to_word(),)* $($zero),*]
            }
            #[allow(unused_mut, unused_variables)]
            fn for_each(&self, mut f: impl FnMut(&dyn Display)) {
                $(f(&self.$i);)*
            }
        }
    )*};
}

tuples! {
    (), [0, 0, 0, 0];
    (A 0), [0, 0, 0];
    (A 0, B 1), [0, 0];
    (A 0, B 1, C 2), [0];
    (A 0, B 1, C 2, D 3), [];
}

/// What [`println!`](crate::println) expands to.
#[inline(always)]
pub fn line<F: Format, N: Numbers>(numbers: N) {
    const { assert!(placeholders(F::TEXT) == N::CONVERSIONS.len(), "one `{{}}` for each number") };
    dual! {
        ptx: device::line::<F, N>(numbers),
        emulator: {
            let mut pieces = F::TEXT.split("{}");
            let mut text = std::string::String::from(pieces.next().unwrap_or_default());
            numbers.for_each(|number| {
                text += &std::string::ToString::to_string(number);
                text += pieces.next().unwrap_or_default();
            });
            let (block, thread) = (cuda_emulator::thread::block_idx(), cuda_emulator::thread::thread_idx());
            cuda_emulator::print::print(format_args!("block {block} thread {thread}: {text}\n"));
        },
    }
}

const fn placeholders(text: &str) -> usize {
    let (text, mut i, mut count) = (text.as_bytes(), 0, 0);
    while i < text.len() {
        assert!(text[i] != b'}' || i > 0 && text[i - 1] == b'{', "`{{}}` is the only placeholder");
        if text[i] == b'{' {
            assert!(i + 1 < text.len() && text[i + 1] == b'}', "`{{}}` is the only placeholder");
            count += 1;
        }
        i += 1;
    }
    count
}

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::{Format, Numbers};
    use crate::thread::*;
    use core::marker::PhantomData;

    unsafe extern "C" {
        /// The driver's: a format of C, and the arguments, each aligned to its size.
        fn vprintf(format: *const u8, arguments: *const u64) -> i32;
    }

    const PREFIX: &[u8] = b"block (%llu, %llu, %llu) thread (%llu, %llu, %llu): ";

    /// The most bytes of a line's format, with the prefix and the final zero.
    const CAPACITY: usize = 256;

    struct Line<F, N>(PhantomData<(F, N)>);

    impl<F: Format, N: Numbers> Line<F, N> {
        const FORMAT: &'static [u8; CAPACITY] = &{
            let (text, mut to, mut end) = (F::TEXT.as_bytes(), [0; CAPACITY], 0);
            (to, end) = append(to, end, PREFIX);
            let (mut i, mut number) = (0, 0);
            while i < text.len() {
                if text[i] == b'{' {
                    (to, end) = append(to, end, N::CONVERSIONS[number].as_bytes());
                    number += 1;
                    i += 1;
                } else if text[i] == b'%' {
                    (to, end) = append(to, end, b"%%");
                } else {
                    (to, end) = append(to, end, &[text[i]]);
                }
                i += 1;
            }
            append(to, end, b"\n").0
        };
    }

    const fn append(
        mut to: [u8; CAPACITY],
        mut end: usize,
        text: &[u8],
    ) -> ([u8; CAPACITY], usize) {
        let mut i = 0;
        while i < text.len() {
            assert!(end + 1 < CAPACITY, "the line is too long to print");
            to[end] = text[i];
            end += 1;
            i += 1;
        }
        (to, end)
    }

    #[inline(always)]
    pub fn line<F: Format, N: Numbers>(numbers: N) {
        let [a, b, c, d] = numbers.to_words();
        let block = [block_idx_x() as u64, block_idx_y() as u64, block_idx_z() as u64];
        let thread = [thread_idx_x() as u64, thread_idx_y() as u64, thread_idx_z() as u64];
        let [x, y, z] = block;
        let [u, v, w] = thread;
        let arguments = [x, y, z, u, v, w, a, b, c, d];
        // SAFETY: as many arguments as the format has conversions, each of 64 bits.
        unsafe { vprintf(Line::<F, N>::FORMAT.as_ptr(), arguments.as_ptr()) };
    }
}
