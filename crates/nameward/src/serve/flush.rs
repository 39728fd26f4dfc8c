//! Owns `nameward cache flush`: what is kept of live zones, dropped by name.

use nameward_serve::pipeline::Shared;
use nameward_wire::{Name, NameBuf};

/// What `nameward cache flush` is for: everything, a name, or with a final `$` all at and below a name.
pub fn flush(shared: &Shared, what: Option<&str>) -> Result<String, String> {
    let name = |text: &str| -> Result<NameBuf, String> {
        NameBuf::from_text(text.as_bytes(), Name::ROOT)
            .map_err(|error| format!("{text:?} is no name: {error}"))
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
    let count = match what {
        None => outdate(&|_| true) + shared.live.forget(None) + shared.live.flush(&|_| true),
        Some(text) => match text.strip_suffix('$') {
            Some(text) => {
                let top = name(text)?;
                let is_below = |name: Name<'_>| name.is_at_or_below(top.as_name());
                outdate(&is_below) + shared.live.flush(&is_below)
            }
            None => {
                let exact = name(text)?;
                shared.live.flush(&|name| name == exact.as_name())
            }
        },
    };
    let noun = if count == 1 { "entry" } else { "entries" };
    Ok(format!("{count} {noun} dropped from the caches\n"))
}
