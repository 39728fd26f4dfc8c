//! Tests of operations on a server whose zones are files.

use super::*;
use nameward_keys::local::ZoneKeys;
use nameward_keys::storages::KeyStorages;
use proptest::prelude::*;

/// Creates a server with one zone from a file.
fn operations(runtime: &tokio::runtime::Runtime) -> Operations {
    let policies = Arc::<PolicyTable>::default();
    Operations {
        databases: Vec::new(),
        rank_of: Box::new(|name| (name.to_string() == "file.test.").then_some(1)),
        each_zone: Box::new(|each| {
            let name: NameBuf = "file.test.".parse().unwrap();
            each(name.as_name(), 1);
        }),
        commits: Commits::new(Arc::default(), None, ()).unwrap(),
        views: Arc::new(StoredViews::new(None, Arc::default())),
        is_frozen: Box::new(|_| false),
        policies: Arc::clone(&policies),
        stored_policies: Arc::new(StoredPolicies::new(None, Arc::clone(&policies))),
        rollover: rollover(&policies),
        keys_changed: Box::new(|_| {}),
        secondary_serials: Box::new(|_| None),
        files: Box::new(NoFiles),
        find_ds: Box::new(|_, _| Err(NoParent("nobody can be asked"))),
        copies: Arc::default(),
        api_keys: Arc::default(),
        cookies: Box::new(Vec::new),
        scripts: ScriptCheck::default(),
        runtime: runtime.handle().clone(),
    }
}

/// A configuration that declares the zone in its third line.
struct NoFiles;

impl ZoneFiles for NoFiles {
    fn create(
        &self,
        _: &NameBuf,
        _: Option<u16>,
        _: Vec<u8>,
    ) -> Result<nameward_maintain::follow::ServedFile, OperationError> {
        Err(nameward_maintain::follow::ZoneFileError::NoDirectory(None).into())
    }

    fn find(
        &self,
        _: &NameBuf,
    ) -> Result<Option<nameward_maintain::follow::ServedFile>, OperationError> {
        Ok(None)
    }

    fn remove(
        &self,
        _: &NameBuf,
        _: std::path::PathBuf,
        _: u16,
    ) -> Result<Option<Arc<nameward_zone::Zone>>, OperationError> {
        Ok(None)
    }

    fn set_aside(
        &self,
        _: &NameBuf,
        _: nameward_maintain::follow::ServedFile,
        _: nameward_maintain::follow::StoreVersion,
    ) -> Result<std::path::PathBuf, OperationError> {
        Err(nameward_maintain::follow::ZoneFileError::NoDirectory(None).into())
    }

    fn declared_at(&self, zone: Name<'_>) -> Option<String> {
        (zone.to_string() == "file.test.").then(|| "nameward.toml:3".into())
    }
}

fn rollover(policies: &Arc<PolicyTable>) -> Arc<RolloverManager> {
    let signatures = Arc::new(nameward_dnssec::SignatureCache::new(1));
    let keys = ZoneKeys::new(None, Arc::default(), signatures, Arc::clone(policies));
    let table = Arc::default();
    let rollover = RolloverManager::new(
        KeyStorages::new(Arc::new(keys), Vec::new()),
        table,
        Arc::clone(policies),
    );
    Arc::new(rollover)
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
}

fn show(zone: &str) -> OperationRequest {
    OperationRequest::ZoneShow { zone: zone.into() }
}

fn secure(zone: &str) -> OperationRequest {
    OperationRequest::ZoneSecure {
        zone: zone.into(),
        algorithm: None,
        denial: None,
        soa_edit: None,
    }
}

fn create(zone: &str, kind: ListedKind) -> OperationRequest {
    OperationRequest::ZoneCreate(ZoneTemplate {
        zone: zone.into(),
        kind,
        name_servers: vec!["b.test".into()],
        primaries: Vec::new(),
        hostmaster: None,
        ttl: 60,
        backend: None,
        template: None,
        records: Vec::new(),
    })
}

#[test]
fn zone_files_are_listed() {
    let runtime = runtime();
    let mut items = Vec::new();
    let result = operations(&runtime).run_for(None, &OperationRequest::ZoneList, &mut |item| {
        items.push(item);
        true
    });
    assert_eq!(result, Ok(OperationResult::Listed { items: 1 }));
    let zone = ListedZone {
        name: "file.test.".into(),
        kind: ListedKind::File,
        backend: 1,
        serial: None,
        state: "not loaded".into(),
        signing: "unknown".into(),
    };
    assert_eq!(items, [ListedItem::Zone(zone)]);
}

#[test]
fn requests_that_need_a_database_are_refused_with_a_reason() {
    let runtime = runtime();
    let operations = operations(&runtime);
    for (request, kind, reason) in [
        (
            OperationRequest::ZoneDelete {
                serial: None,
                zone: "file.test".into(),
                no_copy: false,
            },
            ErrorKind::Refused,
            "is declared at nameward.toml:3",
        ),
        (
            show("a.test"),
            ErrorKind::NotFound,
            "zone a.test. not found",
        ),
        (show("a..b.test"), ErrorKind::Invalid, "invalid zone name"),
        (
            create(
                "a.test",
                ListedKind::OfZone(nameward_zone::ZoneKind::Native),
            ),
            ErrorKind::Refused,
            "no backend can store new zones",
        ),
        (
            create(
                "file.test",
                ListedKind::OfZone(nameward_zone::ZoneKind::Native),
            ),
            ErrorKind::Conflict,
            "already exists",
        ),
        (
            create(
                "a.test",
                ListedKind::OfZone(nameward_zone::ZoneKind::Producer),
            ),
            ErrorKind::Invalid,
            "omit --ns",
        ),
        (
            OperationRequest::Stop,
            ErrorKind::Refused,
            "not an operation",
        ),
        (secure("a.test"), ErrorKind::NotFound, "not found"),
        (
            secure("file.test"),
            ErrorKind::Refused,
            "server.state_directory",
        ),
    ] {
        let error = operations
            .run_for(None, &request, &mut |_| true)
            .unwrap_err();
        assert_eq!(error.kind, kind, "{request:?}: {error}");
        assert!(error.message.contains(reason), "{request:?}: {error}");
    }
}

proptest! {
    #[test]
    fn no_request_panics(
        operation in "(zone|record)_(list|show|create|delete|set|add)",
        zone in "[!-~]{0,12}|file.test",
        name in "[!-~]{0,12}",
        content in ".{0,12}",
    ) {
        let text = serde_json::json!({
            "operation": operation, "zone": zone, "name": name, "type": "A", "ttl": 1,
            "content": [content],
        });
        if let Ok(request) = serde_json::from_value::<OperationRequest>(text) {
            let runtime = runtime();
            let _ = operations(&runtime).run_for(None, &request, &mut |_| true);
        }
    }
}
