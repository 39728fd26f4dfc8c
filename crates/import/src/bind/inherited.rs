//! Statements that a zone inherits from its view or from `options`.

use super::{
    acl::{self, MatchList},
    keywords::is_on,
    lex::ConfMistake,
    remotes::{self, RemoteList},
    settings::{self, SettingStatements},
    syntax::{ConfStatement, Word},
};

/// Statements that enable signing. Each is inherited separately.
pub(super) const SIGNING: [&str; 3] = ["dnssec-policy", "inline-signing", "auto-dnssec"];
/// Index of the statement that makes BIND store the signed zone in a copy.
pub(super) const INLINE_SIGNING: usize = 1;

/// Statements of `options`, a view or a zone; a zone inherits the ones it does not set.
#[derive(Default)]
pub(super) struct Inherited {
    pub also_notify: Option<RemoteList>,
    pub allow_query: Option<MatchList>,
    pub allow_query_on: Option<MatchList>,
    /// Whether each statement of [`SIGNING`] enables signing.
    pub signing: [Option<bool>; 3],
    /// Further permissions, for a migration.
    pub terms: Option<Box<SettingStatements>>,
}

impl Inherited {
    /// Reads an inheritable statement; returns whether it is one.
    pub(super) fn read(
        &mut self,
        keyword: &Word<'_>,
        statement: &ConfStatement<'_>,
        file: usize,
    ) -> Result<bool, ConfMistake> {
        let signing = SIGNING.iter().position(|word| keyword.is(word));
        if keyword.is("allow-query") {
            self.allow_query = Some(acl::read(statement, file)?);
        } else if keyword.is("allow-query-on") {
            self.allow_query_on = Some(acl::read(statement, file)?);
        } else if let Some(at) = signing {
            self.signing[at] = Some(is_on(statement));
            settings::see(&mut self.terms, keyword, statement, file);
        } else {
            if keyword.is("also-notify") {
                self.also_notify = Some(remotes::read(statement, file, false)?.1);
            }
            settings::see(&mut self.terms, keyword, statement, file);
            return Ok(false);
        }
        Ok(true)
    }
}
