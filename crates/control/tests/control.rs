//! Tests of the status page, the metrics and the API. All modules link into one binary.

mod web;
