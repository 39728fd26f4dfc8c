//! User actions: zones, records, import, keys, history, each with its preview.

use super::visitor::{Visitor, start};
use crate::databases::operation::ask;

const NXDOMAIN: u8 = 3;

fn create(visitor: &Visitor, zone: &str) {
    let server = format!("ns1.{zone}");
    let fields = [
        ("name", zone),
        ("kind", "native"),
        ("name_servers", server.as_str()),
    ];
    let reply = visitor.post("/admin/new-zone", &fields);
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_eq!(reply.header("location"), format!("/admin/zones/{zone}"));
}

#[test]
fn a_user_logs_in_sees_the_zones_and_logs_out() {
    let server = start("resident");
    let mut visitor = Visitor::new(server.api());
    let reply = visitor.get("/admin/zones/files.test.?q=www");
    assert_eq!(reply.status, 303);
    assert_eq!(
        reply.header("location"),
        "/admin/login?next=%2Fadmin%2Fzones%2Ffiles.test.%3Fq%3Dwww"
    );
    assert!(visitor.page("/admin/login").contains("API key"));
    let reply = visitor.post_plain("/admin/login", &[("key", "wrong")]);
    assert_eq!(reply.status, 401);
    assert_eq!(reply.header("set-cookie"), "");
    visitor.log_in(super::visitor::KEY);
    let list = visitor.page("/admin/zones");
    assert!(
        list.contains("<a href=\"/admin/zones/files.test.\">"),
        "{list}"
    );
    let zone = visitor.page("/admin/zones/files.test.");
    assert!(
        zone.contains("192.0.2.53") && zone.contains(">www</td>"),
        "{zone}"
    );
    let found = visitor.page("/admin/zones/files.test.?q=192.0.2.53");
    assert!(
        found.contains("1 RRset<") && !found.contains("192.0.2.1<"),
        "{found}"
    );
    let none = visitor.page("/admin/zones?q=nothing");
    assert!(none.contains("0 of 1 zone"), "{none}");
    assert_eq!(visitor.get("/admin/zones/none.test.").status, 404);
    assert_eq!(visitor.get("/admin/nothing").status, 404);
    let reply = visitor.post("/admin/logout", &[]);
    assert!(
        reply.header("set-cookie").contains("Max-Age=0"),
        "{reply:?}"
    );
    assert_eq!(visitor.get("/admin/zones").status, 303);
}

#[test]
fn pages_of_the_zone_list_follow_each_other_and_show_every_zone_once() {
    let setup = nameward_testkit::Setup::new().without_web();
    let text = "@ 60 SOA ns1 admin 1 2 3 4 5\n@ 60 NS ns1\nns1 60 A 192.0.2.1\n";
    let names: Vec<String> = (0..250)
        .map(|number| format!("z{number:03}.test"))
        .collect();
    let setup = names
        .iter()
        .fold(setup, |setup, name| setup.zone(name, text));
    let key = super::visitor::KEY;
    let server = setup
        .config(&format!(
            "[api]\nlisten = \"127.0.0.1:0\"\nkey = \"{key}\"\nadmin = true\n"
        ))
        .start();
    let visitor = Visitor::logged_in(server.api());
    let link = |page: &str, rel: &str| {
        let (_, rest) = page.split_once(&format!("rel=\"{rel}\" href=\""))?;
        Some(
            rest.split('"')
                .next()?
                .replace("&#38;", "&")
                .replace("&amp;", "&"),
        )
    };
    let shown = |page: &str| -> Vec<String> {
        let rows = page.split("<td class=\"name\">").skip(1);
        let name = |row: &str| {
            row.split('>')
                .nth(1)
                .unwrap()
                .split(".<")
                .next()
                .unwrap()
                .to_owned()
        };
        rows.map(name).collect()
    };
    let (mut seen, mut path) = (Vec::new(), "/admin/zones".to_owned());
    let last = loop {
        let page = visitor.page(&path);
        assert!(page.contains("250 zones"), "{page}");
        seen.extend(shown(&page));
        match link(&page, "next") {
            Some(next) => path = next,
            None => break page,
        }
    };
    assert_eq!(seen, names);
    let before = visitor.page(&link(&last, "prev").unwrap());
    assert_eq!(shown(&before), names[100..200]);
    let found = visitor.page("/admin/zones?q=z01");
    assert!(found.contains("10 of 250 zones"), "{found}");
    assert_eq!(shown(&found), names[10..20]);
    // Other sort orders are pages with numbers.
    let descending = visitor.page("/admin/zones?sort=name&order=desc");
    assert_eq!(shown(&descending)[0], names[249]);
}

