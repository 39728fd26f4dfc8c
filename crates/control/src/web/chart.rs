//! The small charts in the header: the last ten minutes as SVG paths.

use std::fmt::Write as _;

use nameward_stats::{CHART_STEP, CHARTED_RCODES, HISTORY, Rates, Second};

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;

/// A chart, drawn into a box of 600 by 100.
#[derive(Default)]
pub struct Chart {
    /// The text above the chart.
    pub caption: &'static str,
    /// The highest value, or the newest one of a share.
    pub scale: String,
    /// The value of the top line.
    pub top: String,
    /// The CSS class of its lines.
    pub class: &'static str,
    /// The text for screen readers.
    pub label: String,
    /// The filled path; empty when there is nothing to draw.
    pub area: String,
    /// The line on top of it.
    pub line: String,
    /// The lines of a chart with several, which has no area.
    pub lines: Vec<ChartLine>,
}

/// One of several lines of a chart.
pub struct ChartLine {
    /// Its name in the legend.
    pub name: &'static str,
    /// Its CSS class.
    pub class: &'static str,
    /// Its path.
    pub line: String,
}

/// Charts queries per second, all transports together: the highest second of each step, so that no peak is hidden.
pub fn query_rate(rates: &Rates) -> Chart {
    let points = steps(rates, |seconds| {
        seconds.iter().map(Second::queries).reduce(f64::max)
    });
    let highest = points.iter().flatten().copied().fold(0.0, f64::max);
    let top = round_up(highest);
    let (area, line) = paths(&points, top);
    let last = rates.history.back().map_or(0.0, Second::queries);
    Chart {
        caption: "Queries per second",
        scale: format!("peak {highest:.0}"),
        top: format!("{top:.0}"),
        class: "rate",
        label: format!(
            "Queries per second over the last ten minutes: now {last:.0}, peak {highest:.0}"
        ),
        area,
        line,
        ..Chart::default()
    }
}

/// Builds a chart of several lines on one scale.
fn several(
    (caption, class): (&'static str, &'static str),
    named: Vec<(&'static str, &'static str, Vec<Option<f64>>)>,
) -> Chart {
    let all = named.iter().flat_map(|(_, _, points)| points).flatten();
    let highest = all.copied().fold(0.0, f64::max);
    let top = round_up(highest);
    let last = |points: &[Option<f64>]| points.iter().rev().flatten().next().copied();
    let now = named
        .iter()
        .map(|(name, _, points)| format!("{name} {:.0}", last(points).unwrap_or(0.0)));
    let now = now.collect::<Vec<_>>().join(", ");
    Chart {
        caption,
        scale: format!("peak {highest:.0}"),
        top: format!("{top:.0}"),
        class,
        label: format!("{caption} over the last ten minutes: now {now}, peak {highest:.0}"),
        lines: named
            .into_iter()
            .map(|(name, class, points)| ChartLine {
                name,
                class,
                line: paths(&points, top).1,
            })
            .collect(),
        ..Chart::default()
    }
}

/// Charts responses per second by response code: the highest second of each step.
pub fn response_codes(rates: &Rates) -> Chart {
    let classes = ["first", "second", "third", "fourth"];
    let named = CHARTED_RCODES.iter().zip(classes).enumerate();
    let named = named.map(|(n, (name, class))| {
        let rate = move |second: &Second| f64::from(second.rcodes[n]);
        let highest = move |seconds: &[Second]| seconds.iter().map(rate).reduce(f64::max);
        (*name, class, steps(rates, highest))
    });
    several(("Responses per second by RCODE", "codes"), named.collect())
}

/// Charts queries per second by transport: the highest second of each step.
pub fn transports(rates: &Rates) -> Chart {
    let of = |rate: fn(&Second) -> f32| {
        let highest = move |seconds: &[Second]| {
            seconds
                .iter()
                .map(|second| f64::from(rate(second)))
                .reduce(f64::max)
        };
        steps(rates, highest)
    };
    let named = vec![
        ("UDP", "first", of(|second| second.udp_queries)),
        ("TCP", "second", of(|second| second.tcp_queries)),
        ("encrypted", "third", of(|second| second.encrypted_queries)),
    ];
    several(("Queries per second by transport", "transports"), named)
}

