//! What can be told of `source.where` without asking the server: whether it keeps to itself, and
//! whether it names all that decides which rows it chooses.
//!
//! A condition stands in parentheses among others. One that closes more than it opens would switch
//! `source.symbols`, `source.from` and `source.to` off, and a comment would swallow them. It is cut into
//! pieces as PostgreSQL cuts SQL, and no further: whether it makes sense is for the server to say.

use crate::LoadError;

/// A piece of SQL, without the blanks around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Piece<'a> {
    /// A name or a keyword.
    Word(&'a str),
    /// A name in double quotes.
    Name,
    /// A text in quotes or dollars.
    Text,
    Open,
    Close,
    /// The beginning of a comment.
    Comment,
    /// A quote that nothing closes.
    Unclosed,
    /// A letter of anything else.
    Other(char),
}

/// Words that stand before a parenthesis and call nothing that could be replaced: keywords, forms
/// that are part of the language, and types that have a length.
const NO_CALLS: &str = "all and any array as asymmetric between case distinct else exists from ilike \
    in is like not or row some symmetric then to values when \
    cast coalesce greatest least nullif \
    bit char character dec decimal float interval numeric time timestamp varchar";

/// Words that ask for something besides the row, without a parenthesis: tables, the clock, the role.
const ASKS: &str = "select table current_date current_time current_timestamp localtime localtimestamp \
    current_catalog current_role current_schema current_user session_user user";

/// Refuses a condition that would reach beyond its parentheses.
///
/// # Errors
/// [`LoadError::Setting`].
pub(crate) fn check(condition: &str) -> Result<(), LoadError> {
    let refused =
        |expected| LoadError::Setting { key: "where", value: condition.to_owned(), expected };
    if condition.trim().is_empty() {
        return Err(refused("it is empty; write a condition such as volume > 0, or leave it out"));
    }
    let mut open = 0_u32;
    for piece in Pieces(condition) {
        match piece {
            Piece::Open => open += 1,
            Piece::Close => {
                open = open.checked_sub(1).ok_or_else(|| {
                    refused("it closes a parenthesis that it did not open; open it, or take it out")
                })?;
            }
            Piece::Comment => {
                return Err(refused(
                    "a comment (-- or /*) has no place in it; take it out, or put a blank between two minus signs",
                ));
            }
            Piece::Unclosed => {
                return Err(refused("a quote in it is opened and not closed; close it"));
            }
            Piece::Word(_) | Piece::Name | Piece::Text | Piece::Other(_) => {}
        }
    }
    match open {
        0 => Ok(()),
        _ => Err(refused("it opens a parenthesis that it does not close; close it")),
    }
}

/// Whether a condition may choose other rows of a table that is the same: it has a SELECT, or calls
/// a function, which can be replaced and can read whatever it likes.
pub(crate) fn asks_elsewhere(condition: &str) -> bool {
    let among = |list: &str, word: &str| list.split(' ').any(|one| one.eq_ignore_ascii_case(word));
    let (mut before, mut last) = (None, None);
    for piece in Pieces(condition) {
        let calls = match last {
            // A function of a schema may have any name.
            Some(Piece::Word(_)) if before == Some(Piece::Other('.')) => true,
            Some(Piece::Word(word)) => !among(NO_CALLS, word),
            Some(Piece::Name) => true,
            _ => false,
        };
        let asks = matches!(piece, Piece::Word(word) if among(ASKS, word));
        if asks || (calls && piece == Piece::Open) {
            return true;
        }
        (before, last) = (last, Some(piece));
    }
    false
}

/// The pieces of a condition; after a comment or a quote that is not closed there are no more.
struct Pieces<'a>(&'a str);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let text = self.0.trim_start();
        let first = text.chars().next()?;
        let (piece, length) = match first {
            '(' => (Piece::Open, 1),
            ')' => (Piece::Close, 1),
            '\'' => quoted(text, '\'', false, Piece::Text),
            '"' => quoted(text, '"', false, Piece::Name),
            '$' => in_dollars(text),
            _ if text.starts_with("--") || text.starts_with("/*") => (Piece::Comment, text.len()),
            _ if is_word(first) => {
                let length = text.find(|c| !is_word(c) && c != '$').unwrap_or(text.len());
                let (word, rest) = text.split_at(length);
                // In such a text, a backslash is not a letter like any other.
                if word.eq_ignore_ascii_case("e") && rest.starts_with('\'') {
                    let (piece, more) = quoted(rest, '\'', true, Piece::Text);
                    (piece, length + more)
                } else {
                    (Piece::Word(word), length)
                }
            }
            other => (Piece::Other(other), other.len_utf8()),
        };
        self.0 = &text[length..];
        Some(piece)
    }
}

