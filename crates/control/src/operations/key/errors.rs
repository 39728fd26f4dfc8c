//! Errors of key operations, for every storage of keys.

use nameward_keys::local::ZoneKeysError;
use nameward_sql::write::{KeyRefusal, WriteError};
use nameward_wire::NameBuf;

use crate::operations::{Database, ErrorKind, OperationError};

/// Converts a key error to an operation error for a zone.
pub(crate) fn zone_keys_error(name: &NameBuf) -> impl Fn(ZoneKeysError) -> OperationError {
    let name = *name;
    move |error| {
        let kind = match &error {
            ZoneKeysError::NoStore
            | ZoneKeysError::TooMany
            | ZoneKeysError::NoPolicy
            | ZoneKeysError::Secondary
            | ZoneKeysError::Unfit(_) => ErrorKind::Refused,
            ZoneKeysError::Same(_) => ErrorKind::Conflict,
            ZoneKeysError::NotThere(_) => ErrorKind::NotFound,
            ZoneKeysError::Key { .. } => ErrorKind::Invalid,
            ZoneKeysError::Store(_)
            | ZoneKeysError::Pair(_)
            | ZoneKeysError::Form(_)
            | ZoneKeysError::UnknownZone
            | ZoneKeysError::NotServed(_) => ErrorKind::Backend,
            ZoneKeysError::Last(number) => return last_key(&name, i64::from(*number)),
            ZoneKeysError::NoSuchZone => {
                return OperationError::unknown_zone(&name);
            }
            ZoneKeysError::NotLoaded => {
                return OperationError::not_found(format!(
                    "zone {name} is no longer in the database"
                ));
            }
            ZoneKeysError::Presigned => {
                return OperationError::refused(format!(
                    "zone {name} is presigned: its signatures are served unchanged"
                ));
            }
            ZoneKeysError::Refused(refusal) => return key_refusal_error(&name, *refusal),
            ZoneKeysError::Database { address, error } => {
                return OperationError::from_write_error(address, error);
            }
        };
        OperationError::new(kind, format!("zone {name}: {error}"))
    }
}

/// Creates the error for a change that a database rejected.
pub(crate) fn attribute_write_error(
    database: &Database,
    name: &NameBuf,
    error: &WriteError,
) -> OperationError {
    match error {
        WriteError::Keys(refusal) => key_refusal_error(name, *refusal),
        error => database.error(error),
    }
}

fn key_refusal_error(name: &NameBuf, refusal: KeyRefusal) -> OperationError {
    let kind = match refusal {
        KeyRefusal::HasKeys => return signed_already(name),
        KeyRefusal::NoKeys => return no_keys(name),
        KeyRefusal::NotThere(_) => ErrorKind::NotFound,
        KeyRefusal::Same(_) | KeyRefusal::ChangedMeanwhile | KeyRefusal::OtherServer => {
            ErrorKind::Conflict
        }
        KeyRefusal::Last(number) => return last_key(name, number),
        KeyRefusal::TooMany | KeyRefusal::Presigned | KeyRefusal::NoSignatures => {
            ErrorKind::Refused
        }
    };
    OperationError::new(kind, format!("zone {name}: {refusal}"))
}

fn last_key(name: &NameBuf, number: i64) -> OperationError {
    OperationError::refused(format!(
        "key {number} is the only active key of zone {name}; use `nameward zone unsecure {name}` to stop signing"
    ))
}

pub(crate) fn no_keys(name: &NameBuf) -> OperationError {
    OperationError::not_found(format!(
        "zone {name} has no keys; create one with `nameward zone secure {name}`"
    ))
}

/// Returns the error for a zone that already has keys.
pub(crate) fn signed_already(name: &NameBuf) -> OperationError {
    OperationError::conflict(format!(
        "zone {name} is already signed; see `nameward key list {name}`, add keys with `nameward key add`, and use \
         --denial or --soa-edit without --algorithm to change how it is signed"
    ))
}
