//! The sums of tensor cores, which are less exact than those of f32 arithmetic.
//!
//! NVIDIA does not say how its tensor cores add up. Experiments do: Fasi and others, "Numerical
//! behavior of NVIDIA tensor cores" (PeerJ Computer Science 7:e330, 2021); Xie and others, "MMA-Sim"
//! (arXiv 2511.10909, 2025); Khattak and Mikaitis, "Accurate models of NVIDIA tensor cores" (arXiv
//! 2512.07004, 2025). A few products, which are exact, and what is summed so far are aligned to the
//! largest of them, lose what lies beyond a few bits of an f32's fraction, and are added exactly;
//! the sum is truncated to an f32. Nothing is rounded to nearest.

/// Columns that are computed together.
pub(crate) const LANES: usize = 8;

/// A tensor core's adder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Adder {
    /// Products added in one go, at most [`MOST_TERMS`].
    terms: usize,
    /// Bits kept after the leading one of the largest term; an f32 has 23.
    fraction_bits: u32,
}

const MOST_TERMS: usize = 16;

impl Adder {
    /// Of factors of 16 bits, on Hopper.
    pub const OF_16_BITS: Adder = Adder { terms: 16, fraction_bits: 25 };
    /// Of factors of tf32, on Hopper.
    pub const OF_TF32: Adder = Adder { terms: 8, fraction_bits: 25 };

    /// Adds to `sums` the products of a row with a matrix of as many rows.
    pub fn add_products(self, sums: &mut [f32; LANES], left: &[f32], right: &[[f32; LANES]]) {
        for (left, right) in left.chunks(self.terms).zip(right.chunks(self.terms)) {
            self.add_block(sums, left, right);
        }
    }

    fn add_block(self, sums: &mut [f32; LANES], left: &[f32], right: &[[f32; LANES]]) {
        let mut products = [[0f64; LANES]; MOST_TERMS];
        let products = &mut products[..left.len()];
        let start = sums.map(f64::from);
        let mut largest = start.map(leading);
        // Only tells whether all terms are finite.
        let mut plain = start;
        for ((x, line), products) in left.iter().zip(right).zip(&mut *products) {
            let x = f64::from(*x);
            for (j, product) in products.iter_mut().enumerate() {
                let y = f64::from(line[j]);
                *product = x * y;
                // A product is not normalised: its exponent is the sum of its factors'.
                let size = leading(x) * leading(y);
                largest[j] = if size > largest[j] { size } else { largest[j] };
                plain[j] += *product;
            }
        }
        // The largest term's exponent, biased; not so low that a power of two below has none.
        let exponent = largest.map(|size| (size.max(LEAST).to_bits() >> 52) as u32);
        let scale = exponent.map(|e| power(2 * BIAS + self.fraction_bits - e));
        // Terms are whole numbers below 2^27.
        let mut total = [0f64; LANES];
        for terms in [start].iter().chain(&*products) {
            for (j, total) in total.iter_mut().enumerate() {
                *total += f64::from((terms[j] * scale[j]) as i32);
            }
        }
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = match plain[j].is_finite() {
                true => truncate(total[j] * power(exponent[j] - self.fraction_bits)),
                false => plain[j] as f32,
            };
        }
    }
}

const BIAS: u32 = 1023;

/// Below the product of any two f32.
const LEAST: f64 = power(BIAS - 400);

/// The power of two of this biased exponent.
const fn power(exponent: u32) -> f64 {
    f64::from_bits((exponent as u64) << 52)
}

/// The power of two that a number begins with.
fn leading(x: f64) -> f64 {
    f64::from_bits(x.to_bits() & 0x7ff << 52)
}

