//! The log: lines on stderr in one of three formats, and the same texts in the log message ring.

use std::{
    fmt::{self, Write},
    io::{self, IsTerminal, Write as _},
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use nameward_base::calendar::UtcTime;
use nameward_serve::query_log::QueryLogFormat;
use nameward_stats::{MessageLevel, Stats};
use tracing::{
    Event, Level, Subscriber,
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

use crate::terminal;

/// Changes the level of the running log; clones share it.
#[derive(Clone)]
pub struct LogControl(reload::Handle<LevelFilter, Registry>);

impl LogControl {
    /// Sets the least severe level that is logged.
    pub fn set_level(&self, level: LevelFilter) {
        // Fails only when the subscriber no longer exists, and then nothing logs.
        let _ = self.0.reload(level);
    }

    /// Returns the least severe level that is logged.
    pub fn level(&self) -> LevelFilter {
        self.0.clone_current().unwrap_or(LevelFilter::INFO)
    }
}

pub const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

pub fn read_level(word: &str) -> Option<LevelFilter> {
    LEVELS.contains(&word).then(|| word.parse().ok())?
}

pub fn start(level: LevelFilter, format: QueryLogFormat, stats: Arc<Stats>) -> LogControl {
    let (filter, handle) = reload::Layer::new(level);
    let (text, lines) = match format {
        QueryLogFormat::Text => {
            let lines = tracing_subscriber::fmt::layer()
                .fmt_fields(debug_fn(write_field))
                .with_writer(io::stderr)
                .with_ansi(io::stderr().is_terminal())
                .with_target(false);
            // The journal adds timestamps itself.
            let lines = match std::env::var_os("JOURNAL_STREAM") {
                Some(_) => lines.without_time().boxed(),
                None => lines.boxed(),
            };
            (Some(lines), None)
        }
        QueryLogFormat::Json => (None, Some(LineLayer(json_line))),
        QueryLogFormat::Journal => (None, Some(LineLayer(journal_line))),
    };
    tracing_subscriber::registry()
        .with(filter)
        .with(text)
        .with(lines)
        .with(RingLayer(stats))
        .init();
    nameward_base::panics::install_hook();
    LogControl(handle)
}

/// Writes a field of a line on stderr. Control characters are escaped, newlines too: a file name or a peer's message
/// cannot forge a log line.
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

type MakeLine = fn(MessageLevel, EventText, SystemTime) -> String;

/// Writes each message as a line in one of our own formats.
struct LineLayer(MakeLine);

impl<S: Subscriber> Layer<S> for LineLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = EventText::default();
        event.record(&mut text);
        let line = (self.0)(level_of(event), text, SystemTime::now());
        // In one piece, so that lines of several threads do not mix. A failure cannot be reported anywhere.
        let _ = io::stderr().lock().write_all(line.as_bytes());
    }
}

fn level_of(event: &Event<'_>) -> MessageLevel {
    match *event.metadata().level() {
        Level::ERROR => MessageLevel::Error,
        Level::WARN => MessageLevel::Warn,
        Level::INFO => MessageLevel::Info,
        Level::DEBUG => MessageLevel::Debug,
        Level::TRACE => MessageLevel::Trace,
    }
}

/// Formats a JSON object: time, level, message, and fields if there are any.
fn json_line(level: MessageLevel, text: EventText, now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let time = UtcTime::from_unix(since.as_secs()).to_string();
    let time = format!(
        "{}.{:06}Z",
        time.trim_end_matches('Z'),
        since.subsec_micros()
    );
    let mut object = serde_json::json!({
        "time": time,
        "level": level.name(),
        "message": text.message,
    });
    for (name, value) in text.fields {
        // A field with the name of one of ours gets a prefix.
        let name = match object.get(name) {
            Some(_) => format!("field_{name}"),
            None => name.to_string(),
        };
        object[name] = value.into();
    }
    object.to_string() + "\n"
}

/// Formats the level as in sd-daemon(3), and the message; the journal adds the time itself.
fn journal_line(level: MessageLevel, text: EventText, _: SystemTime) -> String {
    let number = match level {
        MessageLevel::Error => 3,
        MessageLevel::Warn => 4,
        MessageLevel::Info => 6,
        MessageLevel::Debug | MessageLevel::Trace => 7,
    };
    format!("<{number}>{}\n", terminal::line(text.line()))
}

/// Copies each message into the ring behind the status page.
struct RingLayer(Arc<Stats>);

impl<S: Subscriber> Layer<S> for RingLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = EventText::default();
        event.record(&mut text);
        self.0.log_at(level_of(event), &text.line());
    }
}

/// The message of an event and its other fields.
#[derive(Default)]
struct EventText {
    message: String,
    fields: Vec<(&'static str, String)>,
}

impl EventText {
    /// Returns the message followed by its fields.
    fn line(mut self) -> String {
        for (name, value) in &self.fields {
            let _ = write!(self.message, " {name}={value}");
        }
        self.message
    }
}

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            name => self.fields.push((name, format!("{value:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use nameward_stats::{Ring, RingCapacities};
    use std::time::Duration;

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
        let entries = stats.snapshot().ring(Ring::Logmessages).entries(&|_| None);
        assert_eq!(entries, ["loaded from somewhere zones=3"]);
        let note = stats.message_note("loaded from somewhere zones=3");
        assert_eq!(note.map(|note| note.level), Some(MessageLevel::Info));
    }

    #[test]
    fn lines_have_the_requested_format() {
        let text = || EventText {
            message: "file \"a\"\nb".into(),
            fields: vec![("zones", "3".into()), ("level", "x".into())],
        };
        let at = UNIX_EPOCH + Duration::from_micros(951_782_400_000_007);
        let json = json_line(MessageLevel::Warn, text(), at);
        assert_eq!(json.matches('\n').count(), 1, "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        let expected = serde_json::json!({
            "time": "2000-02-29T00:00:00.000007Z",
            "level": "warn",
            "message": "file \"a\"\nb",
            "zones": "3",
            "field_level": "x",
        });
        assert_eq!(read, expected);
        let line = journal_line(MessageLevel::Error, text(), at);
        assert_eq!(line, "<3>file \"a\"\\010b zones=3 level=x\n");
    }
}
