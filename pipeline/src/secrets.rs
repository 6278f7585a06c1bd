//! Keeping passwords out of what is shown.
//!
//! Whoever makes a message takes care that no password is in it. But people write them where nobody
//! expects them, in place of a file's name or of a flag, and an error repeats what it does not
//! understand. So every error goes through here once more.

use std::borrow::Cow;

const HIDDEN: &str = "***";

/// The text without what looks like a password: `user:password@` of an address, and what follows
/// `password=`.
pub fn hide_passwords(text: &str) -> Cow<'_, str> {
    let mut text = Cow::Borrowed(text);
    let mut from = 0;
    while let Some(at) = find(&text, from) {
        let (start, end) = at;
        text.to_mut().replace_range(start..end, HIDDEN);
        from = start + HIDDEN.len();
    }
    text
}

/// Where the next password stands.
fn find(text: &str, from: usize) -> Option<(usize, usize)> {
    let address = in_address(text, from);
    let assigned = assigned(text, from);
    [address, assigned].into_iter().flatten().min()
}

/// `://user:password@`, up to the last `@` before the host ends.
fn in_address(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = from + text.get(from..)?.find("://")? + 3;
        let ends = |c: char| c.is_whitespace() || c == '"';
        let word = text[start..].find(ends).map_or(text.len(), |length| start + length);
        if let Some(at) = text[start..word].rfind('@')
            && let Some(colon) = text[start..start + at].find(':')
            && text[start + colon + 1..start + at] != *HIDDEN
        {
            return Some((start + colon + 1, start + at));
        }
        from = start;
    }
}

/// `password=…`, `password = '…'`.
fn assigned(text: &str, from: usize) -> Option<(usize, usize)> {
    const WORD: &str = "password";
    let mut from = from;
    loop {
        let word = from + text.get(from..)?.to_ascii_lowercase().find(WORD)? + WORD.len();
        let after = text[word..].trim_start();
        if let Some(value) = after.strip_prefix('=') {
            let value = value.trim_start();
            let start = text.len() - value.len();
            let length = match value.chars().next() {
                Some(quote @ ('\'' | '"')) => {
                    value[1..].find(quote).map_or(value.len(), |at| at + 2)
                }
                _ => value.find([' ', '&', '"', '\'']).unwrap_or(value.len()),
            };
            if length > 0 && value[..length] != *HIDDEN {
                return Some((start, start + length));
            }
        }
        from = word;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_looks_like_a_password_is_hidden() {
        let check = |text: &str, expected: &str| assert_eq!(hide_passwords(text), expected);
        check("postgres://u:s3@cr:et@h:5432/db", "postgres://u:***@h:5432/db");
        check(
            "a b://u:x@h and c://v:y@i/?password=z&a=1",
            "a b://u:***@h and c://v:***@i/?password=***&a=1",
        );
        check("host=h PASSWORD = 'a b' user=u", "host=h PASSWORD = *** user=u");
        check(
            "unexpected argument 'postgres://u:x@h' found",
            "unexpected argument 'postgres://u:***@h' found",
        );
        for plain in
            ["", "postgres://u@h:5432/db", "http://h/a:b", "the password is wrong", "ä://ü"]
        {
            check(plain, plain);
        }
    }
}
