//! The caller of an operation: the user or API key, and the address.

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
    /// The address of the client; `None` for the control socket and for commands without a server.
    pub address: Option<IpAddr>,
    /// The API key; `None` for the control socket and for commands without a server.
    pub key: Option<Arc<ApiKey>>,
}

impl Caller {
    /// Creates the caller for a client of the HTTP API, with the reason that it gives.
    pub fn for_key(key: &Arc<ApiKey>, address: IpAddr, message: Option<&str>) -> Self {
        let author = match key.id.as_str() {
            CONFIGURED_KEY => format!("api {address}"),
            id => format!("api {address} key {id}"),
        };
        Caller {
            author: ChangeAuthor::new(&author, message),
            address: Some(address),
            key: Some(Arc::clone(key)),
        }
    }

    /// Creates the caller for a user of this machine who runs a command.
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

    /// Returns the permissions of the caller. Users of this machine who can open the control socket have all of them.
    pub fn scope(&self) -> &KeyScope {
        static ALL: KeyScope = KeyScope::all();
        self.key.as_ref().map_or(&ALL, |key| &key.scope)
    }
}