/// Whether a letter can be one of a name; digits are taken for such, too, as they call nothing.
fn is_word(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || !letter.is_ascii()
}

/// What begins with a quote, and its length. A quote within is written twice.
fn quoted<'a>(text: &str, quote: char, escapes: bool, piece: Piece<'a>) -> (Piece<'a>, usize) {
    let mut letters = text.char_indices().skip(1).peekable();
    while let Some((at, letter)) = letters.next() {
        if escapes && letter == '\\' {
            letters.next();
        } else if letter == quote && letters.next_if(|(_, next)| *next == quote).is_none() {
            return (piece, at + quote.len_utf8());
        }
    }
    (Piece::Unclosed, text.len())
}

/// What begins with a dollar: `$$…$$`, `$tag$…$tag$`, or the dollar alone.
fn in_dollars<'a>(text: &str) -> (Piece<'a>, usize) {
    let Some(tag) = text[1..].find(|c| !is_word(c)).map(|end| end + 1) else {
        return (Piece::Other('$'), 1);
    };
    if !text[tag..].starts_with('$') || text[1..].starts_with(|c: char| c.is_ascii_digit()) {
        return (Piece::Other('$'), 1);
    }
    let (tag, rest) = text.split_at(tag + 1);
    match rest.find(tag) {
        Some(end) => (Piece::Text, tag.len() + end + tag.len()),
        None => (Piece::Unclosed, text.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_refused(condition: &str, expected: Option<&str>) {
        let found = check(condition).map_err(|error| error.to_string());
        match (found, expected) {
            (Ok(()), None) => {}
            (Err(error), Some(expected)) if error.contains(expected) => {
                assert!(error.starts_with("source.where = ") && !error.contains('\n'), "{error}");
            }
            (found, _) => panic!("{condition}: {found:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn a_condition_that_reaches_beyond_its_parentheses_is_refused() {
        for fine in [
            "a > 1",
            "(a > 1) or (b = ')')",
            "\"odd )\" > 1 and \"a\"\")\" < 1",
            "a = '''' or a = 'it''s )'",
            "a = '\\' and (b = ')')",
            "a = E'\\')' or a = e'\\\\'",
            "a = $$)'--$$ or a = $tag$ $$) $tag$",
            "a - -1 > b / 2 * 3",
            "a$b$ > (1)",
            "größe > 1 and name = '–)'",
        ] {
            check_refused(fine, None);
        }
        check_refused(" \n", Some("it is empty"));
        check_refused("a > 1) or (true", Some("closes a parenthesis that it did not open"));
        check_refused("a = E'\\'') or (true", Some("closes a parenthesis"));
        check_refused("a$b$) or ($b$", Some("closes a parenthesis"));
        check_refused("(a > 1", Some("opens a parenthesis that it does not close"));
        check_refused("a > 1 -- or more", Some("a comment (-- or /*)"));
        check_refused("a > 1 /* or more */", Some("a comment (-- or /*)"));
        check_refused("a = 'x", Some("opened and not closed"));
        check_refused("\"a > 1", Some("opened and not closed"));
        check_refused("a = $x$ 1 $y$", Some("opened and not closed"));
    }

    #[test]
    fn what_a_select_or_a_function_says_is_elsewhere() {
        let check = |condition: &str, expected: bool| {
            assert_eq!(asks_elsewhere(condition), expected, "{condition}");
        };
        check("close > 1 and (volume between 1 and 2 or not (a <> 'x'))", false);
        check("symbol in ('A', 'select f(1)') AND day >= date '2020-01-01'", false);
        check("symbol = ANY (array['A', 'B']) or symbol like ('A%')", false);
        check("coalesce(a, 0) > CAST(b AS numeric(10, 2)) and c::varchar(3) is not null", false);
        check("symbol similar to ('A%') and day >= '2020-01-01'::timestamp with time zone", false);
        check("case when (a > 1) then (b) else (c) end = 1", false);
        check("\"select\" = 1 and t.\"user\" = 'current_user'", false);
        check("symbol in (select sym from params)", true);
        check("symbol in (TABLE params)", true);
        check("a > abs(b)", true);
        check("a > abs (b)", true);
        check("\"F\"(a)", true);
        check("s.in(a)", true);
        check("größe(a) > 1", true);
        check("day < current_date", true);
    }
}
