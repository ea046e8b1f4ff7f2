//! What is told of several rounds.

/// The median of several values, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The value in the middle; of an even number the upper one of two.
    pub median: f64,
    /// The least.
    pub least: f64,
    /// The largest.
    pub most: f64,
}

impl Spread {
    /// Of these values; None without any.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let (&least, &most) = (sorted.first()?, sorted.last()?);
        Some(Spread { median: sorted[sorted.len() / 2], least, most })
    }
}

/// The median; of an even number of values the upper one in the middle.
///
/// # Panics
/// There are no values.
pub fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).expect("values").median
}

/// The geometric mean; None without values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logarithms / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_value_and_the_ends() {
        let spread = Spread::of([3.0, 1.0, 2.0, 9.0]).unwrap();
        assert_eq!(spread, Spread { median: 3.0, least: 1.0, most: 9.0 });
        assert_eq!(Spread::of([]), None);
        assert_eq!(median(&[5.0, 4.0, 6.0]), 5.0);
    }

    #[test]
    fn factors_average_by_their_product() {
        assert!((geometric_mean(&[0.5, 2.0, 8.0]).unwrap() - 2.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
