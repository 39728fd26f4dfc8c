//! The small charts of the header: the last ten minutes as SVG paths.

use std::fmt::Write as _;

use nameward_stats::{HISTORY, Rates, Second};

/// Seconds that become one point of a chart.
const BUCKET: usize = 4;
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;

/// A chart, drawn into a box of 600 by 100.
pub struct Chart {
    /// Above the chart.
    pub caption: &'static str,
    /// What the top line stands for.
    pub scale: String,
    /// The style of its lines.
    pub class: &'static str,
    /// For who does not see it.
    pub label: String,
    /// The filled path; empty when there is nothing to draw.
    pub area: String,
    /// The line on top of it.
    pub line: String,
}

/// Questions a second, UDP and TCP together.
pub fn query_rate(rates: &Rates) -> Chart {
    let points = buckets(rates, |seconds| {
        let sum: f64 = seconds
            .iter()
            .map(|s| f64::from(s.udp_queries) + f64::from(s.tcp_queries))
            .sum();
        Some(sum / seconds.len() as f64)
    });
    let highest = points.iter().flatten().copied().fold(0.0, f64::max);
    let top = round_up(highest);
    let (area, line) = paths(&points, top);
    let last = points.iter().rev().flatten().next().copied().unwrap_or(0.0);
    Chart {
        caption: "Query rate, UDP and TCP",
        scale: format!("{top:.0} q/s at the top"),
        class: "rate",
        label: format!(
            "Queries a second over the last ten minutes: now {last:.0}, highest {highest:.0}"
        ),
        area,
        line,
    }
}

/// The share of packet cache look-ups that hit.
pub fn cache_hitrate(rates: &Rates) -> Chart {
    let points = buckets(rates, |seconds| {
        let hits: f64 = seconds.iter().map(|s| f64::from(s.hits)).sum();
        let misses: f64 = seconds.iter().map(|s| f64::from(s.misses)).sum();
        (hits + misses > 0.0).then(|| 100.0 * hits / (hits + misses))
    });
    let (area, line) = paths(&points, 100.0);
    let last = points.iter().rev().flatten().next();
    Chart {
        caption: "Cache hit rate",
        scale: "100% at the top".into(),
        class: "hits",
        label: match last {
            Some(rate) => {
                format!("Packet cache hit rate over the last ten minutes: now {rate:.1}%")
            }
            None => "Packet cache hit rate over the last ten minutes: no look-up yet".into(),
        },
        area,
        line,
    }
}

/// One value for each bucket, aligned to the newest second; `None` where nothing was measured.
fn buckets(rates: &Rates, value: impl Fn(&[Second]) -> Option<f64>) -> Vec<Option<f64>> {
    let seconds: Vec<Second> = rates.history.iter().copied().collect();
    let mut points: Vec<Option<f64>> = seconds.rchunks(BUCKET).map(value).collect();
    points.resize(HISTORY / BUCKET, None);
    points.reverse();
    points
}

fn paths(points: &[Option<f64>], top: f64) -> (String, String) {
    let (mut area, mut line) = (String::new(), String::new());
    let step = WIDTH / (points.len().max(2) - 1) as f64;
    let place = |n: usize, value: f64| {
        let height = (value / top).clamp(0.0, 1.0) * (HEIGHT - 2.0);
        (n as f64 * step, HEIGHT - height)
    };
    let mut open: Option<f64> = None;
    let mut last_x = 0.0;
    for (n, point) in points.iter().enumerate() {
        match (point, open) {
            (Some(value), None) => {
                let (x, y) = place(n, *value);
                let _ = write!(line, "M{x:.1} {y:.1}");
                let _ = write!(area, "M{x:.1} {HEIGHT}L{x:.1} {y:.1}");
                (open, last_x) = (Some(x), x);
            }
            (Some(value), Some(_)) => {
                let (x, y) = place(n, *value);
                let _ = write!(line, "L{x:.1} {y:.1}");
                let _ = write!(area, "L{x:.1} {y:.1}");
                last_x = x;
            }
            (None, Some(_)) => {
                let _ = write!(area, "L{last_x:.1} {HEIGHT}Z");
                open = None;
            }
            (None, None) => {}
        }
    }
    if open.is_some() {
        let _ = write!(area, "L{last_x:.1} {HEIGHT}Z");
    }
    (area, line)
}

/// The next 1, 2 or 5 times a power of ten.
fn round_up(value: f64) -> f64 {
    let mut power = 1.0;
    for _ in 0..18 {
        for factor in [1.0, 2.0, 5.0] {
            if value <= factor * power {
                return factor * power;
            }
        }
        power *= 10.0;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_on_round_numbers() {
        for (value, top) in [
            (0.0, 1.0),
            (1.0, 1.0),
            (3.0, 5.0),
            (11.0, 20.0),
            (501.0, 1000.0),
        ] {
            assert_eq!(round_up(value), top);
        }
    }

    #[test]
    fn an_empty_history_draws_nothing_and_says_so() {
        let rates = Rates::default();
        assert_eq!(query_rate(&rates).line, "");
        assert!(cache_hitrate(&rates).label.contains("no look-up"));
    }

    #[test]
    fn the_newest_second_is_at_the_right_edge_and_gaps_are_left_open() {
        let mut rates = Rates::default();
        for n in 0..12 {
            let hits = if (4..8).contains(&n) { 0.0 } else { 10.0 };
            rates.history.push_back(Second {
                udp_queries: 5.0,
                hits,
                ..Second::default()
            });
        }
        let chart = query_rate(&rates);
        assert!(chart.line.ends_with("L600.0 2.0"), "{}", chart.line);
        assert!(chart.label.contains("now 5, highest 5"), "{}", chart.label);
        let hits = cache_hitrate(&rates);
        assert_eq!(hits.line.matches('M').count(), 2, "{}", hits.line);
    }
}
