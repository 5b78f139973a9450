//! Statistics of a few runs: means and ratios with confidence intervals (Student's t), quantiles, linear
//! regression.
//!
//! Every interval is at 90 %, as in the papers.

use std::fmt;

use braidftp_sim::Random;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// The confidence level of all intervals.
pub const CONFIDENCE: f64 = 0.90;

/// A number with its confidence interval at [`CONFIDENCE`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number.
    pub mean: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The number of runs.
    pub runs: usize,
}

impl Estimate {
    /// A number known exactly.
    pub fn exact(value: f64, runs: usize) -> Self {
        Self { mean: value, low: value, high: value, runs }
    }

    /// The half-width of the interval as a fraction of the number.
    pub fn relative(&self) -> f64 {
        let half = (self.high - self.low) / 2.0;
        if half == 0.0 { 0.0 } else { half / self.mean.abs() }
    }

    /// Whether the whole interval is above a bound.
    pub fn is_above(&self, bound: f64) -> bool {
        self.low > bound
    }

    /// Whether the whole interval is below a bound.
    pub fn is_below(&self, bound: f64) -> bool {
        self.high < bound
    }

    fn around(mean: f64, half: f64, runs: usize) -> Self {
        Self { mean, low: mean - half, high: mean + half, runs }
    }
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = if self.low == self.high {
            short(self.mean)
        } else {
            format!("{} [{}, {}]", short(self.mean), short(self.low), short(self.high))
        };
        f.pad(&text)
    }
}

/// A number of things with their name, as in `1 run` and `20 runs`.
pub fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}

/// Formats a number with three significant digits.
pub fn short(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits = 2 - value.abs().log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 6) as usize)
}

/// Returns the mean of runs.
///
/// # Panics
/// If there are none.
pub fn mean(values: &[f64]) -> Estimate {
    assert!(!values.is_empty(), "the mean of no runs");
    let count = values.len();
    let mean = values.iter().sum::<f64>() / count as f64;
    if count == 1 {
        return Estimate::exact(mean, 1);
    }
    let half = student(count - 1) * (variance(values, mean) / count as f64).sqrt();
    Estimate::around(mean, half, count)
}

/// Returns the ratio of the means of two paired samples, with the linear approximation of the ratio's
/// variance, which includes the covariance of the pairs.
///
/// # Panics
/// If the samples are empty or differ in length.
pub fn ratio(of: &[f64], to: &[f64]) -> Estimate {
    assert!(!of.is_empty() && of.len() == to.len(), "runs are compared in pairs");
    let count = of.len();
    let (above, below) = (mean(of).mean, mean(to).mean);
    let ratio = above / below;
    if count == 1 {
        return Estimate::exact(ratio, 1);
    }
    let residuals: Vec<f64> = of.iter().zip(to).map(|(of, to)| of - ratio * to).collect();
    let spread = (variance(&residuals, 0.0) / count as f64).sqrt() / below.abs();
    Estimate::around(ratio, student(count - 1) * spread, count)
}

/// The quotient of two independent estimates: the squares of their relative errors add up.
pub fn quotient(of: Estimate, to: Estimate) -> Estimate {
    let mean = of.mean / to.mean;
    Estimate::around(mean, mean.abs() * of.relative().hypot(to.relative()), of.runs.min(to.runs))
}

/// Returns the difference of the means of two paired samples.
///
/// # Panics
/// If the samples are empty or differ in length.
pub fn difference(of: &[f64], minus: &[f64]) -> Estimate {
    assert!(of.len() == minus.len(), "runs are compared in pairs");
    let differences: Vec<f64> = of.iter().zip(minus).map(|(of, minus)| of - minus).collect();
    mean(&differences)
}

/// Returns a function of the means of several samples, with the interval by the jackknife: each run is left out once. Samples
/// of equal length are paired.
///
/// # Panics
/// If a sample is empty.
pub fn jackknife(samples: &[Vec<f64>], of: impl Fn(&[Vec<f64>]) -> f64) -> Estimate {
    let value = of(samples);
    let Some(count) = samples.iter().map(Vec::len).min() else { return Estimate::exact(value, 0) };
    assert!(count > 0, "a sample has a run");
    if count == 1 {
        return Estimate::exact(value, 1);
    }
    let paired = samples.iter().all(|sample| sample.len() == count);
    let without = |which: &dyn Fn(usize) -> bool, run: usize| {
        let mut left = samples.to_vec();
        for (_, sample) in left.iter_mut().enumerate().filter(|(at, _)| which(*at)) {
            sample.remove(run);
        }
        of(&left)
    };
    let spread = |which: &dyn Fn(usize) -> bool, runs: usize| {
        let values: Vec<f64> = (0..runs).map(|run| without(which, run)).collect();
        let mean = values.iter().sum::<f64>() / runs as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() * (runs - 1) as f64 / runs as f64
    };
    let variance: f64 = if paired {
        spread(&|_| true, count)
    } else {
        samples.iter().enumerate().map(|(number, sample)| spread(&|at| at == number, sample.len())).sum()
    };
    Estimate::around(value, student(count - 1) * variance.sqrt(), count)
}

