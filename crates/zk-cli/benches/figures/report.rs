use std::fmt;
use std::time::Duration;

/// The figures, each beside its bar.
#[derive(Default)]
pub(crate) struct Report(Vec<(&'static str, Bar, &'static str, f64)>);

#[derive(Clone, Copy)]
pub(crate) enum Bar {
    AtMost(f64),
    AtLeast(f64),
}

impl Bar {
    pub(crate) fn at_most(bar: f64) -> Self {
        Self::AtMost(bar)
    }

    pub(crate) fn at_least(bar: f64) -> Self {
        Self::AtLeast(bar)
    }

    fn holds(self, figure: f64) -> bool {
        match self {
            Self::AtMost(bar) => figure <= bar,
            Self::AtLeast(bar) => figure >= bar,
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(bar) => write!(f, "≤ {bar}"),
            Self::AtLeast(bar) => write!(f, "≥ {bar}"),
        }
    }
}

impl Report {
    pub(crate) fn add(&mut self, what: &'static str, bar: Bar, unit: &'static str, figure: f64) {
        self.0.push((what, bar, unit, figure));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, bar, unit, figure) in &self.0 {
            let held = if bar.holds(*figure) { "  " } else { "✗ " };
            let figure = if *figure >= 1000.0 { format!("{figure:.0}") } else { format!("{figure:.2}") };
            writeln!(f, "{held}{what:<58} {:>12}   {figure:>10} {unit}", bar.to_string())?;
        }
        Ok(())
    }
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// By how many seconds each time is longer than the one before, by least squares.
pub(crate) fn slope(times: &[Duration]) -> f64 {
    let n = times.len() as f64;
    let mean_x = (n - 1.0) / 2.0;
    let mean_y = times.iter().map(Duration::as_secs_f64).sum::<f64>() / n;
    let (mut over, mut under) = (0.0, 0.0);
    for (x, y) in times.iter().enumerate() {
        let dx = x as f64 - mean_x;
        over += dx * (y.as_secs_f64() - mean_y);
        under += dx * dx;
    }
    over / under
}
