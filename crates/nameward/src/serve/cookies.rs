//! DNS cookies in a running server: applies the configuration.

use std::sync::{Arc, OnceLock};

use nameward_serve::{
    cookies::{CookieSecret, CookieSettings, Cookies},
    pipeline::ServingState,
};

use crate::config::Config;

/// The secret of a server without configured ones, made once: a reload leaves the cookies of clients valid.
static OWN: OnceLock<CookieSecret> = OnceLock::new();

/// Applies a configuration.
pub fn apply(shared: &ServingState, config: &Config) {
    let table = &config.cookies;
    let mut secrets = table.secrets.clone();
    if secrets.is_empty() {
        secrets.push(OWN.get_or_init(CookieSecret::random).clone());
    }
    let settings = CookieSettings {
        secrets,
        require: table.require,
        require_above: table.require_above.get() as u32,
    };
    let cookies = table.enabled.then(|| Arc::new(Cookies::new(settings)));
    shared.cookies.store(cookies);
}
