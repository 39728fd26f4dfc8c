//! The fault of the TLS certificate.

use nameward_api::tls::TlsFault;
use nameward_control::operations::{FaultKind, ServerFault};

use super::{fault, moment};

/// Returns the fault of a TLS certificate that expires soon or cannot be loaded.
pub(super) fn of_certificate(found: &TlsFault) -> ServerFault {
    match found {
        TlsFault::Rejected { error, since } => {
            let mut fault = fault(
                FaultKind::TlsCertificate,
                format!("The new TLS certificate cannot be used: {error}."),
                "The API still uses the previous certificate, until it expires.",
                "Fix the files: a certificate chain and its private key in PEM, readable by the user of the server. They are \
                 loaded again when they change.",
            );
            fault.since = *since;
            fault
        }
        TlsFault::Expiring { path, at } => fault(
            FaultKind::TlsCertificate,
            format!(
                "TLS certificate {} expires on {}.",
                path.display(),
                moment(*at)
            ),
            "From then on clients refuse to connect to the API.",
            "Renew the certificate; the new files are loaded when they change.",
        ),
    }
}
