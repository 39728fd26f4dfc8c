//! Secrets in requests and replies, which are not revealed anywhere else.

use nameward_base::secret::Secret;
use serde::{Deserialize, Serialize, Serializer};

/// A secret on the control socket.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "String")]
pub struct SecretText(pub Secret<String>);

impl SecretText {
    /// Returns the text itself.
    pub fn reveal(&self) -> &str {
        self.0.reveal()
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        SecretText(text.into())
    }
}

impl Serialize for SecretText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.reveal())
    }
}
