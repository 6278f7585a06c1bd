//! [`KeyField`]: the types that can name series, and how their keys are written.
//!
//! As in [`fields`](super::fields), no bytes make a decoder panic.

use super::fields::{IntegerField, base, fixed, is_text};
use millstream_postgres::types::{Kind, Type};
use std::fmt::Write;

/// A column that names series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyField {
    Text,
    /// `citext`, which takes names for the same whose letters differ in case only.
    Caseless,
    /// `char(n)`, whose trailing blanks mean nothing.
    Padded,
    Integer(IntegerField),
    Uuid,
}

impl KeyField {
    pub(crate) fn of(kind: &Type) -> Option<Self> {
        match base(kind) {
            kind if *kind == Type::BPCHAR => Some(KeyField::Padded),
            kind if *kind == Type::UUID => Some(KeyField::Uuid),
            kind if kind.name() == "citext" && *kind.kind() == Kind::Simple => {
                Some(KeyField::Caseless)
            }
            kind if is_text(kind) || matches!(kind.kind(), Kind::Enum(_)) => Some(KeyField::Text),
            kind => IntegerField::of(kind).map(KeyField::Integer),
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            KeyField::Text | KeyField::Caseless | KeyField::Padded => "UTF-8 text",
            KeyField::Integer(integer) => integer.name(),
            KeyField::Uuid => "uuid",
        }
    }

    /// The name, in the bytes themselves or written to `scratch`.
    pub(crate) fn decode<'a>(self, bytes: &'a [u8], scratch: &'a mut String) -> Option<&'a str> {
        scratch.clear();
        match self {
            KeyField::Text | KeyField::Caseless => return str::from_utf8(bytes).ok(),
            KeyField::Padded => {
                return str::from_utf8(bytes).ok().map(|text| text.trim_end_matches(' '));
            }
            KeyField::Integer(integer) => write!(scratch, "{}", integer.decode(bytes)?),
            KeyField::Uuid => {
                let digits = u128::from_be_bytes(fixed(bytes)?);
                let group =
                    |shift: u32, letters: u32| (digits >> shift) & ((1 << (4 * letters)) - 1);
                let (a, b, c, d, e) =
                    (group(96, 8), group(80, 4), group(64, 4), group(48, 4), group(0, 12));
                write!(scratch, "{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
            }
        }
        .expect("a string takes all that is written");
        Some(scratch)
    }

    /// A name that somebody wrote, as [`decode`](Self::decode) writes the key that the server
    /// takes it for. What it does not take for one stays as it is.
    pub(crate) fn spell(self, name: &str) -> String {
        let spelled = match self {
            KeyField::Text | KeyField::Caseless => None,
            KeyField::Padded => Some(name.trim_end_matches(' ').to_owned()),
            KeyField::Integer(_) => name.trim().parse().ok().map(|n: i64| n.to_string()),
            KeyField::Uuid => {
                let digits = name.replace(['-', '{', '}'], "");
                let is_uuid = digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit());
                let key = u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid);
                key.and_then(|key| {
                    self.decode(&key.to_be_bytes(), &mut String::new()).map(str::to_owned)
                })
            }
        };
        spelled.unwrap_or_else(|| name.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_are_written_as_the_server_writes_them() {
        let scratch = &mut String::new();
        let uuid = 0x0123_4567_89ab_cdef_0011_2233_4455_6677_u128.to_be_bytes();
        let found = KeyField::Uuid.decode(&uuid, scratch);
        assert_eq!(found, Some("01234567-89ab-cdef-0011-223344556677"));
        assert_eq!(KeyField::Padded.decode(b"ab  ", scratch), Some("ab"));
        let number = KeyField::Integer(IntegerField::Int2).decode(&[0xff, 0xfe], scratch);
        assert_eq!(number, Some("-2"));
    }

    #[test]
    fn names_are_spelled_as_the_keys_they_stand_for() {
        let check = |field: KeyField, name: &str, expected: &str| {
            assert_eq!(field.spell(name), expected, "{field:?}");
        };
        let uuid = "01234567-89ab-cdef-0011-223344556677";
        check(KeyField::Uuid, &uuid.to_uppercase(), uuid);
        check(KeyField::Uuid, "{0123456789ABCDEF0011223344556677}", uuid);
        check(KeyField::Uuid, "no uuid", "no uuid");
        check(KeyField::Integer(IntegerField::Int4), " +07", "7");
        check(KeyField::Padded, "ab  ", "ab");
        check(KeyField::Text, "ab  ", "ab  ");
    }

    proptest! {
        #[test]
        fn nothing_makes_a_key_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..40),
            name in any::<String>(),
        ) {
            use IntegerField::{Int2, Int4, Int8};
            let scratch = &mut String::new();
            let integers = [Int2, Int4, Int8].map(KeyField::Integer);
            let others = [KeyField::Text, KeyField::Caseless, KeyField::Padded, KeyField::Uuid];
            for field in integers.into_iter().chain(others) {
                field.decode(&bytes, scratch);
                field.spell(&name);
            }
        }
    }
}
