//! How requests are queued.

use super::OperationRequest;

/// How a request is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Urgency {
    /// Takes a moment and never waits for others.
    Immediate,
    /// Waits for other reloads only.
    Reload,
    /// Waits for its turn: a database may delay it.
    Ordinary,
}

impl OperationRequest {
    /// Returns how it is queued.
    pub fn urgency(&self) -> Urgency {
        match self {
            OperationRequest::Status
            | OperationRequest::Stop
            | OperationRequest::Process
            | OperationRequest::TakeOver
            | OperationRequest::Stats { .. } => Urgency::Immediate,
            OperationRequest::Reload { .. } => Urgency::Reload,
            _ => Urgency::Ordinary,
        }
    }
}