#[test]
fn records_are_changed_after_a_preview_of_the_difference() {
    for mode in ["resident", "live"] {
        let server = start(mode);
        let visitor = Visitor::logged_in(server.api());
        create(&visitor, "stored.test.");
        for zone in ["files.test.", "stored.test."] {
            let path = format!("/admin/zones/{zone}/rrset");
            let add = [
                ("new", "1"),
                ("name", "new"),
                ("type", "a"),
                ("ttl", "60"),
                ("content", "192.0.2.7"),
                ("content", ""),
                ("reason", "a new host"),
                ("step", "preview"),
            ];
            let preview = visitor.post(&path, &add);
            assert_eq!(preview.status, 200, "{preview:?}");
            assert!(preview.body.contains("class=\"added\""), "{preview:?}");
            assert!(preview.body.contains("192.0.2.7</td>"), "{preview:?}");
            let name = format!("new.{zone}");
            assert_eq!(ask(&server, &name).map(|it| it.0), Some(NXDOMAIN));
            let done = visitor.commit(&path, &preview, &add);
            assert_eq!(done.status, 303, "{done:?}");
            assert_eq!(ask(&server, &name), Some((0, 7)));
            let page = visitor.page(&format!("/admin/zones/{zone}"));
            assert!(
                page.contains(&format!("Zone {zone}: changed, serial ")),
                "{page}"
            );
            // The same form again adds to an existing RRset.
            let again = visitor.post(&path, &add);
            assert_eq!(again.status, 422);
            assert!(again.body.contains("has a A RRset already"), "{again:?}");
            let wrong = [
                ("name", "new"),
                ("type", "A"),
                ("ttl", "60"),
                ("content", "nonsense"),
            ];
            let refused = visitor.post(&path, &wrong);
            assert_eq!(refused.status, 422);
            assert!(refused.body.contains("nonsense"), "{refused:?}");
            let delete = [
                ("name", "new"),
                ("type", "A"),
                ("ttl", "60"),
                ("deletion", "1"),
            ];
            let preview = visitor.post(&path, &delete);
            assert!(preview.body.contains("class=\"removed\""), "{preview:?}");
            assert_eq!(visitor.commit(&path, &preview, &delete).status, 303);
            assert_eq!(ask(&server, &name).map(|it| it.0), Some(NXDOMAIN));
        }
    }
}

#[test]
fn a_change_in_the_meantime_is_shown_and_not_overwritten() {
    let server = start("resident");
    let visitor = Visitor::logged_in(server.api());
    create(&visitor, "stored.test.");
    for zone in ["files.test.", "stored.test."] {
        let path = format!("/admin/zones/{zone}/rrset");
        let fields = |content| {
            [
                ("name", "@"),
                ("type", "TXT"),
                ("ttl", "60"),
                ("content", content),
            ]
        };
        let mine = fields("mine");
        let preview = visitor.post(&path, &mine);
        let theirs = fields("theirs");
        let other = visitor.post(&path, &theirs);
        assert_eq!(visitor.commit(&path, &other, &theirs).status, 303);
        let stale = visitor.commit(&path, &preview, &mine);
        assert_eq!(stale.status, 409, "{stale:?}");
        assert!(
            stale.body.contains("was changed in the meantime"),
            "{stale:?}"
        );
        assert!(stale.body.contains("theirs"), "{stale:?}");
        let page = visitor.page(&format!("/admin/zones/{zone}"));
        assert!(page.contains("theirs") && !page.contains("mine"), "{page}");
        assert_eq!(visitor.commit(&path, &stale, &mine).status, 303);
        let page = visitor.page(&format!("/admin/zones/{zone}"));
        assert!(page.contains("mine") && !page.contains("theirs"), "{page}");
    }
}