/// How often a bootstrap draws.
const DRAWS: usize = 1_000;

/// As [`jackknife`] of any function, by the bootstrap: runs are drawn with replacement, and the interval is that of the values.
/// The draws are the same each time.
pub fn bootstrap(samples: &[Vec<f64>], of: impl Fn(&[Vec<f64>]) -> f64) -> Estimate {
    let value = of(samples);
    let count = samples.iter().map(Vec::len).min().unwrap_or(0);
    let paired = samples.iter().all(|sample| sample.len() == count);
    let mut random = Random::new(0, 0);
    let mut values: Vec<f64> = (0..DRAWS)
        .map(|_| {
            let shared: Vec<usize> = (0..count).map(|_| random.below(count as u64) as usize).collect();
            let drawn: Vec<Vec<f64>> = samples
                .iter()
                .map(|sample| match paired {
                    true => shared.iter().map(|run| sample[*run]).collect(),
                    false => {
                        sample.iter().map(|_| sample[random.below(sample.len() as u64) as usize]).collect()
                    }
                })
                .collect();
            of(&drawn)
        })
        .collect();
    values.sort_by(f64::total_cmp);
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Estimate {
        mean: value,
        low: reached_by(&values, tail),
        high: reached_by(&values, 1.0 - tail),
        runs: count,
    }
}

/// Returns a quantile, interpolated between the two nearest values.
///
/// # Panics
/// If there are no runs.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    assert!(!values.is_empty(), "a quantile of no runs");
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = part.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    // Infinite values have no difference.
    if below == above { below } else { below + (above - below) * place.fract() }
}

/// Returns the smallest of sorted values that a fraction `part` of them does not exceed. The result is one
/// of the values and may be infinite.
///
/// # Panics
/// If there are none.
pub fn reached_by(sorted: &[f64], part: f64) -> f64 {
    assert!(!sorted.is_empty(), "a quantile of no runs");
    let rank = (part.clamp(0.0, 1.0) * sorted.len() as f64).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1]
}

/// A regression line (least squares).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Its slope.
    pub slope: Estimate,
    /// Its value at x = 0.
    pub intercept: Estimate,
    /// The fraction of the variance that it explains.
    pub r_squared: f64,
}

/// Fits a line to points.
///
/// # Panics
/// If there are fewer than three points, or all have the same x.
pub fn line(points: &[(f64, f64)]) -> Line {
    let count = points.len();
    assert!(count >= 3, "a line through {count} points says nothing");
    let n = count as f64;
    let x_mean = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let y_mean = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let xx: f64 = points.iter().map(|(x, _)| (x - x_mean).powi(2)).sum();
    let xy: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let yy: f64 = points.iter().map(|(_, y)| (y - y_mean).powi(2)).sum();
    assert!(xx > 0.0, "a line through points at one x");
    let slope = xy / xx;
    let intercept = y_mean - slope * x_mean;
    let left: f64 = points.iter().map(|(x, y)| (y - intercept - slope * x).powi(2)).sum();
    let variance = left / (n - 2.0);
    let t = student(count - 2);
    let slope_half = t * (variance / xx).sqrt();
    let intercept_half = t * (variance * (1.0 / n + x_mean.powi(2) / xx)).sqrt();
    Line {
        slope: Estimate::around(slope, slope_half, count),
        intercept: Estimate::around(intercept, intercept_half, count),
        r_squared: if yy == 0.0 { 1.0 } else { 1.0 - left / yy },
    }
}

