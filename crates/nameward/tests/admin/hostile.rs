//! Requests from other sites, guessed keys and tokens, and contents that try to become markup.

use super::visitor::{KEY, Visitor, start};
use nameward_testkit::Setup;

#[test]
fn the_administration_is_off_by_default() {
    let config = format!("[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\n");
    let server = Setup::new().without_web().config(&config).start();
    let visitor = Visitor::new(server.api());
    for path in ["/admin", "/admin/login", "/admin/style.css"] {
        assert_eq!(visitor.get(path).status, 404, "{path}");
    }
}

#[test]
fn it_is_on_the_port_of_the_api_and_not_on_that_of_the_status_page() {
    let setup = Setup::new();
    let config = format!("[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{KEY}\"\nadmin = true\n");
    let server = setup.config(&config).start();
    assert_eq!(Visitor::new(server.web()).get("/admin/login").status, 404);
    assert_eq!(Visitor::new(server.api()).get("/admin/login").status, 200);
}

#[test]
fn every_reply_has_strict_headers() {
    let server = start("resident");
    let visitor = Visitor::logged_in(server.api());
    for path in [
        "/admin/login",
        "/admin/zones",
        "/admin/zones/files.test.",
        "/admin/zones/none.test.",
        "/admin/style.css",
        "/admin/script.js",
        "/admin/zones/files.test./export",
    ] {
        let reply = visitor.get(path);
        let policy = reply.header("content-security-policy");
        for part in [
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "form-action 'self'",
            "frame-ancestors 'none'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(reply.header("x-frame-options"), "DENY", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("access-control-allow-origin"), "", "{path}");
        let is_asset = path.ends_with("css") || path.ends_with("js");
        assert_eq!(
            reply.header("cache-control") == "no-store",
            !is_asset,
            "{path}"
        );
        assert!(
            !reply.body.contains("<script>") && !reply.body.contains(" style="),
            "{path}"
        );
        assert!(
            !reply.body.contains("http://") && !reply.body.contains("https://"),
            "{path}"
        );
    }
    assert_eq!(visitor.send("PUT", "/admin/zones", "").status, 405);
    assert_eq!(visitor.send("HEAD", "/admin/login", "").status, 200);
}

#[test]
fn a_session_cookie_is_new_at_each_login_and_hidden_from_scripts() {
    let server = start("resident");
    let mut visitor = Visitor::new(server.api());
    // An identifier planted by an attacker is not accepted.
    visitor.cookie = Some(format!("nameward-session={}", "ab".repeat(32)));
    let reply = visitor.post_plain("/admin/login", &[("key", KEY)]);
    let cookie = reply.header("set-cookie").to_owned();
    assert!(!cookie.contains(&"ab".repeat(32)), "{cookie}");
    assert!(
        cookie.ends_with("; Path=/admin; HttpOnly; SameSite=Strict"),
        "{cookie}"
    );
    assert_eq!(visitor.get("/admin/zones").status, 303);
    let first = cookie.split(';').next().unwrap().to_owned();
    visitor.cookie = Some(first.clone());
    assert_eq!(visitor.get("/admin/zones").status, 200);
    // A login from the same browser ends its previous session.
    visitor.headers = "X-Forwarded-Proto: https\r\n".into();
    let reply = visitor.post_plain("/admin/login", &[("key", KEY)]);
    assert!(
        reply.header("set-cookie").ends_with("; Secure"),
        "{reply:?}"
    );
    assert_ne!(
        reply.header("set-cookie").split(';').next(),
        Some(first.as_str())
    );
    assert_eq!(visitor.get("/admin/zones").status, 303);
}

#[test]
fn forms_from_other_sites_and_without_the_token_change_nothing() {
    let server = start("resident");
    let mut visitor = Visitor::logged_in(server.api());
    let token = visitor.get("/admin/zones").hidden("token");
    let path = "/admin/zones/files.test./delete";
    let typed = ("typed", "files.test");
    for fields in [
        vec![typed],
        vec![typed, ("token", "")],
        vec![typed, ("token", "0")],
        vec![typed, ("token", &token[1..])],
    ] {
        assert_eq!(visitor.post_plain(path, &fields).status, 403, "{fields:?}");
    }
    for header in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
    ] {
        visitor.headers = header.into();
        let reply = visitor.post_plain(path, &[typed, ("token", &token)]);
        assert_eq!(reply.status, 403, "{header}");
        let reply = visitor.post_plain("/admin/login", &[("key", KEY)]);
        assert_eq!(reply.status, 403, "{header}");
    }
    // The token of another session is invalid.
    visitor.headers.clear();
    let other = Visitor::logged_in(server.api());
    assert_eq!(
        other.post_plain(path, &[typed, ("token", &token)]).status,
        403
    );
    // GET changes nothing.
    let target = format!("{path}?typed=files.test&token={token}");
    assert_eq!(visitor.get(&target).status, 200);
    assert_eq!(visitor.get("/admin/zones/files.test.").status, 200);
    let own = format!(
        "Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n",
        visitor.at
    );
    visitor.headers = own;
    assert_eq!(
        visitor
            .post_plain("/admin/logout", &[("token", &token)])
            .status,
        303
    );
}

