//! Decides by the permissions of an API key which operations it may request, for which zones, and which items of a
//! listing it sees.
//!
//! Every request of an API key passes [`KeyScope::run`], whether it comes from a resource of the API, the
//! `operations` endpoint or the web administration: [`Operations::run_recorded`](super::Operations::run_recorded)
//! calls it. A zone outside the scope looks like one that does not exist.

use nameward_wire::{Name, NameBuf};

use super::record::search::RESULTS_MAX;
use super::server::audit::LIMIT_MAX;
use super::{
    AuditRequest, ErrorKind, ItemSink, ListedItem, OperationError, OperationRequest,
    OperationResult, Outcome, RequestEffect, RequestSubject, zone_name,
};

/// The zones and operations that a key is valid for; by default all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyScope {
    /// Zones at and below these names; all if empty.
    zones: Vec<NameBuf>,
    read_only: bool,
}

impl KeyScope {
    /// The unrestricted scope.
    pub const fn all() -> Self {
        KeyScope {
            zones: Vec::new(),
            read_only: false,
        }
    }

    /// Creates a scope: zones at and below these names, or all if there are none.
    pub fn new(zones: Vec<NameBuf>, read_only: bool) -> Self {
        KeyScope { zones, read_only }
    }

    /// Returns the names at and below which zones are in the scope; empty means all.
    pub fn zones(&self) -> &[NameBuf] {
        &self.zones
    }

    /// Checks whether it permits no changes.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Checks whether it is limited to some zones.
    pub fn is_limited(&self) -> bool {
        !self.zones.is_empty()
    }

    /// Checks whether a zone is in the scope.
    pub fn covers_name(&self, zone: Name<'_>) -> bool {
        let mut suffixes = self.zones.iter();
        !self.is_limited() || suffixes.any(|suffix| zone.is_at_or_below(suffix.as_name()))
    }

    /// Checks whether a zone is in the scope.
    pub fn covers(&self, zone: &str) -> bool {
        if !self.is_limited() {
            return true;
        }
        zone_name(zone).is_ok_and(|name| self.covers_name(name.as_name()))
    }

    /// Rejects requests that concern the whole server.
    pub fn require_server(&self) -> Outcome<()> {
        if self.is_limited() {
            Err(forbidden(
                "this API key is limited to some zones, and this concerns the whole server",
            ))
        } else {
            Ok(())
        }
    }

    /// Checks whether a request is permitted.
    pub fn check(&self, request: &OperationRequest) -> Outcome<()> {
        match (self.is_read_only(), request.effect()) {
            (false, _) | (true, RequestEffect::Read) => {}
            (true, RequestEffect::ReadSecret) => {
                return Err(forbidden(
                    "this API key is read-only, which does not include secrets",
                ));
            }
            (true, _) => return Err(forbidden("this API key is read-only")),
        }
        match request.subject() {
            RequestSubject::Listing => Ok(()),
            RequestSubject::Server => self.require_server(),
            RequestSubject::Zones(zones) => match zones.into_iter().find(|zone| !self.covers(zone))
            {
                None => Ok(()),
                Some(outside) => Err(outside_error(request, outside)),
            },
        }
    }

    /// Checks whether an item of a listing is in the scope.
    pub fn shows(&self, item: &ListedItem) -> bool {
        !self.is_limited() || item.zone().is_none_or(|zone| self.covers(zone))
    }

