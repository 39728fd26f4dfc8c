//! Databases that the new configuration uses: contents that the other server treats differently.

use nameward_import::migrate::{ImportRefusal, ImportVerdict, ImportedServer, ImportedValue};
use nameward_sql::{
    DatabaseAddress,
    db::{ForeignContent, survey as survey_database},
};

use crate::{command_error::CommandError, db};

/// Reports contents that PowerDNS uses and this server does not.
pub fn survey_all(moved: &mut ImportedServer) {
    for backend in &moved.backends {
        let text = |key: &str| {
            let setting = backend.settings.iter().find(|(name, _)| *name == key);
            match setting {
                Some((_, ImportedValue::Text(text))) => Some(text.as_str()),
                _ => None,
            }
        };
        let address = match (text("path"), text("url")) {
            (Some(path), _) => DatabaseAddress::Sqlite(path.into()),
            (_, Some(url)) => match DatabaseAddress::parse(url) {
                Ok(address) => address,
                // Reported when the new configuration is checked.
                Err(_) => continue,
            },
            _ => continue,
        };
        match survey(&address) {
            Ok(found) => {
                for content in found {
                    let text = format!("{address}: {content}");
                    moved
                        .report
                        .add(ImportVerdict::Breaks, &backend.location, text);
                }
            }
            Err(reason) => {
                let text = format!(
                    "{address}: cannot be read ({reason}), contents not checked: run `nameward db check` on a host \
                     that can reach it"
                );
                moved
                    .report
                    .add(ImportVerdict::Changed, &backend.location, text);
            }
        }
    }
}

fn survey(address: &DatabaseAddress) -> Result<Vec<ForeignContent>, ImportRefusal> {
    // Opening a SQLite file that is missing would create it.
    if let DatabaseAddress::Sqlite(path) = address
        && !path.is_file()
    {
        return Err("no such file".into());
    }
    db::wait_for(address, survey_database(address)).map_err(|error| match error {
        CommandError::Database(_, reason) => reason.to_string().into(),
        other => other.to_string().into(),
    })
}