/// Rounded towards zero to an f32.
fn truncate(x: f64) -> f32 {
    const FRACTION: u64 = (1 << (52 - 23)) - 1;
    // The f32 below the least normal one are multiples of this one.
    const LEAST_SUBNORMAL: f64 = power(BIAS - 149);
    match x.abs() < f64::from(f32::MIN_POSITIVE) {
        true => ((x / LEAST_SUBNORMAL).trunc() * LEAST_SUBNORMAL) as f32,
        false => f64::from_bits(x.to_bits() & !FRACTION) as f32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// c plus the products of 1 and the given terms.
    fn sum(adder: Adder, c: f32, terms: &[f32]) -> f32 {
        let right: Vec<_> = terms.iter().map(|term| [*term; LANES]).collect();
        let mut sums = [c; LANES];
        adder.add_products(&mut sums, &vec![1.; terms.len()], &right);
        assert!(sums.iter().all(|sum| sum.to_bits() == sums[0].to_bits()));
        sums[0]
    }

    fn power_of_two(exponent: i32) -> f32 {
        2f32.powi(exponent)
    }

    #[test]
    fn what_an_f32_holds_is_exact() {
        assert_eq!(sum(Adder::OF_16_BITS, 3., &[1., -2.5, 1024., 0.125]), 1025.625);
        assert_eq!(sum(Adder::OF_16_BITS, 0., &[0.; 16]).to_bits(), 0);
        let tiny = power_of_two(-149);
        assert_eq!(sum(Adder::OF_TF32, tiny, &[tiny, -3. * tiny]), -tiny);
        let large = power_of_two(127);
        assert_eq!(sum(Adder::OF_TF32, large, &[large, -large, -large]), 0.);
        assert_eq!(sum(Adder::OF_TF32, large, &[large]), f32::INFINITY);
    }

    #[test]
    fn sums_are_truncated() {
        // A sum that f32 arithmetic rounds away from zero.
        let (unit, most) = (power_of_two(-23), 0.75 * power_of_two(-23));
        for sign in [1., -1.] {
            assert_eq!(sign + sign * most, sign * (1. + unit));
            assert_eq!(sum(Adder::OF_16_BITS, sign, &[sign * most]), sign);
        }
        // Half of the least subnormal number.
        let mut sums = [power_of_two(-149); LANES];
        Adder::OF_16_BITS.add_products(&mut sums, &[0.5], &[[power_of_two(-149); LANES]]);
        assert_eq!(sums, [power_of_two(-149); LANES]);
    }

    #[test]
    fn terms_lose_what_lies_far_below_the_largest() {
        // Eight terms that together would change the sum, and each alone is too small.
        let terms = |exponent| vec![power_of_two(exponent); 8];
        for adder in [Adder::OF_16_BITS, Adder::OF_TF32] {
            assert_eq!(sum(adder, 1., &terms(-25)), 1. + power_of_two(-22));
            assert_eq!(sum(adder, 1., &terms(-26)), 1.);
        }
        // In two goes, of which the first makes the sum small.
        let mut cancelling = [0.; 9];
        (cancelling[0], cancelling[8]) = (-1., power_of_two(-26));
        assert_eq!(sum(Adder::OF_TF32, 1., &cancelling), power_of_two(-26));
        assert_eq!(sum(Adder::OF_16_BITS, 1., &cancelling), 0.);
    }

    #[test]
    fn products_are_not_normalised() {
        // 1.5 * 1.5 is more than 2, but aligned as a number from 1 to 2.
        let c = power_of_two(-24);
        let mut sums = [c; LANES];
        Adder::OF_16_BITS.add_products(&mut sums, &[1.5, 1.5], &[[1.5; LANES], [-1.5; LANES]]);
        assert_eq!(sums, [c; LANES]);
        let mut sums = [0.5 * c; LANES];
        Adder::OF_16_BITS.add_products(&mut sums, &[1.5, 1.5], &[[1.5; LANES], [-1.5; LANES]]);
        assert_eq!(sums, [0.5 * c; LANES]);
        let mut sums = [0.25 * c; LANES];
        Adder::OF_16_BITS.add_products(&mut sums, &[1.5, 1.5], &[[1.5; LANES], [-1.5; LANES]]);
        assert_eq!(sums, [0.; LANES]);
    }

    #[test]
    fn what_is_not_finite_spreads() {
        assert_eq!(sum(Adder::OF_16_BITS, 1., &[f32::INFINITY, 1.]), f32::INFINITY);
        assert!(sum(Adder::OF_16_BITS, f32::INFINITY, &[f32::NEG_INFINITY]).is_nan());
        assert!(sum(Adder::OF_16_BITS, 1., &[f32::NAN]).is_nan());
        let mut sums = [0.; LANES];
        let right = [[0., 1., f32::NAN, 3., 4., 5., 6., 7.]];
        Adder::OF_16_BITS.add_products(&mut sums, &[2.], &right);
        assert!(sums[2].is_nan());
        assert_eq!((sums[1], sums[3]), (2., 6.));
    }
}