#[test]
fn databases_store_comments_and_disabled_records_and_files_do_not() {
    let server = start("live");
    let visitor = Visitor::logged_in(server.api());
    create(&visitor, "stored.test.");
    let path = "/admin/zones/stored.test./rrset";
    let fields = [
        ("name", "www"),
        ("type", "A"),
        ("ttl", "60"),
        ("content", "192.0.2.1"),
        ("content", "192.0.2.9"),
        ("disabled", "1"),
        ("comment", "the web server"),
    ];
    let preview = visitor.post(path, &fields);
    assert!(
        preview.body.contains("192.0.2.9 is stored and not served."),
        "{preview:?}"
    );
    assert!(
        preview.body.contains("Comment: the web server"),
        "{preview:?}"
    );
    assert_eq!(visitor.commit(path, &preview, &fields).status, 303);
    assert_eq!(ask(&server, "www.stored.test."), Some((0, 1)));
    let page = visitor.page("/admin/zones/stored.test.");
    assert!(
        page.contains("the web server") && page.contains("disabled"),
        "{page}"
    );
    let form = visitor.page(&format!("{path}?name=www&type=A"));
    assert!(form.contains("value=\"1\" checked"), "{form}");
    let form = visitor.page("/admin/zones/files.test./rrset?name=www&type=A");
    assert!(
        !form.contains("name=\"disabled\"") && !form.contains("name=\"comment\""),
        "{form}"
    );
}

#[test]
fn zone_file_text_is_imported_after_a_preview_and_exported() {
    let server = start("resident");
    let visitor = Visitor::logged_in(server.api());
    let path = "/admin/zones/files.test./import";
    let text = "www 60 IN A 192.0.2.80\nmail 60 IN A 192.0.2.25\n@ MX 10 mail\n";
    let merge = [("text", text), ("mode", "merge"), ("step", "preview")];
    let preview = visitor.post(path, &merge);
    assert_eq!(preview.status, 200, "{preview:?}");
    assert!(preview.body.contains("10 mail.files.test."), "{preview:?}");
    assert_eq!(visitor.commit(path, &preview, &merge).status, 303);
    assert_eq!(ask(&server, "www.files.test."), Some((0, 80)));
    assert_eq!(ask(&server, "ns.files.test."), Some((0, 53)));
    let export = visitor.get("/admin/zones/files.test./export");
    assert_eq!(
        export.header("content-disposition"),
        "attachment; filename=\"files.test.zone\""
    );
    assert!(
        export
            .body
            .contains("mail.files.test.\t60\tIN\tA\t192.0.2.25\n"),
        "{export:?}"
    );
    let kept = export.body.replace("192.0.2.25", "192.0.2.26");
    let kept: String = kept
        .lines()
        .filter(|line| !line.starts_with("www"))
        .map(|line| format!("{line}\n"))
        .collect();
    let replace = [
        ("text", kept.as_str()),
        ("mode", "replace"),
        ("step", "preview"),
    ];
    let preview = visitor.post(path, &replace);
    assert_eq!(
        visitor.commit(path, &preview, &replace).status,
        303,
        "{preview:?}"
    );
    assert_eq!(ask(&server, "mail.files.test."), Some((0, 26)));
    assert_eq!(
        ask(&server, "www.files.test.").map(|it| it.0),
        Some(NXDOMAIN)
    );
    let broken = visitor.post(path, &[("text", "www A nonsense"), ("mode", "merge")]);
    assert_eq!(broken.status, 422);
    assert!(broken.body.contains("zone:1"), "{broken:?}");
}

