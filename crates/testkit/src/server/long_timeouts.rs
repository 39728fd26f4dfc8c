//! Timeouts in the configuration of a server under test, long enough for a busy machine.

/// Gives every database in a configuration, and the queries that wait for one, a minute.
pub(super) fn with_long_timeouts(config: &str) -> String {
    let mut tables: Vec<String> = Vec::new();
    for line in config.lines() {
        if line.starts_with('[') || tables.is_empty() {
            tables.push(String::new());
        }
        if let Some(table) = tables.last_mut() {
            table.push_str(line);
            table.push('\n');
        }
    }
    for table in &mut tables {
        let is_database = ["sqlite", "postgres", "mysql"]
            .iter()
            .any(|kind| table.contains(&format!("type = \"{kind}\"")));
        let setting = match &**table {
            text if text.starts_with("[[backend]]") && is_database => "timeout_ms",
            text if text.starts_with("[overload]") => "query_timeout_ms",
            _ => continue,
        };
        if !table.lines().any(|line| line.starts_with(setting)) {
            table.push_str(&format!("{setting} = 60000\n"));
        }
    }
    if !tables.iter().any(|table| table.starts_with("[overload]")) {
        tables.push("[overload]\nquery_timeout_ms = 60000\n".into());
    }
    tables.concat()
}
