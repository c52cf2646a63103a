use std::fmt;
use std::time::Duration;

use anyhow::Result;

/// The figures, each beside its bar.
#[derive(Default)]
pub(crate) struct Report(Vec<Row>);

struct Row {
    what: &'static str,
    bar: Bar,
    unit: &'static str,
    /// Figures of the measured program, one per round.
    figures: Vec<f64>,
    /// Figures of the program it is compared with, one per round.
    beside: Vec<f64>,
}

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
        match self.0.iter_mut().find(|row| row.what == what) {
            Some(row) => row.figures.push(figure),
            None => self.0.push(Row { what, bar, unit, figures: vec![figure], beside: Vec::new() }),
        }
    }

    /// Measures one round of the program it is compared with.
    pub(crate) fn beside(&mut self, measure: fn(&mut Self) -> Result<()>) -> Result<()> {
        let mut other = Self::default();
        measure(&mut other)?;
        for theirs in other.0 {
            if let Some(row) = self.0.iter_mut().find(|row| row.what == theirs.what) {
                row.beside.extend(theirs.figures);
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number =
            |figure: f64| if figure >= 1000.0 { format!("{figure:.0}") } else { format!("{figure:.2}") };
        for row in &self.0 {
            let figure = middle(&row.figures);
            let held = if row.bar.holds(figure) { "  " } else { "✗ " };
            let (bar, unit) = (row.bar.to_string(), row.unit);
            write!(f, "{held}{:<58} {bar:>12}   {:>10} {unit}", row.what, number(figure))?;
            if !row.beside.is_empty() {
                let beside = middle(&row.beside);
                write!(f, ", beside {}: {:.2} ×", number(beside), figure / beside)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

fn middle(figures: &[f64]) -> f64 {
    let mut figures = figures.to_vec();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Mean increase from each time to the next, in seconds, by least squares.
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
