//! Owns login and logout. The API key is checked by the listener, with the limits on guesses that the API has.

use askama::Template;

use super::page::{page, redirect};
use super::request::AdminRequest;
use super::session::COOKIE;
use super::{PageResult, Visit};
use crate::response::ApiResponse;

/// Octets of the body of a login.
pub const LOGIN_MAX: usize = 16 * 1024;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage<'a> {
    server: &'a str,
    next: &'a str,
    problem: Option<&'a str>,
}

/// The login page, with the reason why the last attempt failed.
pub fn login_page(server: &str, next: &str, status: u16, problem: Option<&str>) -> ApiResponse {
    let next = local_target(next);
    page(
        status,
        &LoginPage {
            server,
            next,
            problem,
        },
    )
}

/// The reply to a request without a session: a GET is repeated after the login, a form cannot be.
pub fn redirect_to_login(request: &AdminRequest) -> ApiResponse {
    let next = match request.method {
        crate::request::ApiMethod::Get if request.target != "/admin" => &request.target,
        _ => "",
    };
    let next = super::page::escaped(next);
    if next.is_empty() {
        redirect("/admin/login")
    } else {
        redirect(&format!("/admin/login?next={next}"))
    }
}

/// The reply to a successful login.
pub fn logged_in(request: &AdminRequest, id: &str) -> ApiResponse {
    let next = local_target(request.form.field("next"));
    redirect(next).with("set-cookie", cookie(id, request.is_secure, None))
}

/// Ends the session.
pub fn logout(visit: &Visit<'_>, _: &[&str]) -> PageResult {
    if let Some(id) = &visit.request.session {
        visit.admin.sessions.end(id);
    }
    let expired = cookie("", visit.request.is_secure, Some(0));
    Ok(redirect("/admin/login").with("set-cookie", expired))
}

/// The session cookie. It is never readable by scripts and never sent by requests from other sites.
fn cookie(id: &str, is_secure: bool, max_age: Option<u32>) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    let age = max_age.map(|age| format!("; Max-Age={age}"));
    let age = age.unwrap_or_default();
    format!("{COOKIE}={id}; Path=/admin; HttpOnly; SameSite=Strict{secure}{age}")
}

/// A target of ours; anything else is the first page.
fn local_target(next: &str) -> &str {
    let is_ours = next == "/admin" || next.starts_with("/admin/") || next.starts_with("/admin?");
    let is_plain = next
        .bytes()
        .all(|octet| octet.is_ascii_graphic() && octet != b'\\');
    if is_ours && is_plain && !next.starts_with("/admin/log") {
        next
    } else {
        "/admin/zones"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_redirects_to_our_own_pages_only() {
        for (next, expected) in [
            ("/admin/zones/a.test.?x=1", "/admin/zones/a.test.?x=1"),
            ("https://evil.example/", "/admin/zones"),
            ("//evil.example/admin/", "/admin/zones"),
            ("/admin/\r\nSet-Cookie: x", "/admin/zones"),
            ("/adminevil", "/admin/zones"),
            ("/admin/logout", "/admin/zones"),
            ("", "/admin/zones"),
        ] {
            assert_eq!(local_target(next), expected);
        }
    }

    #[test]
    fn the_cookie_is_hidden_from_scripts_and_other_sites() {
        assert_eq!(
            cookie("x", true, None),
            "nameward-session=x; Path=/admin; HttpOnly; SameSite=Strict; Secure"
        );
        assert!(!cookie("x", false, None).contains("Secure"));
    }
}