/// Jain's fairness index: 1 if all shares are equal, 1/n if one has everything.
pub fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    if squares == 0.0 { 1.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The variance of a sample around its mean.
fn variance(values: &[f64], mean: f64) -> f64 {
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// The half-width of an interval in standard errors.
fn student(freedom: usize) -> f64 {
    let distribution = StudentsT::new(0.0, 1.0, freedom as f64).expect("freedom is above 0");
    distribution.inverse_cdf(1.0 - (1.0 - CONFIDENCE) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_a_value_of_a_run_and_failures_come_last() {
        let mut values: Vec<f64> = (1..=98).map(f64::from).collect();
        values.extend([f64::INFINITY; 2]);
        assert_eq!([0.0, 0.5, 0.98].map(|part| reached_by(&values, part)), [1.0, 50.0, 98.0]);
        assert_eq!([0.99, 1.0].map(|part| reached_by(&values, part)), [f64::INFINITY; 2]);
    }

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b.abs().max(1.0), "{a} is not {b}");
    }

    #[test]
    fn the_interval_of_a_mean_is_students() {
        // The standard error is sqrt(2.5 / 5), and t(0.95; 4) = 2.131847.
        let estimate = mean(&[3.0, 5.0, 4.0, 6.0, 7.0]);
        close(estimate.mean, 5.0);
        close(estimate.low, 5.0 - 2.131_846_8 * 0.5_f64.sqrt());
        close(estimate.high, 5.0 + 2.131_846_8 * 0.5_f64.sqrt());
        assert_eq!(mean(&[2.0; 7]).relative(), 0.0);
        assert_eq!(mean(&[2.0]), Estimate::exact(2.0, 1));
    }

    #[test]
    fn the_jackknife_of_means_is_their_interval_and_of_pairs_that_of_the_ratio() {
        let (below, above) = (vec![10.0, 30.0, 20.0, 25.0], vec![41.0, 119.0, 82.0, 99.0]);
        let first = |samples: &[Vec<f64>]| samples[0].iter().sum::<f64>() / samples[0].len() as f64;
        let alone = jackknife(std::slice::from_ref(&below), first);
        close(alone.low, mean(&below).low);
        close(alone.high, mean(&below).high);
        let quotient = |samples: &[Vec<f64>]| first(&samples[..1]) / first(&samples[1..]);
        let pairs = jackknife(&[above.clone(), below.clone()], quotient);
        close(pairs.mean, ratio(&above, &below).mean);
        assert!((pairs.relative() / ratio(&above, &below).relative() - 1.0).abs() < 0.2, "{pairs}");
        // Unpaired, the spread of both adds up.
        let more = [above, vec![10.0, 30.0, 20.0, 25.0, 21.0]];
        assert!(jackknife(&more, quotient).relative() > 5.0 * pairs.relative());
        assert_eq!(jackknife(&[vec![2.0; 5]], first).relative(), 0.0);
    }

    #[test]
    fn the_bootstrap_of_a_median_has_its_interval_and_is_the_same_each_time() {
        let sample: Vec<f64> = (1..=101).map(f64::from).collect();
        let median = |samples: &[Vec<f64>]| quantile(&samples[0], 0.5);
        let estimate = bootstrap(std::slice::from_ref(&sample), median);
        close(estimate.mean, 51.0);
        assert!((38.0..47.0).contains(&estimate.low) && (55.0..64.0).contains(&estimate.high), "{estimate}");
        assert_eq!(estimate, bootstrap(&[sample], median));
    }

    #[test]
    fn correlated_pairs_have_a_narrow_ratio() {
        let below = [10.0, 30.0, 20.0, 25.0];
        let above: Vec<f64> = below.iter().map(|value| value * 4.0).collect();
        let sharp = ratio(&above, &below);
        close(sharp.mean, 4.0);
        assert!(sharp.relative() < 1e-12, "{sharp}");
        let shuffled = [120.0, 40.0, 100.0, 80.0];
        assert!(ratio(&shuffled, &below).relative() > 0.3);
        close(difference(&above, &below).mean, 63.75);
    }

    #[test]
    fn quantiles_lie_between_their_neighbours() {
        let values = [4.0, 1.0, 3.0, 2.0];
        close(quantile(&values, 0.5), 2.5);
        close(quantile(&values, 0.0), 1.0);
        close(quantile(&values, 1.0), 4.0);
        close(quantile(&[7.0], 0.9), 7.0);
        assert_eq!(quantile(&[f64::INFINITY; 2], 0.5), f64::INFINITY);
    }

    #[test]
    fn a_line_reports_its_fit() {
        let exact = line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]);
        close(exact.slope.mean, 2.0);
        close(exact.intercept.mean, 3.0);
        close(exact.r_squared, 1.0);
        // Sxy = 19.9 and Sxx = 10; the residuals' squares sum to 0.107, and those of y to 39.708.
        let fitted = line(&[(1.0, 2.1), (2.0, 3.9), (3.0, 6.2), (4.0, 7.8), (5.0, 10.1)]);
        close(fitted.slope.mean, 1.99);
        close(fitted.intercept.mean, 0.05);
        close(fitted.r_squared, 1.0 - 0.107 / 39.708);
        assert!(fitted.intercept.low < 0.0 && fitted.intercept.high > 0.0);
    }

    #[test]
    fn numbers_have_three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1234.5, "1234"),
            (12.345, "12.3"),
            (1.2345, "1.23"),
            (0.012345, "0.0123"),
            (-3.0, "-3.00"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn jain_of_equal_shares_is_one_and_of_a_monopoly_one_nth() {
        close(jain(&[2.0, 2.0, 2.0]), 1.0);
        close(jain(&[3.0, 0.0, 0.0]), 1.0 / 3.0);
    }
}
