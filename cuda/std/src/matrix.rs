//! Matrices of 8 x 8 elements of 16 bits, between shared memory and a warp's registers. From sm_75;
//! stores from sm_90.
//!
//! A matrix in shared memory is 8 rows of 16 bytes, each aligned to 16 and anywhere. Lane `8 i + r`
//! gives the address of row `r` of matrix `i`; the addresses of lanes from `8 N` on do not count.
//!
//! In registers, lane `l` holds in its `i`-th word, the first in the low half,
//! - row `l / 4`, columns `2 (l % 4)` and `2 (l % 4) + 1` of matrix `i`;
//! - transposed: rows `2 (l % 4)` and `2 (l % 4) + 1`, column `l / 4`.
//!
//! Any 16 bytes will do for a row: four f32 are a row of eight halves, of which a lane gets the
//! `l % 4`-th in one word.

macro_rules! loads {
    ($(
        $(#[$doc:meta])*
        $name:ident -> $count:literal, $transposed:literal, $code:literal, $registers:literal,
        [$($part:ident)+];
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Convergent: the whole warp. Each row's address is aligned to 16 and inside of shared
        /// memory, and what was stored there is ordered before this load (by a barrier, if another
        /// thread stored it).
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(row: u32) -> [u32; $count] {
            dual! {
                ptx: {
                    $(let $part: u32;)+
                    core::arch::asm!(
                        concat!(
                            "ldmatrix.sync.aligned.m8n8.", $code, ".shared.b16 ", $registers,
                            ", [{row}];",
                        ),
                        $($part = out(reg32) $part,)+
                        row = in(reg32) row,
                        options(readonly, nostack),
                    );
                    [$($part),+]
                },
                emulator: cuda_emulator::mma::ldmatrix($transposed, row),
            }
        }
    )*};
}

loads! {
    /// Loads a matrix (`ldmatrix.x1`).
    load_1 -> 1, false, "x1", "{{{a}}}", [a];
    /// Loads two matrices (`ldmatrix.x2`).
    load_2 -> 2, false, "x2", "{{{a}, {b}}}", [a b];
    /// Loads four matrices (`ldmatrix.x4`).
    load_4 -> 4, false, "x4", "{{{a}, {b}, {c}, {d}}}", [a b c d];
    /// Loads a matrix transposed (`ldmatrix.x1.trans`).
    load_1_transposed -> 1, true, "x1.trans", "{{{a}}}", [a];
    /// Loads two matrices transposed (`ldmatrix.x2.trans`).
    load_2_transposed -> 2, true, "x2.trans", "{{{a}, {b}}}", [a b];
    /// Loads four matrices transposed (`ldmatrix.x4.trans`).
    load_4_transposed -> 4, true, "x4.trans", "{{{a}, {b}, {c}, {d}}}", [a b c d];
}

macro_rules! stores {
    ($(
        $(#[$doc:meta])*
        $name:ident($count:literal), $transposed:literal, $code:literal, $registers:literal,
        [$($part:ident)+];
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Convergent: the whole warp. Each row's address is aligned to 16 and inside of shared
        /// memory, and accesses of other threads to it are ordered before or after this store by a
        /// barrier. From sm_90.
        #[inline(always)]
        #[track_caller]
        pub unsafe fn $name(row: u32, words: [u32; $count]) {
            dual! {
                ptx: {
                    let [$($part),+] = words;
                    core::arch::asm!(
                        concat!(
                            "stmatrix.sync.aligned.m8n8.", $code, ".shared.b16 [{row}], ",
                            $registers, ";",
                        ),
                        $($part = in(reg32) $part,)+
                        row = in(reg32) row,
                        options(nostack),
                    );
                },
                emulator: cuda_emulator::mma::stmatrix($transposed, row, words),
            }
        }
    )*};
}

stores! {
    /// Stores a matrix (`stmatrix.x1`).
    store_1(1), false, "x1", "{{{a}}}", [a];
    /// Stores two matrices (`stmatrix.x2`).
    store_2(2), false, "x2", "{{{a}, {b}}}", [a b];
    /// Stores four matrices (`stmatrix.x4`).
    store_4(4), false, "x4", "{{{a}, {b}, {c}, {d}}}", [a b c d];
    /// Stores a matrix that is held transposed (`stmatrix.x1.trans`).
    store_1_transposed(1), true, "x1.trans", "{{{a}}}", [a];
    /// Stores two matrices that are held transposed (`stmatrix.x2.trans`).
    store_2_transposed(2), true, "x2.trans", "{{{a}, {b}}}", [a b];
    /// Stores four matrices that are held transposed (`stmatrix.x4.trans`).
    store_4_transposed(4), true, "x4.trans", "{{{a}, {b}, {c}, {d}}}", [a b c d];
}
