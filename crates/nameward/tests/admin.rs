//! The web administration through a browser: login, sessions, forms, previews, and hostile requests and contents.

mod browser;
mod changes;
mod hostile;
mod rights;
mod visitor;
