//! DNS cookies in a running server: the secrets of the configuration, of the state store or of a shared database.

use std::sync::{Arc, OnceLock};

use nameward_base::{sync::Mutex, time::now_seconds};
use nameward_control::operations::{
    COOKIE_OVERLAP, ListedCookieSecret, cookie_secret_id, source_text,
};
use nameward_maintain::policy::{PolicySource, RolledCookieSecret};
use nameward_serve::{
    cookies::{CookieSecret, CookieSettings, Cookies, TimedCookieSecret},
    pipeline::ServingState,
};

use crate::config::CookieTable;

/// The secret of a server without configured or shared ones, generated once: client cookies stay valid across a
/// reload.
static OWN: OnceLock<CookieSecret> = OnceLock::new();

/// Keeps the cookies of a server up to date with the configuration and with rolled secrets.
pub struct CookieKeeper {
    shared: Arc<ServingState>,
    inputs: Mutex<(CookieTable, Arc<[RolledCookieSecret]>)>,
}

impl CookieKeeper {
    /// Applies a configuration.
    pub fn new(shared: &Arc<ServingState>, table: &CookieTable) -> Arc<Self> {
        let keeper = CookieKeeper {
            shared: Arc::clone(shared),
            inputs: Mutex::new((table.clone(), Arc::default())),
        };
        keeper.apply(&keeper.inputs.lock());
        Arc::new(keeper)
    }

    /// Applies a changed configuration.
    pub fn set_table(&self, table: &CookieTable) {
        let mut inputs = self.inputs.lock();
        inputs.0 = table.clone();
        self.apply(&inputs);
    }

    /// Applies the secrets of the state store or of a database.
    pub fn set_rolled(&self, rolled: &Arc<[RolledCookieSecret]>) {
        let mut inputs = self.inputs.lock();
        if inputs.1 != *rolled {
            inputs.1 = Arc::clone(rolled);
            self.apply(&inputs);
        }
    }

    /// Lists the secrets in use, given where rolled ones are stored.
    pub fn listed(&self, source: Option<PolicySource>) -> Vec<ListedCookieSecret> {
        let inputs = self.inputs.lock();
        listed(&inputs.0, source, &inputs.1)
    }

    fn apply(&self, (table, rolled): &(CookieTable, Arc<[RolledCookieSecret]>)) {
        let secrets = in_force(table, None, rolled).into_iter();
        let settings = CookieSettings {
            secrets: secrets.map(|(secret, _)| secret).collect(),
            require: table.require,
            require_above: table.require_above.get() as u32,
        };
        let cookies = table.enabled.then(|| Arc::new(Cookies::new(settings)));
        self.shared.cookies.store(cookies);
    }
}

/// Lists the secrets whose cookies are accepted, latest first.
pub fn listed(
    table: &CookieTable,
    source: Option<PolicySource>,
    rolled: &[RolledCookieSecret],
) -> Vec<ListedCookieSecret> {
    let now = now_seconds() as u32;
    let mut secrets = in_force(table, source, rolled);
    secrets.retain(|(secret, _)| table.enabled && secret.accepted_until >= now);
    secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(secret.active_from));
    let active = secrets
        .iter()
        .position(|(secret, _)| secret.active_from <= now);
    let list = secrets.iter().enumerate().map(|(index, (one, source))| {
        let state = match one.active_from {
            _ if Some(index) == active => "active",
            from if from > now && from < u32::MAX => "next",
            _ => "old",
        };
        let time = |time: u32| (time > 0 && time < u32::MAX).then_some(u64::from(time));
        ListedCookieSecret {
            id: cookie_secret_id(one.secret.reveal()),
            state: state.into(),
            source: source.clone(),
            active_from: time(one.active_from),
            accepted_until: time(one.accepted_until),
        }
    });
    list.collect()
}

/// Returns the secrets with their sources. If any are configured, no others are used.
fn in_force(
    table: &CookieTable,
    source: Option<PolicySource>,
    rolled: &[RolledCookieSecret],
) -> Vec<(TimedCookieSecret, String)> {
    let mut configured = table.secrets.iter().cloned();
    if let Some(first) = configured.next() {
        let others = configured.map(TimedCookieSecret::accepted);
        let all = std::iter::once(TimedCookieSecret::always(first)).chain(others);
        return all.map(|one| (one, "configuration".into())).collect();
    }
    let mut rolled: Vec<_> = rolled.iter().collect();
    rolled.sort_by_key(|one| one.active_from);
    let time = |time: u64| u32::try_from(time).unwrap_or(u32::MAX);
    let own = OWN.get_or_init(CookieSecret::random).clone();
    let mut all = vec![(TimedCookieSecret::always(own), "memory".to_owned())];
    for one in rolled {
        // The one before it is accepted until no valid cookie can be its.
        if let Some((before, _)) = all.last_mut() {
            before.accepted_until = time(one.active_from + COOKIE_OVERLAP);
        }
        if let Some(secret) = CookieSecret::from_octets(one.secret.clone()) {
            let secret = TimedCookieSecret {
                active_from: time(one.active_from),
                ..TimedCookieSecret::always(secret)
            };
            all.push((secret, source.map(source_text).unwrap_or_default()));
        }
    }
    all
}