#[test]
fn an_uploaded_file_is_imported() {
    let server = start("resident");
    let visitor = Visitor::logged_in(server.api());
    let token = visitor.get("/admin/zones").hidden("token");
    let part = |name: &str, value: &str| {
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let file = "--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"z\"\r\nContent-Type: text/plain\r\n\r\n\
         up A 192.0.2.99\r\n--x--\r\n";
    let body = part("token", &token) + &part("text", "") + &part("mode", "merge") + file;
    let head = format!(
        "POST /admin/zones/files.test./import HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nContent-Length: {}\r\n\
         Content-Type: multipart/form-data; boundary=x\r\nConnection: close\r\n\r\n",
        visitor.at,
        visitor.cookie.clone().unwrap(),
        body.len()
    );
    let preview = super::visitor::exchange(visitor.at, &(head + &body));
    assert_eq!(preview.status, 200, "{preview:?}");
    assert!(preview.body.contains("192.0.2.99"), "{preview:?}");
}

#[test]
fn a_zone_is_signed_its_ds_shown_and_its_history_rolled_back() {
    let server = start("resident");
    let visitor = Visitor::logged_in(server.api());
    let path = "/admin/zones/files.test./rrset";
    let fields = [
        ("name", "www"),
        ("type", "A"),
        ("ttl", "60"),
        ("content", "192.0.2.2"),
    ];
    let preview = visitor.post(path, &fields);
    assert_eq!(visitor.commit(path, &preview, &fields).status, 303);
    let history = visitor.page("/admin/zones/files.test./history");
    assert!(history.contains("api 127.0.0.1"), "{history}");
    let difference = visitor.page("/admin/zones/files.test./history?from=1&to=2");
    assert!(
        difference.contains("192.0.2.2") && difference.contains("192.0.2.1"),
        "{difference}"
    );
    let back = [("to", "1"), ("step", "preview")];
    let preview = visitor.post("/admin/zones/files.test./history", &back);
    assert!(
        preview.body.contains("Restore the records of serial 1"),
        "{preview:?}"
    );
    let done = visitor.commit("/admin/zones/files.test./history", &preview, &back);
    assert_eq!(done.status, 303, "{done:?}");
    assert_eq!(ask(&server, "www.files.test."), Some((0, 1)));

    let path = "/admin/zones/files.test./dnssec";
    let sign = [
        ("action", "sign"),
        ("algorithm", "ED25519"),
        ("denial", "nsec3"),
    ];
    let reply = visitor.post(path, &sign);
    assert_eq!(reply.status, 303, "{reply:?}");
    let page = visitor.page(path);
    assert!(
        page.contains("files.test. IN DS ") && page.contains("ED25519"),
        "{page}"
    );
    // One click deletes no private key.
    let reply = visitor.post(path, &[("action", "remove"), ("key", "1")]);
    assert_eq!(reply.status, 422, "{reply:?}");
    assert!(visitor.page(path).contains("files.test. IN DS "));
    let reply = visitor.post(path, &[("action", "unsign"), ("typed", "other.test")]);
    assert_eq!(reply.status, 422);
    let unsign = [
        ("action", "unsign"),
        ("typed", "files.test"),
        ("force", "1"),
    ];
    assert_eq!(visitor.post(path, &unsign).status, 303);
    let page = visitor.page("/admin/zones/files.test./transfers?secondaries=1");
    assert!(page.contains("Secondaries"), "{page}");
    let reply = visitor.post(
        "/admin/zones/files.test./transfers",
        &[("action", "notify")],
    );
    assert_eq!(reply.status, 303, "{reply:?}");
}

#[test]
fn a_zone_is_deleted_after_its_name_was_typed_and_restored() {
    let server = start("live");
    let visitor = Visitor::logged_in(server.api());
    create(&visitor, "stored.test.");
    let path = "/admin/zones/stored.test./delete";
    let reply = visitor.post(path, &[("typed", "stored")]);
    assert_eq!(reply.status, 422);
    assert!(visitor.get("/admin/zones/stored.test.").status == 200);
    assert_eq!(visitor.post(path, &[("typed", "Stored.test")]).status, 303);
    assert_eq!(visitor.get("/admin/zones/stored.test.").status, 404);
    let page = visitor.page("/admin/deleted");
    assert!(page.contains("stored.test."), "{page}");
    let reply = visitor.post("/admin/deleted", &[("zone", "stored.test.")]);
    assert_eq!(reply.status, 303, "{reply:?}");
    assert_eq!(visitor.get("/admin/zones/stored.test.").status, 200);
    let page = visitor.page("/admin/search?q=ns1.stored");
    assert!(page.contains("stored.test."), "{page}");
}
