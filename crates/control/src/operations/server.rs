//! Operations on the server as a whole: its status, its logs, the audit log.

pub(super) mod audit;
pub(super) mod logs;
pub(super) mod process;
pub(super) mod status;
pub(super) mod status_text;
