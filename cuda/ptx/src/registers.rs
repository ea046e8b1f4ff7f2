//! Register numbers as they compress well.
//!
//! In PTX every value has a register of its own, so two copies of the same code differ in every
//! number, and an unrolled loop never repeats itself. Counted back from the newest register, the
//! numbers repeat. A register is `%`, its class, and then
//!
//! - a byte of `0x80 + n`, n < 64: the n-th before the newest of the class,
//! - or the byte `0xc0`: the next after the newest, which it becomes,
//! - or its number in digits, as it stands in PTX.
//!
//! PTX is ASCII, so these bytes mean nothing else in it.

const BACK: u8 = 0x80;
const NEXT: u8 = 0xc0;

/// The newest register of each class.
#[derive(Default)]
struct Newest<'a>(Vec<(&'a [u8], u32)>);

impl<'a> Newest<'a> {
    fn of(&mut self, class: &'a [u8]) -> &mut u32 {
        let at = self.0.iter().position(|(known, _)| *known == class).unwrap_or_else(|| {
            self.0.push((class, 0));
            self.0.len() - 1
        });
        &mut self.0[at].1
    }
}

/// Cuts a text into what comes before a register's number, and the rest.
fn before_number(text: &[u8]) -> (&[u8], &[u8], &[u8]) {
    let percent = text.iter().position(|&byte| byte == b'%').unwrap_or(text.len());
    let (before, rest) = text.split_at(percent);
    let letters = rest.iter().skip(1).take_while(|byte| byte.is_ascii_lowercase()).count();
    let (class, rest) = rest.split_at(rest.len().min(1 + letters));
    (before, class, rest)
}

/// A number in digits without leading zeros at the start of a text, and the digits' count.
fn leading_number(text: &[u8]) -> Option<(u32, usize)> {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&text[..digits]).ok()?.parse().ok()?;
    (text[0] != b'0' || digits == 1).then_some((number, digits))
}

/// Replaces numbers by what they are counted from the newest; `None` unless the text is ASCII.
pub(crate) fn encode(mut text: &[u8]) -> Option<Vec<u8>> {
    if !text.is_ascii() {
        return None;
    }
    let mut newest = Newest::default();
    let mut encoded = Vec::with_capacity(text.len());
    while !text.is_empty() {
        let (before, class, rest) = before_number(text);
        encoded.extend_from_slice(before);
        encoded.extend_from_slice(class);
        text = rest;
        let Some((number, digits)) = leading_number(rest) else { continue };
        let newest = newest.of(class);
        match newest.checked_sub(number) {
            Some(back @ 0..64) => encoded.push(BACK + back as u8),
            None if number == *newest + 1 => encoded.push(NEXT),
            _ => encoded.extend_from_slice(&rest[..digits]),
        }
        *newest = number.max(*newest);
        text = &rest[digits..];
    }
    Some(encoded)
}

/// The text that was encoded; `None` if none gives these bytes.
pub(crate) fn decode(mut encoded: &[u8]) -> Option<Vec<u8>> {
    let mut newest = Newest::default();
    let mut text = Vec::with_capacity(encoded.len() * 3 / 2);
    while !encoded.is_empty() {
        let (before, class, rest) = before_number(encoded);
        text.extend_from_slice(before);
        text.extend_from_slice(class);
        encoded = rest;
        let (number, bytes) = match rest.first() {
            Some(&back @ BACK..NEXT) => (newest.of(class).checked_sub(u32::from(back - BACK))?, 1),
            Some(&NEXT) => (newest.of(class).checked_add(1)?, 1),
            _ => match leading_number(rest) {
                Some(number) => number,
                None => continue,
            },
        };
        let newest = newest.of(class);
        *newest = number.max(*newest);
        text.extend_from_slice(number.to_string().as_bytes());
        encoded = &rest[bytes..];
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_comes_back() {
        for text in [
            "",
            "%",
            "%r",
            "100%",
            "mov.b32 %r1, %r2;\nmov.b64 %rd1, %rd70; mov.b64 %rd2, %rd1; // %rd",
            "%r007 %r0 %r64 %r0 %r65 %r1 %r4294967295 %r1 %r99999999999 %r2",
            "mov.u32 %r3, %tid.x; mov.u64 %rd9, %clock64; mov.u32 %r4, %envreg12; %r<12>",
        ] {
            let encoded = encode(text.as_bytes()).unwrap();
            assert_eq!(decode(&encoded).as_deref(), Some(text.as_bytes()), "{text}");
        }
        assert_eq!(encode("é".as_bytes()), None);
    }

    #[test]
    fn copies_of_code_read_the_same() {
        let code =
            |n: u32| format!("mul %r{}, %r{n}, %r9;add %r{}, %r{}, %r{n};", n + 1, n + 2, n + 1);
        let two = encode((code(100) + &code(102)).as_bytes()).unwrap();
        let three = encode((code(100) + &code(102) + &code(104)).as_bytes()).unwrap();
        let copy = three.len() - two.len();
        assert_eq!(two[two.len() - copy..], three[two.len()..]);
    }

    #[test]
    fn bytes_that_encode_nothing_are_refused() {
        assert_eq!(decode(b"%r\x81"), None);
    }
}
