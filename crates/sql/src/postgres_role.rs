//! The role of a PostgreSQL server among several: whether it accepts changes, and whether it may be read.

use super::dialect::STANDBY_DELAY;
use std::time::Duration;
use tokio_postgres::{Client, SimpleQueryMessage};

/// Checks whether another server would be better: this one is a standby, and for reads (`lag_max`) too far behind.
pub(super) async fn is_second_best(client: &Client, lag_max: Option<Duration>) -> bool {
    // Compatible servers may lack the function: they have no standby.
    let reply = single_value(client, "SELECT pg_is_in_recovery()").await;
    let is_standby = reply.is_some_and(|value| value == "t");
    is_standby && !is_in_step(client, lag_max).await
}

async fn is_in_step(client: &Client, lag_max: Option<Duration>) -> bool {
    let Some(lag_max) = lag_max else {
        return false;
    };
    let sql = format!("SELECT CAST({STANDBY_DELAY} AS BIGINT)");
    let delay = single_value(client, &sql).await;
    let delay = delay.and_then(|delay| delay.parse::<u64>().ok());
    delay.is_some_and(|delay| delay <= lag_max.as_secs())
}

/// Returns the value of a statement without parameters, as text; `None` if it fails.
pub(super) async fn single_value(client: &Client, sql: &str) -> Option<String> {
    let messages = client.simple_query(sql).await.ok()?;
    messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    })
}
