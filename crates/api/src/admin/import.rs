//! Owns import and export of zone file text. An import is a proposal like any other change.

use askama::Template;
use nameward_control::operations::{OperationError, RrsetsRequest};

use super::page::{AdminFrame, AdminView, ZoneHead, ZoneTab, page};
use super::proposal::{Proposal, check_editable, propose};
use super::{PageResult, Visit};
use crate::content;
use crate::response::{ApiResponse, media};

#[derive(Template)]
#[template(path = "import.html")]
struct ImportPage<'a> {
    frame: AdminFrame<'a>,
    zone: ZoneHead,
    text: &'a str,
    replaces: bool,
    reason: &'a str,
    problem: Option<String>,
}

/// The form of an import.
pub fn form(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    draw(visit, arguments[0], None)
}

/// Previews or commits an import.
pub fn import(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    if visit.field("step") == "edit" {
        return draw(visit, arguments[0], None);
    }
    let zone = visit.zone(arguments[0])?;
    check_editable(visit, &zone)?;
    let form = &visit.request.form;
    let text = if form.field("file").trim().is_empty() {
        form.field("text")
    } else {
        form.field("file")
    };
    if text.trim().is_empty() {
        let problem = "Paste the text of a zone file, or choose a file.".to_owned();
        return draw(visit, arguments[0], Some(problem));
    }
    let replaces = visit.field("mode") == "replace";
    let fields = vec![
        ("text".to_owned(), text.to_owned()),
        ("mode".to_owned(), visit.field("mode").to_owned()),
        ("reason".to_owned(), visit.field("reason").to_owned()),
    ];
    let proposal = Proposal {
        title: if replaces {
            "Replace all records".into()
        } else {
            "Add and replace RRsets".into()
        },
        tab: ZoneTab::Import,
        request: RrsetsRequest {
            zone: zone.name.clone(),
            zone_file: Some(text.to_owned()),
            delete_others: replaces,
            raise_serial: true,
            ..RrsetsRequest::default()
        },
        zone,
        notes: Vec::new(),
        fields,
        action: "/import",
        is_editable: true,
    };
    propose(visit, &proposal)
}

fn draw(visit: &Visit<'_>, zone: &str, problem: Option<String>) -> PageResult {
    let zone = visit.zone(zone)?;
    let status = if problem.is_some() { 422 } else { 200 };
    let page_of = ImportPage {
        frame: AdminFrame::new(visit, AdminView::Zones),
        zone: ZoneHead::new(visit, &zone, ZoneTab::Import),
        text: visit.request.form.field("text"),
        replaces: visit.field("mode") == "replace",
        reason: visit.field("reason"),
        problem,
    };
    Ok(page(status, &page_of))
}

/// The zone as a zone file, to be saved or shown.
pub fn export(visit: &Visit<'_>, arguments: &[&str]) -> PageResult {
    let zone = visit.zone(arguments[0])?;
    let text = content::zone_file(&zone.name, |request, items| visit.list(request, items))?;
    let text = text.ok_or_else(|| {
        OperationError::refused(format!(
            "zone {} is too large for one reply: use `nameward zone export`",
            zone.name
        ))
    })?;
    let reply = ApiResponse::text(200, media::ZONE, text).with("cache-control", "no-store");
    Ok(match visit.parameter("view") {
        "text" => reply,
        _ => reply.with("content-disposition", disposition(&zone.name)),
    })
}

/// A file name of letters, digits and dots: the name of a zone may have anything.
fn disposition(zone: &str) -> String {
    let name = zone.trim_end_matches('.').chars().take(100);
    let name: String = name
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') {
                c
            } else {
                '_'
            }
        })
        .collect();
    let name = if name.is_empty() { "root" } else { &name };
    format!("attachment; filename=\"{name}.zone\"")
}

#[cfg(test)]
mod tests {
    use super::disposition;

    #[test]
    fn file_names_contain_nothing_of_meaning() {
        assert_eq!(
            disposition("a.test."),
            "attachment; filename=\"a.test.zone\""
        );
        assert_eq!(disposition("."), "attachment; filename=\"root.zone\"");
        assert_eq!(
            disposition("a\"\r\n/b.test."),
            "attachment; filename=\"a____b.test.zone\""
        );
    }
}
