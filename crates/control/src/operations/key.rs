//! Operations on DNSSEC keys, signing settings, and the DS records at the parent.

pub(super) mod ds_advice;
pub(super) mod errors;
pub(super) mod parent;
pub(super) mod rollover;
pub(super) mod secure_all;
pub(super) mod signing_settings;
pub(super) mod signing_status;
pub(super) mod template;
pub(super) mod text;
pub(super) mod zone_keys;
