//! `nameward cache flush`: drops entries of live zones and ALIAS targets by name.

use nameward_control::operations::{OperationError, Outcome};
use nameward_serve::pipeline::ServingState;
use nameward_wire::{Name, NameBuf};

/// Drops all entries, those of a name, or with a final `$` those at and below a name. Returns their number.
pub fn flush(shared: &ServingState, what: Option<&str>) -> Outcome<usize> {
    let name = |text: &str| {
        NameBuf::from_text(text.as_bytes(), Name::ROOT)
            .map_err(|error| OperationError::invalid(format!("invalid name {text:?}: {error}")))
    };
    let outdate = |is_meant: &dyn Fn(Name<'_>) -> bool| {
        let mut count = 0;
        for zone in shared.zones.load().zones() {
            if let Some(live) = zone.live()
                && is_meant(zone.apex_name())
            {
                live.advance();
                count += shared.live.forget(Some(live));
            }
        }
        count
    };
    let drop_kept = |is_meant: &dyn Fn(Name<'_>) -> bool| {
        let targets = shared
            .aliases()
            .map_or(0, |aliases| aliases.flush(is_meant));
        targets + shared.live.flush(is_meant)
    };
    Ok(match what {
        None => outdate(&|_| true) + shared.live.forget(None) + drop_kept(&|_| true),
        Some(text) => match text.strip_suffix('$') {
            Some(text) => {
                let top = name(text)?;
                let is_below = |name: Name<'_>| name.is_at_or_below(top.as_name());
                outdate(&is_below) + drop_kept(&is_below)
            }
            None => {
                let exact = name(text)?;
                drop_kept(&|name| name == exact.as_name())
            }
        },
    })
}