    /// Runs a permitted request, and leaves out the items outside the scope.
    pub fn run(
        &self,
        request: &OperationRequest,
        items: ItemSink<'_>,
        run: impl FnOnce(&OperationRequest, ItemSink<'_>) -> Outcome,
    ) -> Outcome {
        self.check(request)?;
        if !self.is_limited() {
            return run(request, items);
        }
        // The limit of a listing counts the items that the key sees.
        let (wider, limit) = match request {
            OperationRequest::RecordSearch { pattern, limit } => {
                let wider = OperationRequest::RecordSearch {
                    pattern: pattern.clone(),
                    limit: RESULTS_MAX,
                };
                (Some(wider), *limit)
            }
            OperationRequest::CommentSearch { pattern, limit } => {
                let wider = OperationRequest::CommentSearch {
                    pattern: pattern.clone(),
                    limit: RESULTS_MAX,
                };
                (Some(wider), *limit)
            }
            OperationRequest::AuditList(list) => {
                let wider = OperationRequest::AuditList(AuditRequest {
                    limit: LIMIT_MAX,
                    ..list.clone()
                });
                (Some(wider), list.limit)
            }
            _ => (None, u64::MAX),
        };
        let mut shown = 0;
        let mut take = |item: ListedItem| {
            if !self.shows(&item) {
                return true;
            }
            shown += 1;
            items(item) && shown < limit
        };
        let result = run(wider.as_ref().unwrap_or(request), &mut take)?;
        Ok(match result {
            OperationResult::Listed { .. } => OperationResult::Listed { items: shown },
            OperationResult::ListedPage { next, .. } => {
                let items = shown;
                OperationResult::ListedPage { items, next }
            }
            other => other,
        })
    }
}

impl ListedItem {
    /// Returns the zone of an item of a zone listing; none for items within one zone and of other listings.
    pub fn zone(&self) -> Option<&str> {
        match self {
            ListedItem::Zone(zone) => Some(&zone.name),
            ListedItem::Attributes(zone) => Some(&zone.name),
            ListedItem::DeletedZone(zone) => Some(&zone.name),
            ListedItem::ZoneKey(key) => Some(&key.zone),
            ListedItem::Status(status) => Some(&status.name),
            ListedItem::Found(found) => Some(&found.zone),
            ListedItem::Comment(comment) => comment.zone.as_deref(),
            ListedItem::Catalog(catalog) => Some(&catalog.name),
            ListedItem::Member(member) => Some(&member.zone),
            ListedItem::Secured(zone) => Some(&zone.zone),
            // No scope covers an empty name: entries about the server are hidden from keys that are limited to zones.
            ListedItem::Audit(entry) => Some(entry.zone.as_deref().unwrap_or_default()),
            ListedItem::Record(_)
            | ListedItem::TsigKey(_)
            | ListedItem::CookieSecret(_)
            | ListedItem::View(_)
            | ListedItem::Network(_)
            | ListedItem::Difference(_)
            | ListedItem::Changed(_)
            | ListedItem::Version(_)
            | ListedItem::Metadata(_)
            | ListedItem::Autoprimary(_)
            | ListedItem::ApiKey(_) => None,
        }
    }
}

fn forbidden(text: &str) -> OperationError {
    OperationError::new(ErrorKind::Forbidden, text)
}

fn outside_error(request: &OperationRequest, zone: &str) -> OperationError {
    match request {
        OperationRequest::ZoneCreate(_) | OperationRequest::ZoneProvision(_) => {
            forbidden(&format!("zone {zone} is outside the zones of this API key"))
        }
        _ => OperationError::not_found(format!(
            "zone {zone} not found; `nameward zone list` lists the zones"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(zones: &[&str], read_only: bool) -> KeyScope {
        let zones = zones.iter().map(|zone| zone.parse().unwrap());
        KeyScope::new(zones.collect(), read_only)
    }

    fn kind(scope: &KeyScope, text: &str) -> Option<ErrorKind> {
        let request: OperationRequest = serde_json::from_str(text).unwrap();
        scope.check(&request).err().map(|error| error.kind)
    }

    #[test]
    fn a_suffix_covers_itself_and_names_below_in_any_letter_case() {
        let scope = scope(&["example.org.", "example.net."], false);
        for zone in ["example.org", "Sub.EXAMPLE.org.", "example.net."] {
            assert!(scope.covers(zone), "{zone}");
        }
        for zone in ["org.", "badexample.org.", ".", "a..b", ""] {
            assert!(!scope.covers(zone), "{zone}");
        }
        assert!(KeyScope::default().covers("anything."));
    }

    #[test]
    fn requests_outside_the_scope_are_forbidden_or_find_nothing() {
        let limited = scope(&["example.org."], false);
        for (text, expected) in [
            (r#"{"operation":"zone_show","zone":"example.org"}"#, None),
            (
                r#"{"operation":"zone_show","zone":"other.test"}"#,
                Some(ErrorKind::NotFound),
            ),
            (
                r#"{"operation":"zone_delete","zone":"other.test"}"#,
                Some(ErrorKind::NotFound),
            ),
            (
                r#"{"operation":"zone_create","zone":"other.test"}"#,
                Some(ErrorKind::Forbidden),
            ),
            (
                r#"{"operation":"zone_create","zone":"new.example.org"}"#,
                None,
            ),
            (
                r#"{"operation":"zone_set","zone":"example.org","catalog":"other.test"}"#,
                Some(ErrorKind::NotFound),
            ),
            (
                r#"{"operation":"apply","zones":[{"zone":"example.org","steps":[]},{"zone":"other.test","steps":[]}]}"#,
                Some(ErrorKind::NotFound),
            ),
            (r#"{"operation":"zone_list"}"#, None),
            (r#"{"operation":"zone_status"}"#, None),
            (
                r#"{"operation":"zone_notify","zone":"other.test"}"#,
                Some(ErrorKind::NotFound),
            ),
            (r#"{"operation":"stop"}"#, Some(ErrorKind::Forbidden)),
            (r#"{"operation":"status"}"#, Some(ErrorKind::Forbidden)),
            (r#"{"operation":"tsig_list"}"#, Some(ErrorKind::Forbidden)),
            (r#"{"operation":"cache_flush"}"#, Some(ErrorKind::Forbidden)),
            (
                r#"{"operation":"zone_secure_all"}"#,
                Some(ErrorKind::Forbidden),
            ),
            (
                r#"{"operation":"api_key_create"}"#,
                Some(ErrorKind::Forbidden),
            ),
        ] {
            assert_eq!(kind(&limited, text), expected, "{text}");
        }
    }

    #[test]
    fn a_read_only_key_changes_nothing_and_sees_no_secrets() {
        let reader = scope(&[], true);
        for (text, is_permitted) in [
            (r#"{"operation":"zone_list"}"#, true),
            (r#"{"operation":"status"}"#, true),
            (r#"{"operation":"tsig_list"}"#, true),
            (r#"{"operation":"api_key_list"}"#, true),
            (r#"{"operation":"tsig_list","secrets":true}"#, false),
            (
                r#"{"operation":"key_export","zone":"a.test","key":1}"#,
                false,
            ),
            (r#"{"operation":"zone_delete","zone":"a.test"}"#, false),
            (r#"{"operation":"zone_notify","zone":"a.test"}"#, false),
            (r#"{"operation":"log_level"}"#, true),
            (r#"{"operation":"log_level","level":"debug"}"#, false),
            (r#"{"operation":"stop"}"#, false),
            (r#"{"operation":"reload"}"#, false),
            (r#"{"operation":"api_key_create"}"#, false),
        ] {
            let expected = (!is_permitted).then_some(ErrorKind::Forbidden);
            assert_eq!(kind(&reader, text), expected, "{text}");
        }
    }
}
