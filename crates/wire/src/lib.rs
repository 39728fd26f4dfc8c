//! Names, messages, record data, presentation text and the zone-file parser.
