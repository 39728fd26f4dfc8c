//! Why a transfer cannot be sent.

use crate::transfer_out::encode::SignedCopyError;
use nameward_wire::Rcode;
use nameward_zone::LookupError;
use nameward_zone::change::ChangeError;

use super::digests::ZoneDigestFault;
use super::expand::ExpandFault;
use nameward_serve::request::extended_error;

/// Why a transfer could not be prepared.
#[derive(Debug, thiserror::Error)]
pub(super) enum PrepareFault {
    #[error("{0}")]
    Backend(LookupError),
    #[error("{0}")]
    Unsigned(#[from] SignedCopyError),
    #[error("{0}")]
    Unexpanded(#[from] ExpandFault),
    #[error("cannot fill in automatic hints: {0}")]
    Unhinted(#[from] ChangeError),
    #[error("{0}")]
    Undigested(#[from] ZoneDigestFault),
    #[error("cannot start a signing thread: {0}")]
    NoThread(std::io::Error),
    #[error("internal error while signing")]
    SigningEnded,
    #[error("the zone was removed")]
    Gone,
    #[error("not in allow_transfer and not one of the zone's name servers")]
    NotNameServer,
}

impl PrepareFault {
    /// Returns the response code and the extended error for the failure.
    pub(super) fn code(&self) -> (Rcode, Option<u16>) {
        match self {
            PrepareFault::Unsigned(SignedCopyError::Narrow) => {
                (Rcode::Refused, Some(extended_error::NOT_SUPPORTED))
            }
            PrepareFault::Backend(_) | PrepareFault::Gone => {
                (Rcode::ServFail, Some(extended_error::NOT_READY))
            }
            PrepareFault::NotNameServer => (Rcode::Refused, Some(extended_error::PROHIBITED)),
            PrepareFault::Unexpanded(_) => (Rcode::ServFail, Some(extended_error::NETWORK_ERROR)),
            PrepareFault::Unsigned(_)
            | PrepareFault::NoThread(_)
            | PrepareFault::SigningEnded
            | PrepareFault::Unhinted(_)
            | PrepareFault::Undigested(_) => (Rcode::ServFail, None),
        }
    }
}
