//! What every shared-string newtype of this crate has in common.
//!
//! No rules live here: each type checks its own in `new`.

/// Gives a newtype over `Arc<str>` its accessor, `Display`, `Borrow<str>` and `Serialize`.
///
/// `Hash`, `Eq` and `Ord` must be derived, so that they agree with those of the borrowed `str`.
macro_rules! shared_text {
    ($name:ident) => {
        impl $name {
            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }
    };
}

/// Gives such a newtype a `Deserialize` that lets nothing past its `new(&str)`.
macro_rules! checked_deserialize {
    ($name:ident) => {
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
                Self::new(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {checked_deserialize, shared_text};