/// Charts the mean response time in each step, in microseconds.
pub fn latency(rates: &Rates) -> Chart {
    let points = steps(rates, |seconds| {
        let timed: f64 = seconds.iter().map(|second| f64::from(second.timed)).sum();
        let sum: f64 = seconds
            .iter()
            .map(|second| f64::from(second.timed_us))
            .sum();
        (timed > 0.0).then(|| sum / timed)
    });
    let highest = points.iter().flatten().copied().fold(0.0, f64::max);
    let top = round_up(highest);
    let (area, line) = paths(&points, top);
    let last = points.iter().rev().flatten().next();
    Chart {
        caption: "Mean latency",
        scale: format!("peak {}", micros(highest)),
        top: micros(top),
        class: "hits",
        label: match last {
            Some(last) => format!(
                "Mean latency over the last ten minutes: now {last:.0} microseconds, peak {highest:.0}"
            ),
            None => "Mean latency over the last ten minutes: no response yet".into(),
        },
        area,
        line,
        ..Chart::default()
    }
}

/// Charts the packet cache hit rate.
pub fn cache_hitrate(rates: &Rates) -> Chart {
    let points = steps(rates, |seconds| {
        let hits: f64 = seconds.iter().map(|s| f64::from(s.hits)).sum();
        let misses: f64 = seconds.iter().map(|s| f64::from(s.misses)).sum();
        (hits + misses > 0.0).then(|| 100.0 * hits / (hits + misses))
    });
    let (area, line) = paths(&points, 100.0);
    let last = points.iter().rev().flatten().next();
    Chart {
        caption: "Packet cache hit rate",
        scale: last.map_or_else(String::new, |rate| format!("now {rate:.1}%")),
        top: "100%".into(),
        class: "hits",
        label: match last {
            Some(rate) => {
                format!("Packet cache hit rate over the last ten minutes: now {rate:.1}%")
            }
            None => "Packet cache hit rate over the last ten minutes: no look-up yet".into(),
        },
        area,
        line,
        ..Chart::default()
    }
}

/// Returns one value per step, the newest last; `None` where nothing was measured. Steps start at multiples of their
/// length on the clock, not at the newest second: only the last one can still change.
fn steps(rates: &Rates, value: impl Fn(&[Second]) -> Option<f64>) -> Vec<Option<f64>> {
    let mut points = vec![None; (HISTORY / CHART_STEP) as usize];
    let Some(last) = rates.history.back() else {
        return points;
    };
    let seconds: Vec<Second> = rates.history.iter().copied().collect();
    let step = |second: &Second| second.at / CHART_STEP;
    for seconds in seconds.chunk_by(|a, b| step(a) == step(b)) {
        let back = step(last).saturating_sub(step(&seconds[0])) as usize;
        let index = points.len().checked_sub(1 + back);
        if let Some(point) = index.and_then(|index| points.get_mut(index)) {
            *point = value(seconds);
        }
    }
    points
}

