//! Owns the log: lines on stderr, and the same texts in the ring of log messages.

use std::{
    fmt::{self, Write},
    io::IsTerminal,
    sync::Arc,
};

use nameward_stats::Stats;
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
};
use tracing_subscriber::{
    Layer, Registry,
    fmt::format::{Writer, debug_fn},
    layer::Context,
    layer::SubscriberExt,
    reload,
    util::SubscriberInitExt,
};

use crate::{config::settings::LogLevel, terminal};

/// Changes the level of a log that is in use.
pub struct LogControl(reload::Handle<LevelFilter, Registry>);

impl LogControl {
    /// From now on, messages of this level and above are logged.
    pub fn set_level(&self, level: LogLevel) {
        // It fails only when the subscriber is gone, and then nobody logs.
        let _ = self.0.reload(filter(level));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Starts the log of this process.
pub fn start(level: LogLevel, stats: Arc<Stats>) -> LogControl {
    let (level, control) = reload::Layer::new(filter(level));
    let lines = tracing_subscriber::fmt::layer()
        .fmt_fields(debug_fn(write_field))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    // The journal stamps lines itself.
    let lines = match std::env::var_os("JOURNAL_STREAM") {
        Some(_) => lines.without_time().boxed(),
        None => lines.boxed(),
    };
    tracing_subscriber::registry()
        .with(level)
        .with(lines)
        .with(RingLayer(stats))
        .init();
    LogControl(control)
}

/// Writes a field of a line on stderr. Control characters are escaped, line ends too: what stands in a file's name or a
/// peer's message cannot look like a line of ours.
fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug) -> fmt::Result {
    match field.name() {
        "message" => write!(writer, "{}", terminal::line(format_args!("{value:?}"))),
        name => write!(
            writer,
            " {name}={}",
            terminal::line(format_args!("{value:?}"))
        ),
    }
}

/// Copies each message into the ring behind the status page.
struct RingLayer(Arc<Stats>);

impl<S: Subscriber> Layer<S> for RingLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = MessageText::default();
        event.record(&mut text);
        self.0.log(&text.line());
    }
}

/// The message of an event with its other fields behind it.
#[derive(Default)]
struct MessageText {
    message: String,
    fields: String,
}

impl MessageText {
    fn line(mut self) -> String {
        self.message.push_str(&self.fields);
        self.message
    }
}

impl Visit for MessageText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use nameward_stats::{Ring, RingCapacities, common_mnemonic};

    use super::*;

    #[test]
    fn a_message_enters_the_ring_with_its_fields_and_below_the_level_it_does_not() {
        let stats = Stats::new(RingCapacities::default());
        let subscriber = tracing_subscriber::registry()
            .with(LevelFilter::INFO)
            .with(RingLayer(Arc::clone(&stats)));
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!(zones = 3, "loaded from {}", "somewhere");
            tracing::debug!("not for the ring");
        });
        let entries = stats
            .snapshot()
            .ring(Ring::Logmessages)
            .entries(&common_mnemonic);
        assert_eq!(entries, ["loaded from somewhere zones=3"]);
    }
}
