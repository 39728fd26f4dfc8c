//! Operations on the server as a whole: its status, its logs, the audit log, and how it was started.

pub(super) mod audit;
pub(super) mod backend_status;
pub(super) mod fault;
pub(super) mod health;
pub(super) mod logs;
pub(super) mod status;
pub(super) mod status_text;

use serde::{Deserialize, Serialize};

/// How a server was started, for its successor.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ServerProcess {
    /// The process ID.
    pub id: u32,
    /// The command line, without the program.
    pub arguments: Vec<String>,
    /// The working directory.
    pub directory: String,
    /// The environment variables that name its files.
    pub environment: Vec<(String, String)>,
    /// Device, inode and modification time of the program's file.
    pub program: (u64, u64, i64),
    /// A service manager waits for its notifications.
    pub is_service: bool,
}
