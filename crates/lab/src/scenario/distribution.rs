//! Random sizes and times.

use std::time::Duration;

use braidftp_sim::Random;

use super::tree::{Node, Value, Wrong};
use super::view::{self, View};

/// The largest standard deviation of the logarithm: beyond it a number is the least or the most.
const SIGMA_MAX: f64 = 10.0;

/// A distribution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Distribution {
    /// A constant.
    Fixed(f64),
    /// Exponential, by its mean.
    Exponential { mean: f64, max: f64 },
    /// Uniform.
    Uniform { min: f64, max: f64 },
    /// Pareto.
    Pareto { min: f64, shape: f64, max: f64 },
    /// Log-normal.
    LogNormal { median: f64, sigma: f64, max: f64 },
}

impl Distribution {
    /// Reads a plain quantity or a distribution.
    ///
    /// # Errors
    ///
    /// A number is missing or out of range.
    pub(super) fn read<'a>(view: View<'a>, node: &'a Node) -> Result<Self, Wrong> {
        if !matches!(node.value, Value::Table(_)) {
            return Ok(Self::Fixed(view::any(node).map_or(0.0, |quantity| quantity.number)));
        }
        Self::table(view.of(node), node)
    }

    fn table(view: View<'_>, node: &Node) -> Result<Self, Wrong> {
        let given = |key: &str| view.get(key).and_then(view::any).map(|quantity| quantity.number);
        let kind = view.text("distribution").unwrap_or("");
        let needs = |key: &str| {
            given(key)
                .filter(|number| *number > 0.0)
                .ok_or_else(|| view.wrong(key, format!("`{kind}` needs `{key}` above 0")))
        };
        let used: &[&str] = match kind {
            "exponential" => &["mean", "max"],
            "uniform" => &["min", "max"],
            "pareto" => &["min", "shape", "max"],
            _ => &["median", "sigma", "max"],
        };
        if let Some(entry) = node
            .entries()
            .iter()
            .find(|entry| entry.key != "distribution" && !used.contains(&entry.key.as_str()))
        {
            let what = format!("`{kind}` has no `{}`; it has {}", entry.key, used.join(", "));
            return Err(Wrong { span: entry.span.clone(), what });
        }
        let most = |of: f64| given("max").unwrap_or(of * 1e3);
        let drawn = match kind {
            "exponential" => needs("mean").map(|mean| Self::Exponential { mean, max: most(mean) })?,
            "uniform" => Self::Uniform { min: given("min").unwrap_or(0.0), max: needs("max")? },
            "pareto" => {
                let (min, shape) = (needs("min")?, view.number("shape").unwrap_or(1.2));
                Self::Pareto { min, shape, max: most(min) }
            }
            _ => {
                let (median, sigma) = (needs("median")?, view.number("sigma").unwrap_or(1.0));
                if sigma > SIGMA_MAX {
                    return Err(view.wrong("sigma", format!("`sigma` is {SIGMA_MAX} at most")));
                }
                Self::LogNormal { median, sigma, max: most(median) }
            }
        };
        let (least, most) = match drawn {
            Self::Fixed(number) => (number, number),
            Self::Exponential { max, .. } => (0.0, max),
            Self::Uniform { min, max } | Self::Pareto { min, max, .. } => (min, max),
            Self::LogNormal { max, .. } => (0.0, max),
        };
        if least > most {
            return Err(view.wrong("max", "`max` is below the least"));
        }
        Ok(drawn)
    }

    /// Whether it is always the same.
    pub(super) fn is_fixed(&self) -> bool {
        matches!(self, Self::Fixed(_))
    }

    /// Draws a number.
    pub(super) fn draw(&self, random: &mut Random) -> f64 {
        match *self {
            Self::Fixed(number) => number,
            Self::Exponential { mean, max } => (-mean * (1.0 - random.unit()).ln()).min(max),
            Self::Uniform { min, max } => min + (max - min) * random.unit(),
            Self::Pareto { min, shape, max } => (min * (1.0 - random.unit()).powf(-1.0 / shape)).min(max),
            Self::LogNormal { median, sigma, max } => {
                // The Box-Muller transform.
                let (radius, angle) = (1.0 - random.unit(), random.unit() * std::f64::consts::TAU);
                let normal = (-2.0 * radius.ln()).sqrt() * angle.cos();
                (median * (sigma * normal).exp()).min(max)
            }
        }
    }

    /// Draws a whole number, at least one.
    pub(super) fn bytes(&self, random: &mut Random) -> u64 {
        self.draw(random).round().max(1.0) as u64
    }

    /// Draws a time.
    pub(super) fn time(&self, random: &mut Random) -> Duration {
        Duration::from_nanos((self.draw(random) * 1e9).round() as u64)
    }

    /// The maximum that can be drawn.
    pub(super) fn most(&self) -> f64 {
        match *self {
            Self::Fixed(number) => number,
            Self::Exponential { max, .. }
            | Self::Uniform { max, .. }
            | Self::Pareto { max, .. }
            | Self::LogNormal { max, .. } => max,
        }
    }

    /// The approximate mean.
    pub(super) fn about(&self) -> f64 {
        match *self {
            Self::Fixed(number) => number,
            Self::Exponential { mean, .. } => mean,
            Self::Uniform { min, max } => (min + max) / 2.0,
            Self::Pareto { min, .. } => min,
            Self::LogNormal { median, .. } => median,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: Distribution) -> Vec<f64> {
        let mut random = Random::new(7, 0);
        let mut drawn: Vec<f64> = (0..20_000).map(|_| distribution.draw(&mut random)).collect();
        drawn.sort_by(f64::total_cmp);
        drawn
    }

    #[test]
    fn draws_have_the_mean_or_the_median_and_stay_within_the_bounds() {
        let mean = |drawn: &[f64]| drawn.iter().sum::<f64>() / drawn.len() as f64;
        let exponential = drawn(Distribution::Exponential { mean: 2.0, max: 2_000.0 });
        assert!((1.95..2.05).contains(&mean(&exponential)), "{}", mean(&exponential));
        let uniform = drawn(Distribution::Uniform { min: 1.0, max: 3.0 });
        assert!((1.97..2.03).contains(&mean(&uniform)) && uniform[0] >= 1.0 && uniform[19_999] < 3.0);
        let pareto = drawn(Distribution::Pareto { min: 4.0, shape: 1.2, max: 400.0 });
        // The median is min * 2^(1/shape).
        assert!((6.9..7.4).contains(&pareto[10_000]), "{}", pareto[10_000]);
        assert!(pareto[0] >= 4.0 && pareto[19_999] == 400.0);
        let normal = drawn(Distribution::LogNormal { median: 5.0, sigma: 0.5, max: 5e3 });
        assert!((4.85..5.15).contains(&normal[10_000]), "{}", normal[10_000]);
        // One standard deviation above.
        let above = normal[(20_000.0 * 0.8413) as usize];
        assert!((5.0 * 0.46_f64.exp()..5.0 * 0.54_f64.exp()).contains(&above), "{above}");
    }
}
