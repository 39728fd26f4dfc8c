//! The rights of API keys in the web administration, the audit log and the page of keys.

use super::visitor::{Visitor, start};
use nameward_testkit::TestServer;

fn create_key(server: &TestServer, arguments: &[&str]) -> (String, String) {
    let output = server.command(&[&["api-key", "create"], arguments].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name}in {text}")).to_owned()
    };
    (field("id "), field("key "))
}

fn visitor(server: &TestServer, key: &str) -> Visitor {
    let mut visitor = Visitor::new(server.api());
    visitor.log_in(key);
    visitor
}

const CHANGE: [(&str, &str); 4] = [
    ("name", "www"),
    ("type", "A"),
    ("ttl", "60"),
    ("content", "192.0.2.3"),
];

#[test]
fn a_key_sees_and_changes_no_more_than_its_rights() {
    let server = start("resident");
    let admin = Visitor::logged_in(server.api());
    let fields = [
        ("name", "stored.test"),
        ("kind", "native"),
        ("name_servers", "ns1.stored.test."),
    ];
    assert_eq!(admin.post("/admin/new-zone", &fields).status, 303);

    let (_, key) = create_key(&server, &["--zone", "stored.test"]);
    let limited = visitor(&server, &key);
    let list = limited.page("/admin/zones");
    assert!(
        list.contains("stored.test.") && !list.contains("files.test."),
        "{list}"
    );
    assert!(!list.contains("/admin/api-keys"), "{list}");
    for path in [
        "/admin/zones/files.test.",
        "/admin/zones/files.test./rrset",
        "/admin/zones/files.test./export",
        "/admin/zones/files.test./dnssec",
        "/admin/zones/files.test./history",
        "/admin/zones/files.test./delete",
    ] {
        assert_eq!(limited.get(path).status, 404, "{path}");
    }
    assert_eq!(limited.get("/admin/api-keys").status, 403);
    let path = "/admin/zones/files.test./rrset";
    assert_eq!(limited.post(path, &CHANGE).status, 404);
    let path = "/admin/zones/stored.test./rrset";
    let preview = limited.post(path, &CHANGE);
    assert_eq!(limited.commit(path, &preview, &CHANGE).status, 303);

    let (_, key) = create_key(&server, &["--read-only"]);
    let reader = visitor(&server, &key);
    let zone = reader.page("/admin/zones/stored.test.");
    assert!(
        zone.contains("192.0.2.3") && !zone.contains("/rrset"),
        "{zone}"
    );
    assert!(zone.contains("(read-only)"), "{zone}");
    assert_eq!(reader.get(path).status, 403);
    assert_eq!(reader.post(path, &CHANGE).status, 403);
    for (path, fields) in [
        ("/admin/zones/stored.test./delete", ("typed", "stored.test")),
        ("/admin/zones/stored.test./dnssec", ("action", "sign")),
        ("/admin/new-zone", ("name", "new.test")),
        ("/admin/api-keys", ("action", "create")),
        ("/admin/zones/stored.test./transfers", ("action", "notify")),
    ] {
        let reply = reader.post(path, &[fields]);
        assert!(matches!(reply.status, 403 | 422), "{path}: {reply:?}");
        assert!(reply.body.contains("read-only"), "{path}: {reply:?}");
    }
    assert_eq!(reader.get("/admin/zones/stored.test.").status, 200);
    assert_eq!(reader.get("/admin/zones/new.test.").status, 404);
}

#[test]
fn a_session_ends_with_its_key() {
    let server = start("resident");
    let (id, key) = create_key(&server, &[]);
    let user = visitor(&server, &key);
    assert_eq!(user.get("/admin/zones").status, 200);
    let deleted = server.command(&["api-key", "delete", &id]);
    assert!(deleted.status.success(), "{deleted:?}");
    assert_eq!(user.get("/admin/zones").status, 303);
    let reply = user.post_plain("/admin/login", &[("key", &key)]);
    assert_eq!(reply.status, 401);
}

#[test]
fn keys_are_created_and_deleted_and_changes_are_in_the_audit_log() {
    let server = start("resident");
    let visitor = Visitor::logged_in(server.api());
    let fields = [
        ("action", "create"),
        ("description", "for <tests>"),
        ("zones", "files.test"),
        ("read_only", "1"),
        ("expires", "2099-01-31"),
    ];
    let made = visitor.post("/admin/api-keys", &fields);
    assert_eq!(made.status, 200, "{made:?}");
    let start = made.body.find("id=\"secret\">").expect("the key is shown") + 12;
    let secret = &made.body[start..start + made.body[start..].find('<').unwrap()];
    let mut other = Visitor::new(server.api());
    other.log_in(secret);
    assert_eq!(other.get("/admin/zones/files.test.").status, 200);
    let page = visitor.page("/admin/api-keys");
    assert!(!page.contains(secret), "{page}");
    assert!(
        page.contains("2099-01-31T00:00:00Z") && page.contains("read-only"),
        "{page}"
    );
    let wrong = [("action", "create"), ("expires", "tomorrow")];
    assert_eq!(visitor.post("/admin/api-keys", &wrong).status, 422);

    let path = "/admin/zones/files.test./rrset";
    let preview = visitor.post(path, &CHANGE);
    let audit = visitor.page("/admin/audit");
    assert!(
        !audit.contains("files.test.</td>"),
        "a preview changes nothing: {audit}"
    );
    let reasoned = [&CHANGE[..], &[("reason", "a new address")]].concat();
    assert_eq!(visitor.commit(path, &preview, &reasoned).status, 303);
    let audit = visitor.page("/admin/audit?zone=files.test.");
    assert!(
        audit.contains("a new address") && audit.contains("serial 2"),
        "{audit}"
    );
    let id = secret.split('_').nth(1).unwrap();
    let reply = visitor.post("/admin/api-keys", &[("action", "delete"), ("key", id)]);
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_eq!(other.get("/admin/zones").status, 303);
}
