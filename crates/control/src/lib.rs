//! HTTP status page, metrics and API.
