//! Bytes of words.

/// Four bytes picked from the eight of `low` and `high`. Each hexadecimal digit of `SELECTOR`, the
/// lowest for the lowest byte, picks byte `digit & 7`; from 8 on its top bit, eight times over.
#[inline(always)]
pub fn permute<const SELECTOR: u32>(low: u32, high: u32) -> u32 {
    const { assert!(SELECTOR <= 0xffff, "four digits") };
    dual! {
        ptx: {
            let permuted: u32;
            // SAFETY: arithmetic on registers.
            unsafe {
                core::arch::asm!(
                    "prmt.b32 {}, {}, {}, {};",
                    out(reg32) permuted, in(reg32) low, in(reg32) high, const SELECTOR,
                    options(pure, nomem, nostack),
                );
            }
            permuted
        },
        emulator: picked(low, high, SELECTOR),
    }
}

/// [`permute`] by a selector in a register, whose upper half does not count.
#[inline(always)]
pub fn permute_by(low: u32, high: u32, selector: u32) -> u32 {
    dual! {
        ptx: {
            let permuted: u32;
            // SAFETY: arithmetic on registers.
            unsafe {
                core::arch::asm!(
                    "prmt.b32 {}, {}, {}, {};",
                    out(reg32) permuted, in(reg32) low, in(reg32) high, in(reg32) selector,
                    options(pure, nomem, nostack),
                );
            }
            permuted
        },
        emulator: picked(low, high, selector),
    }
}

#[cfg(all(not(target_arch = "nvptx64"), feature = "emulator"))]
fn picked(low: u32, high: u32, selector: u32) -> u32 {
    let bytes = low as u64 | (high as u64) << 32;
    let pick = |digit: u32| {
        let byte = (bytes >> (8 * (digit & 7))) as u8;
        if digit < 8 { byte } else { ((byte as i8) >> 7) as u8 }
    };
    u32::from_le_bytes([0, 4, 8, 12].map(|shift| pick(selector >> shift & 15)))
}
