//! Owns who requests an operation, and from where.

use std::net::IpAddr;
use std::sync::Arc;

use nameward_zone::change::ChangeAuthor;

use crate::api_keys::{ApiKey, CONFIGURED_KEY};

use super::KeyScope;

/// The caller of an operation.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The author of the changes, for the history of a zone.
    pub author: Arc<ChangeAuthor>,
    /// The address of the client; none for the control socket and for commands without a server.
    pub address: Option<IpAddr>,
    /// The API key; none for the control socket and for commands without a server.
    pub key: Option<Arc<ApiKey>>,
}

impl Caller {
    /// A client of the HTTP API, with the reason that it gives.
    pub fn for_key(key: &Arc<ApiKey>, address: IpAddr, message: Option<&str>) -> Self {
        let who = match key.id.as_str() {
            CONFIGURED_KEY => format!("api {address}"),
            id => format!("api {address} key {id}"),
        };
        Caller {
            author: ChangeAuthor::new(&who, message),
            address: Some(address),
            key: Some(Arc::clone(key)),
        }
    }

    /// A user of this machine who runs a command.
    pub fn for_user(user: &str, message: Option<&str>) -> Self {
        Caller {
            author: ChangeAuthor::new(&format!("user {user}"), message),
            address: None,
            key: None,
        }
    }

    /// Returns the caller with the reason for a change.
    pub fn with_message(&self, message: Option<&str>) -> Self {
        Caller {
            author: ChangeAuthor::new(&self.author.who, message),
            ..self.clone()
        }
    }

    /// Returns the rights of the caller. The users of this machine who reach the control socket have all.
    pub fn scope(&self) -> &KeyScope {
        static ALL: KeyScope = KeyScope::all();
        self.key.as_ref().map_or(&ALL, |key| &key.scope)
    }
}
