//! PostgreSQL notifications from the primary, on their own connection.
//!
//! An idle connection is probed periodically. A dead one is replaced. Changes in the meantime are shown by the table of changes;
//! without one, everything counts as changed then, and the watch health shows the gap.

use super::super::error::SqlError;
use super::super::hosts::{OpenConnection, Server, Suitable};
use super::super::schema::{CHANNEL, NO_ZONE_CHANGED};
use super::super::{postgres, postgres_error};
use super::notices::TableNotices;
use super::{Change, ChangeSender, MAX_BACK_OFF, TABLE_INTERVAL};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio_postgres::AsyncMessage;

/// How long a connection may be silent before it is probed.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// Sends the primary's notifications until the receiver is dropped.
pub(super) async fn listen(
    notices: &mut ChangeSender,
    target: &postgres::PostgresTarget,
    table: &TableNotices,
) {
    let backend = notices.backend.clone();
    let mut wait = TABLE_INTERVAL;
    let mut has_missed = false;
    // The table alone shows whether changes are seen, if there is one.
    let note = |error: SqlError| {
        if table.is_there() {
            tracing::info!(database = %backend.inner.options.address, %error, "no notifications of changes, polling");
        } else {
            backend.note_watch(Err(unseen(error)));
        }
    };
    let mut is_noted = false;
    while !notices.sender.is_closed() {
        notices.resend_lost();
        let connected = if target.is_pooled() {
            let reason = "a connection pooler in transaction mode".into();
            Err(SqlError::Refused(reason))
        } else {
            let timeout = backend.inner.options.timeout;
            target.hosts.connect(timeout, &NoticeTarget(target)).await
        };
        match connected {
            Ok((server, mut listener)) => {
                wait = TABLE_INTERVAL;
                is_noted = false;
                backend.inner.own_commits.forget_notices();
                table.forget();
                if !table.is_there() {
                    backend.note_watch(Ok(()));
                    // Changes since the last connection are unknown.
                    if has_missed || listener.early {
                        notices.send_of_primary(Change::All);
                    }
                }
                has_missed = true;
                notices.send_begun();
                if let Err(error) = listener.run(notices, table).await {
                    target.hosts.avoid(&server);
                    note(error);
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_noted, true) || !table.is_there() {
                    note(error);
                }
                has_missed = true;
                notices.send_begun();
                wait = (wait * 2).min(MAX_BACK_OFF);
            }
        }
        tokio::time::sleep(wait).await;
    }
}

/// Returns the failure to show if a database without a table of changes refuses notifications, as a standby does: zones in memory
/// would be stale forever.
fn unseen(error: SqlError) -> SqlError {
    match error {
        SqlError::Refused(reason) => SqlError::Unavailable(format!(
            "it has no LISTEN ({reason}) and no table of changes: run `nameward db init` for the primary"
        )),
        error => error,
    }
}

/// A database that sends notifications. A standby refuses to.
struct NoticeTarget<'t>(&'t postgres::PostgresTarget);

impl OpenConnection for NoticeTarget<'_> {
    type Connection = Listener;

    async fn open(&self, server: &Server, _: bool) -> Result<Suitable<Listener>, SqlError> {
        let opened = Listener::open(self.0, server).await;
        let listener = opened.map_err(|error| postgres_error::failure(&error))?;
        Ok(Suitable::Good(listener))
    }
}

struct Listener {
    /// Dropping it would end the connection.
    client: tokio_postgres::Client,
    connection: postgres::Connection,
    /// Something arrived before we were ready to read it.
    early: bool,
}

impl Listener {
    async fn open(
        target: &postgres::PostgresTarget,
        server: &Server,
    ) -> Result<Self, tokio_postgres::Error> {
        let (client, mut connection) = target.open_polled(server).await?;
        let command = format!("LISTEN {CHANNEL}");
        let (mut early, mut is_over) = (false, false);
        {
            let mut listening = pin!(client.batch_execute(&command));
            // The connection only makes progress while it is polled.
            poll_fn(|context| {
                if !is_over && let Poll::Ready(message) = connection.poll_message(context) {
                    is_over = !matches!(message, Some(Ok(_)));
                    early = true;
                    context.waker().wake_by_ref();
                }
                listening.as_mut().poll(context)
            })
            .await?;
        }
        Ok(Listener {
            client,
            connection,
            early,
        })
    }

    /// Sends change notifications until the connection breaks or falls silent, or the receiver is dropped.
    async fn run(
        &mut self,
        notices: &mut ChangeSender,
        table: &TableNotices,
    ) -> Result<(), SqlError> {
        let mut heard = Instant::now();
        loop {
            // Checks periodically whether the receiver still exists.
            let wait = notices.send_repeats().min(TABLE_INTERVAL);
            let next = poll_fn(|context| self.connection.poll_message(context));
            match tokio::time::timeout(wait, next).await {
                Err(_) if notices.sender.is_closed() => return Ok(()),
                Err(_) if heard.elapsed() >= HEARTBEAT => {
                    self.beat(notices, table).await?;
                    heard = Instant::now();
                }
                Err(_) => notices.resend_lost(),
                Ok(message) => {
                    deliver(message, notices, table)?;
                    heard = Instant::now();
                }
            }
        }
    }

    /// Probes the server. A peer that vanished silently would otherwise look like one that has nothing to report.
    async fn beat(
        &mut self,
        notices: &mut ChangeSender,
        table: &TableNotices,
    ) -> Result<(), SqlError> {
        let timeout = notices.backend.inner.options.timeout;
        let (client, connection) = (&self.client, &mut self.connection);
        let mut probe = pin!(client.batch_execute("SELECT 1"));
        let answered = poll_fn(|context| {
            while let Poll::Ready(message) = connection.poll_message(context) {
                if let Err(error) = deliver(message, notices, table) {
                    return Poll::Ready(Err(error));
                }
            }
            let probe = probe.as_mut().poll(context);
            probe.map_err(|error| postgres_error::failure(&error))
        });
        tokio::time::timeout(timeout, answered)
            .await
            .unwrap_or(Err(SqlError::Timeout(timeout.as_millis())))
    }
}

/// Passes on a message from the server; an error ends the connection.
fn deliver(
    message: Option<Result<AsyncMessage, tokio_postgres::Error>>,
    notices: &mut ChangeSender,
    table: &TableNotices,
) -> Result<(), SqlError> {
    let notice = match message {
        Some(Ok(AsyncMessage::Notification(notice))) => notice,
        Some(Ok(_)) => return Ok(()),
        Some(Err(error)) => return Err(postgres_error::failure(&error)),
        None => return Err(SqlError::Unavailable("the connection was closed".into())),
    };
    let own = &notices.backend.inner.own_commits;
    let change = match notice.payload().parse() {
        Ok(NO_ZONE_CHANGED) => Change::List,
        Ok(zone) if own.claim_notice(zone, notice.process_id()) => Change::Own(zone),
        Ok(zone) => Change::Zone(zone, None),
        Err(_) => Change::All,
    };
    match table.notified(change, notices.backend.has_replica()) {
        Some(change) if table.is_there() => notices.send(change),
        Some(change) => notices.send_of_primary(change),
        None => {}
    }
    Ok(())
}
