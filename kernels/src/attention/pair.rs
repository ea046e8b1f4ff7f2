//! Loads of what belongs to two neighbouring keys: one access where that may be.

use cuda_std::{Value, global};

/// Which of two neighbouring keys are to be loaded.
#[derive(Clone, Copy)]
pub struct Places {
    first: bool,
    second: bool,
}

impl Places {
    /// Those of `column` and the next that are in a range.
    #[inline(always)]
    pub fn of(column: i32, (first, end): (i32, i32)) -> Self {
        let within = |column: i32| column >= first && column < end;
        Places { first: within(column), second: within(column + 1) }
    }

    /// As one access of type P, if it may be, else as up to two.
    #[inline(always)]
    unsafe fn load<P: Value, T: Value>(
        self,
        from: *const T,
        at: i32,
        step: i32,
        nothing: (P, T),
    ) -> (P, T, T) {
        let from = from.wrapping_offset(at as isize);
        let next = from.wrapping_offset(step as isize);
        let aligned = (from as usize).is_multiple_of(size_of::<P>());
        let both = self.first && self.second && step == 1 && aligned;
        (
            global::load_cached_if(both, from.cast::<P>(), nothing.0),
            global::load_cached_if(self.first && !both, from, nothing.1),
            global::load_cached_if(self.second && !both, next, nothing.1),
        )
    }

    /// Two bytes, the first lowest, 0 where there is none. They are `at` and `at + step` bytes from
    /// `from`.
    ///
    /// # Safety
    /// Those to be loaded must be valid, and nobody may store there while the kernel runs.
    #[inline(always)]
    pub unsafe fn load_u8(self, from: *const u8, at: i32, step: i32) -> u32 {
        let (both, first, second) = self.load::<u16, u8>(from, at, step, (0, 0));
        both as u32 | first as u32 | (second as u32) << 8
    }

    /// The same of 16 bits each.
    ///
    /// # Safety
    /// As for [`Places::load_u8`]; elements are aligned.
    #[inline(always)]
    pub unsafe fn load_u16(self, from: *const u16, at: i32, step: i32) -> u32 {
        let (both, first, second) = self.load::<u32, u16>(from, at, step, (0, 0));
        both | first as u32 | (second as u32) << 16
    }

    /// The same of f32.
    ///
    /// # Safety
    /// As for [`Places::load_u16`].
    #[inline(always)]
    pub unsafe fn load_f32(self, from: *const f32, at: i32, step: i32) -> [f32; 2] {
        let (both, first, second) = self.load::<[u32; 2], f32>(from, at, step, ([0; 2], 0.0));
        let bits = [both[0] | first.to_bits(), both[1] | second.to_bits()];
        bits.map(f32::from_bits)
    }
}