#[test]
fn keys_cannot_be_guessed_without_limit() {
    let server = start("resident");
    let visitor = Visitor::new(server.api());
    let statuses: Vec<u16> = (0..30)
        .map(|guess| {
            let guess = format!("guess-{guess}");
            visitor
                .post_plain("/admin/login", &[("key", &guess)])
                .status
        })
        .collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    assert!(!statuses.contains(&303), "{statuses:?}");
    let huge = "x".repeat(100_000);
    assert_eq!(
        visitor.post_plain("/admin/login", &[("key", &huge)]).status,
        413
    );
    let reply = visitor.send("POST", "/admin/zones/files.test./import", &huge);
    assert_eq!(reply.status, 303, "without a session no body is read");
}

#[test]
fn names_data_and_comments_never_become_markup() {
    let server = start("live");
    let visitor = Visitor::logged_in(server.api());
    let evil = "<script>alert(1)</script>";
    let zone = "\\\"\\>\\<img\\032src=x\\032onerror=alert\\(1\\)\\>.test.";
    let fields = [
        ("name", zone),
        ("kind", "native"),
        ("name_servers", "ns1.a.test."),
        ("account", evil),
    ];
    let reply = visitor.post("/admin/new-zone", &fields);
    assert_eq!(reply.status, 303, "{reply:?}");
    let at = reply.header("location").to_owned();
    let txt = format!("\"{evil}'\\\"><b>\"");
    let path = format!("{at}/rrset");
    let fields = [
        ("name", "\\<b\\>"),
        ("type", "TXT"),
        ("ttl", "60"),
        ("content", txt.as_str()),
        ("comment", evil),
        ("reason", evil),
    ];
    let preview = visitor.post(&path, &fields);
    assert_eq!(preview.status, 200, "{preview:?}");
    assert_eq!(visitor.commit(&path, &preview, &fields).status, 303);
    let wrong = visitor.post(
        &path,
        &[
            ("name", evil),
            ("type", evil),
            ("ttl", evil),
            ("content", evil),
        ],
    );
    let mut bodies = vec![preview.body, wrong.body];
    for page in [
        "/admin/zones".into(),
        format!(
            "/admin/zones?q={}",
            "%22%3E%3Cscript%3Ealert(1)%3C/script%3E"
        ),
        "/admin/zones?kind=%22%3E%3Cscript%3E&sort=%22%3E%3Cscript%3E&page=%3Cscript%3E".into(),
        at.clone(),
        format!("{at}?q=%22%3E%3Cscript%3E&type=%3Cscript%3E"),
        format!("{at}/rrset?name=%5C%3Cb%5C%3E&type=TXT"),
        format!("{at}/dnssec"),
        format!("{at}/history"),
        format!("{at}/import"),
        format!("{at}/transfers"),
        format!("{at}/delete"),
        "/admin/search?q=%3Cscript%3E".into(),
        "/admin/zones/%3Cscript%3E".into(),
        "/admin/login?next=%22%3E%3Cscript%3E".into(),
    ] {
        bodies.push(visitor.get(&page).body);
    }
    for body in bodies {
        let plain = body.replace("<script src=\"/admin/script.js\" defer></script>", "");
        for part in ["<script", "<img src=x", "<b>", "onerror=alert(1)>"] {
            assert!(!plain.contains(part), "{part} in {plain}");
        }
    }
    let export = visitor.get(&format!("{at}/export?view=text"));
    assert!(
        export.header("content-type").starts_with("text/plain"),
        "{export:?}"
    );
}
