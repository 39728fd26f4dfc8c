//! Plans and encodes one response.