fn paths(points: &[Option<f64>], top: f64) -> (String, String) {
    let (mut area, mut line) = (String::new(), String::new());
    let step = WIDTH / (points.len().max(2) - 1) as f64;
    let point_at = |n: usize, value: f64| {
        let height = (value / top).clamp(0.0, 1.0) * (HEIGHT - 2.0);
        (n as f64 * step, HEIGHT - height)
    };
    let mut open: Option<f64> = None;
    let mut last_x = 0.0;
    for (n, point) in points.iter().enumerate() {
        match (point, open) {
            (Some(value), None) => {
                let (x, y) = point_at(n, *value);
                let _ = write!(line, "M{x:.1} {y:.1}");
                let _ = write!(area, "M{x:.1} {HEIGHT}L{x:.1} {y:.1}");
                (open, last_x) = (Some(x), x);
            }
            (Some(value), Some(_)) => {
                let (x, y) = point_at(n, *value);
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

/// Writes microseconds, as milliseconds from the first one on.
fn micros(value: f64) -> String {
    match value / 1000.0 {
        ms if ms < 1.0 => format!("{value:.0} µs"),
        ms if ms < 10.0 && ms.fract() > 0.0 => format!("{ms:.1} ms"),
        ms => format!("{ms:.0} ms"),
    }
}

/// Returns the next 1, 2 or 5 times a power of ten.
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
    fn an_empty_history_is_labelled_and_draws_nothing() {
        let rates = Rates::default();
        assert_eq!(query_rate(&rates).line, "");
        assert!(cache_hitrate(&rates).label.contains("no look-up"));
    }

    #[test]
    fn codes_transports_and_times_have_their_lines() {
        let mut rates = Rates::default();
        for at in 0..8 {
            rates.history.push_back(Second {
                at,
                udp_queries: 90.0,
                tcp_queries: 10.0,
                encrypted_queries: 5.0,
                rcodes: [70.0, 20.0, 10.0, 0.0],
                timed: 100.0,
                timed_us: 5000.0,
                ..Second::default()
            });
        }
        let chart = response_codes(&rates);
        let names: Vec<_> = chart.lines.iter().map(|line| line.name).collect();
        assert_eq!(names, CHARTED_RCODES);
        let now = "now NOERROR 70, NXDOMAIN 20, SERVFAIL 10, others 0, peak 70";
        assert!(chart.label.ends_with(now), "{}", chart.label);
        assert!(
            chart.lines[3].line.ends_with("L600.0 100.0"),
            "{}",
            chart.lines[3].line
        );
        let chart = transports(&rates);
        assert!(
            chart
                .label
                .ends_with("now UDP 90, TCP 10, encrypted 5, peak 90"),
            "{}",
            chart.label
        );
        assert!(latency(&rates).label.contains("now 50 microseconds"));
        // A second without responses has no time, which is not a time of 0.
        rates
            .history
            .iter_mut()
            .for_each(|second| second.timed = 0.0);
        assert!(latency(&rates).label.contains("no response yet"));
        assert_eq!(latency(&rates).line, "");
    }

    #[test]
    fn the_newest_second_is_at_the_right_edge_and_gaps_are_left_open() {
        let mut rates = Rates::default();
        for n in 0..12 {
            let hits = if (4..8).contains(&n) { 0.0 } else { 10.0 };
            rates.history.push_back(Second {
                at: n,
                udp_queries: 5.0,
                hits,
                ..Second::default()
            });
        }
        let chart = query_rate(&rates);
        assert!(chart.line.ends_with("L600.0 2.0"), "{}", chart.line);
        assert!(chart.label.contains("now 5, peak 5"), "{}", chart.label);
        let hits = cache_hitrate(&rates);
        assert_eq!(hits.line.matches('M').count(), 2, "{}", hits.line);
    }

    #[test]
    fn past_points_of_a_chart_do_not_change() {
        let mut rates = Rates::default();
        let rate = |second: u64| (second * 7919 % 1000) as f32;
        let highest = |seconds: &[Second]| {
            let rates = seconds.iter().map(|second| f64::from(second.udp_queries));
            rates.reduce(f64::max)
        };
        let mut before: Option<(u64, Vec<Option<f64>>)> = None;
        for at in 1000..1700 {
            rates.history.push_back(Second {
                at,
                udp_queries: rate(at),
                ..Second::default()
            });
            let first = nameward_stats::first_of_chart(at);
            rates.history.retain(|second| second.at >= first);
            let points = steps(&rates, highest);
            if let Some((step, shown)) = &before {
                let moved = (at / CHART_STEP - step) as usize;
                let past = &shown[moved..shown.len() - 1];
                assert_eq!(past, &points[..past.len()], "after second {at}");
            }
            before = Some((at / CHART_STEP, points));
        }
        // The last step started at 1696: its point is the highest of its seconds.
        let expected = (1696..1700).map(rate).fold(0.0, f32::max);
        let last = before.expect("points").1.pop().flatten();
        assert_eq!(last, Some(f64::from(expected)));
    }
}
